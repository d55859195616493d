/**
 * Assigns the samples of a step's window to ranks. If a step fails because its generation ends,
 * another generation retries the step. Ranks keep the gradients that they computed for the step.
 * Only samples without a kept gradient are assigned again: they are divided among all ranks. If no
 * rank keeps a gradient, all samples of a new window are divided.
 */
import { equalPartOfWindow, type DataCursorPosition } from '../data/cursor.ts';

/** The window of a step: its samples, by their positions in the epoch. */
export interface AssignedWindow extends DataCursorPosition {
  /** Number of samples. */
  size: number;
  /** Generation in which the window was first assigned. */
  assignedIn: number;
}

/**
 * The part of an interrupted step that a rank has computed: one gradient, summed over some samples
 * of the window.
 */
export interface RetainedGradient {
  window: AssignedWindow;
  /** Positions in the window, 0 .. size-1, of the samples that are in the gradient. */
  positions: Uint32Array;
}

/**
 * Returns the retained gradients of the next step, by rank. A gradient of an earlier step or of
 * another state is dropped.
 */
export function currentRetainedGradients(
  arrivals: readonly { isCurrent: boolean; note: { retained: RetainedGradient | null } }[],
): (RetainedGradient | null)[] {
  return arrivals.map(({ isCurrent, note }) => (isCurrent ? note.retained : null));
}

/** Samples of one rank. */
interface SampleAssignment {
  window: AssignedWindow;
  /** Whether the rank's retained gradient is used. Otherwise the rank must drop it. */
  retains: boolean;
  /** Positions in the window, 0 .. size-1, of the samples to compute; ascending. */
  positions: Uint32Array;
  /** Number of micro-batches. It is equal on all ranks, so some may be empty. */
  microBatches: number;
}

/**
 * Assigns the next step's window. Every rank computes the same result from the same
 * `retainedGradients`.
 *
 * Among the windows with retained gradients, the window that was assigned last is used, because
 * most ranks have worked on it. Without retained gradients, `fresh` is used. A gradient is a sum
 * and cannot be divided. If the gradients of several ranks contain the same sample, the lowest of
 * these ranks keeps its gradient and the other ranks drop theirs.
 *
 * @param retainedGradients retained gradients of the next step, by rank.
 * @param batchSize largest number of samples in a micro-batch.
 */
export function assignSamples(
  fresh: AssignedWindow,
  retainedGradients: readonly (RetainedGradient | null)[],
  { rank, batchSize }: { rank: number; batchSize: number },
): SampleAssignment {
  let window = fresh;
  let hasRetained = false;
  for (const retained of retainedGradients) {
    if (!retained || (hasRetained && retained.window.assignedIn <= window.assignedIn)) continue;
    window = retained.window;
    hasRetained = true;
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
    positions: equalPartOfWindow(orphans, rank, retainedGradients.length),
    microBatches: Math.max(1, Math.ceil(largestPart / batchSize)),
  };
}

function isSameWindow(a: AssignedWindow, b: AssignedWindow): boolean {
  return a.assignedIn === b.assignedIn && a.epoch === b.epoch && a.offset === b.offset && a.size === b.size;
}
