/** Files that this tab's user chose: data, and what the room's first run starts from. */
import type { Preview } from '../../spec/preview.ts';
import type { EventOf } from './events.ts';

export interface OriginView {
  /** Progress of reading the files that this tab shares with all. */
  reading: { bytes: number; total: number } | null;
  /** Content or problem of this tab's data files; both `null` while they are read. */
  files: { preview: Preview | null; problem: string | null } | null;
  /** Steps of this tab's checkpoint that the room's first run continues. */
  resumesAfter: number | null;
  /** This tab's file whose weights the room's first run begins with. */
  beginsWith: string | null;
}

export const initialOrigin: OriginView = {
  reading: null,
  files: null,
  resumesAfter: null,
  beginsWith: null,
};

export type OriginEvent = EventOf<'reading' | 'preview' | 'checkpoint' | 'weights'>;

export function reduceOrigin(event: OriginEvent): Partial<OriginView> {
  switch (event.type) {
    case 'reading':
      return { reading: { bytes: event.bytes, total: event.total } };
    case 'preview':
      return { files: { preview: event.preview, problem: event.problem } };
    case 'checkpoint':
      return { resumesAfter: event.step };
    case 'weights':
      return { beginsWith: event.file };
    default:
      return event satisfies never;
  }
}

/** The origin after a run has begun: it is used up, unless the run only tests learning rates. */
export function withoutOrigin(origin: OriginView, isRangeTest: boolean): Partial<OriginView> {
  return { resumesAfter: null, beginsWith: isRangeTest ? origin.beginsWith : null };
}

/** The origin after reading has failed: an unfinished progress is cleared. */
export function withoutPartialReading({ reading }: OriginView): Partial<OriginView> {
  return { reading: reading?.bytes === reading?.total ? reading : null };
}
