/** Files that this tab's user chose: data, and what the room's first run starts from. */
import type { Preview } from '../../spec/preview.ts';
import type { EventOf } from './events.ts';

export interface OriginView {
  /** Progress of reading the files that this tab shares with all. */
  reading: { bytes: number; total: number } | null;
  /** Content or problem of this tab's data files; both `null` while they are read. */
  files: { preview: Preview | null; problem: string | null } | null;
  /** Steps of this tab's checkpoint that the room's first run continues. */
  goesOnAfter: number | null;
  /** This tab's file whose weights the room's first run begins with. */
  beginsWith: string | null;
}

export const initialOrigin: OriginView = {
  reading: null,
  files: null,
  goesOnAfter: null,
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
      return { goesOnAfter: event.step };
    case 'weights':
      return { beginsWith: event.file };
    default:
      return event satisfies never;
  }
}

/** Where a run begins: its origin is used up, unless the run only tests learning rates. */
export function withoutOrigin(origin: OriginView, isRangeTest: boolean): Partial<OriginView> {
  return { goesOnAfter: null, beginsWith: isRangeTest ? origin.beginsWith : null };
}

/** Where reading failed: no progress is shown for files that are not read to their end. */
export function withoutPartialReading({ reading }: OriginView): Partial<OriginView> {
  return { reading: reading?.bytes === reading?.total ? reading : null };
}
