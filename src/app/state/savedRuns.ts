/** Finds the runs with checkpoints in this browser, for the front page. */
import { signal, type ReadonlySignal } from '@preact/signals';
import { Checkpoints, isSameRun, type CheckpointList } from '../../engine/storage/checkpoints.ts';
import type { CheckpointMeta } from '../../formats/checkpoint.ts';
import { errorMessageOf } from '../../util/errors.ts';

/** The checkpoints of one run, newest first. */
export type SavedRunCheckpoints = readonly [CheckpointMeta, ...CheckpointMeta[]];

interface SavedRuns {
  runs: readonly SavedRunCheckpoints[];
  damaged: CheckpointList['damaged'];
  /** The error of the storage; `null` without an error. */
  problem: string | null;
}

const found = signal<SavedRuns>({ runs: [], damaged: [], problem: null });
export const savedRuns: ReadonlySignal<SavedRuns> = found;

/**
 * Checkpoints whose content is damaged, with the reason. The damage is found only when the content
 * is read, because the headers do not show it.
 */
const unreadable = new Map<string, string>();

/** Groups checkpoints by room and job. Their order, newest first, does not change. */
export function groupCheckpointsByRun(checkpoints: readonly CheckpointMeta[]): SavedRunCheckpoints[] {
  const runs: [CheckpointMeta, ...CheckpointMeta[]][] = [];
  for (const one of checkpoints) {
    const run = runs.find(([latest]) => isSameRun(latest, one));
    if (run) run.push(one);
    else runs.push([one]);
  }
  return runs;
}

/** Finds the stored runs. The list is empty if storage is blocked. */
export async function reloadSavedRuns(): Promise<void> {
  try {
    const { checkpoints, damaged } = await (await Checkpoints.open()).list();
    found.value = {
      runs: groupCheckpointsByRun(checkpoints.filter(({ id }) => !unreadable.has(id))),
      damaged: [
        ...damaged,
        ...checkpoints.flatMap(({ id }) => (unreadable.has(id) ? [{ id, reason: unreadable.get(id)! }] : [])),
      ],
      problem: null,
    };
  } catch {
    found.value = { runs: [], damaged: [], problem: null };
  }
}

export async function removeCheckpoints(ids: readonly string[]): Promise<void> {
  try {
    const checkpoints = await Checkpoints.open();
    for (const id of ids) await checkpoints.remove(id);
    await reloadSavedRuns();
  } catch (error) {
    found.value = { ...found.value, problem: errorMessageOf(error) };
  }
}

/**
 * Returns the latest undamaged checkpoint of a run; `null` if all are damaged. Damaged checkpoints
 * that it finds are shown as damaged when the runs are looked up again.
 */
export async function latestUndamagedCheckpoint(run: SavedRunCheckpoints): Promise<CheckpointMeta | null> {
  for (const meta of run) {
    try {
      await (await Checkpoints.open()).load(meta.id);
      return meta;
    } catch (error) {
      unreadable.set(meta.id, errorMessageOf(error));
    }
  }
  await reloadSavedRuns();
  return null;
}
