/**
 * Who computes which samples of a step's window. A step that failed with its world is taken again
 * by another one: what ranks have computed of it they hold, and only what nobody holds is dealt out
 * anew, to all. A window that was never tried is the case in which nobody holds anything.
 */
import { splitWindow, type CursorPosition } from '../data/cursor.ts';

/** Samples of a step, by where they lie in the pass. */
export interface StepWindow extends CursorPosition {
  /** Samples in it. */
  size: number;
  /** Generation (of membership) in which it was first dealt out. */
  assignedIn: number;
}

/** What a rank has computed of a step that was not applied. */
export interface RetainedGradient {
  window: StepWindow;
  /** Samples whose gradients it holds, added up: 0 .. size-1. */
  positions: Uint32Array;
}

/**
 * Holdings of the step that comes next, by rank: a gradient of an earlier step, or of another
 * state, is worth nothing.
 */
export function currentGradients(
  arrivals: readonly { isCurrent: boolean; note: { retained: RetainedGradient | null } }[],
): (RetainedGradient | null)[] {
  return arrivals.map(({ isCurrent, note }) => (isCurrent ? note.retained : null));
}

/** A rank's part. */
interface SampleAssignment {
  window: StepWindow;
  /** Whether what it holds counts; otherwise it must be dropped. */
  retains: boolean;
  /** What it has to compute: 0 .. size-1, in order. */
  positions: Uint32Array;
  /** Micro-batches that this takes, the same number on all ranks: some may be empty. */
  microBatches: number;
}

/**
 * Deals out the next step's window. Every rank comes to the same result from the same
 * retainedGradients.
 *
 * The window is the one that was dealt out last among those that ranks hold parts of, for it has
 * the most ranks behind it; without any, `fresh`. A gradient is a sum and cannot be taken apart: of
 * ranks that hold the same sample the lowest keeps all it holds, the others nothing.
 *
 * @param retainedGradients by rank, of the step that comes next.
 * @param batchSize most samples of a micro-batch.
 */
export function assignSamples(
  fresh: StepWindow,
  retainedGradients: readonly (RetainedGradient | null)[],
  { rank, batchSize }: { rank: number; batchSize: number },
): SampleAssignment {
  let window = fresh;
  let isHeld = false;
  for (const retained of retainedGradients) {
    if (!retained || (isHeld && retained.window.assignedIn <= window.assignedIn)) continue;
    window = retained.window;
    isHeld = true;
  }
  const isTaken = new Uint8Array(window.size);
  const keeps = retainedGradients.map((retained) => {
    if (!retained || !isSameWindow(retained.window, window)) return false;
    if (retained.positions.some((position) => isTaken[position] === 1)) return false;
    for (const position of retained.positions) isTaken[position] = 1;
    return true;
  });
  const orphans = Uint32Array.from(isTaken.keys()).filter((position) => isTaken[position] === 0);
  const largestPart = Math.ceil(orphans.length / retainedGradients.length);
  return {
    window,
    retains: keeps[rank]!,
    positions: splitWindow(orphans, rank, retainedGradients.length),
    microBatches: Math.max(1, Math.ceil(largestPart / batchSize)),
  };
}

function isSameWindow(a: StepWindow, b: StepWindow): boolean {
  return a.assignedIn === b.assignedIn && a.epoch === b.epoch && a.offset === b.offset && a.size === b.size;
}
