/**
 * State of the files that the user of this tab chose: data, and the file that the first run of the
 * room starts from.
 */
import type { EventOf, LoadProgress } from '../../protocol/events.ts';
import type { DataNote, DataPreview } from '../../spec/preview.ts';

export interface ChosenFilesView {
  /** Progress of reading the files that this tab shares with all other tabs. */
  reading: { bytes: number; total: number } | null;
  /**
   * The content of this tab's data files, or the problem with them. Both are `null` while the files
   * are read.
   */
  files: { preview: DataPreview | null; problem: string | null } | null;
  /** Progress of reading this tab's data files for their preview; `null` if none are read. */
  opening: LoadProgress | null;
  /**
   * The number of steps in the checkpoint of this tab that the first run of the room continues.
   * `null` if it continues none.
   */
  resumesAfter: number | null;
  /**
   * The name of this tab's file from which the first run of the room takes its initial weights;
   * `null` without such a file.
   */
  beginsWith: string | null;
  /** Notes about arrays of that file that are left out or rounded. */
  weightNotes: readonly DataNote[];
}

export const initialRunOriginView: ChosenFilesView = {
  reading: null,
  files: null,
  opening: null,
  resumesAfter: null,
  beginsWith: null,
  weightNotes: [],
};

export type RunOriginEvent = EventOf<'reading' | 'opening' | 'preview' | 'checkpoint' | 'weights'>;

export function reduceRunOrigin(event: RunOriginEvent): Partial<ChosenFilesView> {
  switch (event.type) {
    case 'reading':
      return { reading: { bytes: event.bytes, total: event.total } };
    case 'opening':
      return { opening: event.loading };
    case 'preview':
      return { files: { preview: event.preview, problem: event.problem }, opening: null };
    case 'checkpoint':
      return { resumesAfter: event.step };
    case 'weights':
      return { beginsWith: event.file, weightNotes: event.notes };
    default:
      return event satisfies never;
  }
}

/**
 * Returns the origin after a run has begun. The run has used the origin, so the origin is cleared.
 * But a run that only measures does not change the weights, so they stay the origin of the next
 * run.
 */
export function withoutRunOrigin(origin: ChosenFilesView, onlyMeasures: boolean): Partial<ChosenFilesView> {
  return { resumesAfter: null, beginsWith: onlyMeasures ? origin.beginsWith : null };
}

/** Returns the origin after reading has failed: unfinished progress is cleared. */
export function withoutReadingProgress({ reading }: ChosenFilesView): Partial<ChosenFilesView> {
  return { reading: reading?.bytes === reading?.total ? reading : null };
}
