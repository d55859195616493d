/**
 * Who computes which samples of a step's window. A step that failed with its world is taken again by another one: what ranks have
 * computed of it they hold, and only what nobody holds is dealt out anew, to all. A window that was never tried is the case
 * in which nobody holds anything.
 */
import { dealWindow, type CursorPosition } from '../data/cursor.ts';

/** Samples of a step, by where they lie in the pass. */
export interface DealtWindow extends CursorPosition {
  /** Samples in it. */
  size: number;
  /** Epoch (of membership) in which it was first dealt out. */
  dealtIn: number;
}

/** What a rank has computed of a step that was not applied. */
export interface Holding {
  window: DealtWindow;
  /** Samples whose gradients it holds, added up: 0 .. size-1. */
  positions: Uint32Array;
}

/** Holdings of the step that comes next, by rank: a gradient of an earlier step, or of another state, is worth nothing. */
export function holdingsThatCount(
  arrivals: readonly { isCurrent: boolean; note: { holding: Holding | null } }[],
): (Holding | null)[] {
  return arrivals.map(({ isCurrent, note }) => (isCurrent ? note.holding : null));
}

/** A rank's part. */
interface Deal {
  window: DealtWindow;
  /** Whether what it holds counts; otherwise it must be dropped. */
  keeps: boolean;
  /** What it has to compute: 0 .. size-1, in order. */
  positions: Uint32Array;
  /** Micro-batches that this takes, the same number on all ranks: some may be empty. */
  rounds: number;
}

/**
 * Deals out the next step's window. Every rank comes to the same result from the same holdings.
 *
 * The window is the one that was dealt out last among those that ranks hold parts of, for it has the most ranks behind it;
 * without any, `fresh`. A gradient is a sum and cannot be taken apart: of ranks that hold the same sample the lowest keeps all it
 * holds, the others nothing.
 *
 * @param holdings by rank, of the step that comes next.
 * @param batchSize most samples of a micro-batch.
 */
export function deal(
  fresh: DealtWindow,
  holdings: readonly (Holding | null)[],
  { rank, batchSize }: { rank: number; batchSize: number },
): Deal {
  let window = fresh;
  let isHeld = false;
  for (const holding of holdings) {
    if (!holding || (isHeld && holding.window.dealtIn <= window.dealtIn)) continue;
    window = holding.window;
    isHeld = true;
  }
  const isTaken = new Uint8Array(window.size);
  const keeps = holdings.map((holding) => {
    if (!holding || !isSameWindow(holding.window, window)) return false;
    if (holding.positions.some((position) => isTaken[position] === 1)) return false;
    for (const position of holding.positions) isTaken[position] = 1;
    return true;
  });
  const orphans = Uint32Array.from(isTaken.keys()).filter((position) => isTaken[position] === 0);
  const largestPart = Math.ceil(orphans.length / holdings.length);
  return {
    window,
    keeps: keeps[rank]!,
    positions: dealWindow(orphans, rank, holdings.length),
    rounds: Math.max(1, Math.ceil(largestPart / batchSize)),
  };
}

function isSameWindow(a: DealtWindow, b: DealtWindow): boolean {
  return a.dealtIn === b.dealtIn && a.dataEpoch === b.dataEpoch && a.offset === b.offset && a.size === b.size;
}
