/** A rank's part of the next step: a window of the data, and which of its samples are this rank's. */
import type { ProcessGroup } from '../collectives/processGroup.ts';
import { dealWindow, type GlobalCursor, type SampleWindow } from '../parallel/cursor.ts';
import { deal, type Holding } from '../parallel/deal.ts';
import type { Progress } from '../parallel/progress.ts';
import type { Ring } from '../parallel/strategies/index.ts';

export interface Turn {
  window: SampleWindow;
  /** Epoch in which the window was first dealt out. */
  dealtIn: number;
  /** Its samples, by their places in the window: first those whose gradients it holds, then what it is to compute. */
  positions: Uint32Array;
  /** Micro-batches, at least one. */
  rounds: number;
}

interface Dealer {
  group: ProcessGroup;
  cursor: GlobalCursor;
  position: Progress['position'];
  /** Samples per rank. */
  batchSize: number;
}

/** Of a step that nobody has tried. */
export function newTurn({ group, cursor, position, batchSize }: Dealer): Turn {
  const window = cursor.windowAt(position, batchSize * group.worldSize);
  const all = Uint32Array.from(window.indices.keys());
  return { window, dealtIn: group.epoch, positions: dealWindow(all, group.rank, group.worldSize), rounds: 1 };
}

/** What this rank has of the step that it was taking. */
export function holdingOf(turn: Turn | null, ring: Ring): Holding | null {
  if (!turn || ring.heldSamples === 0) return null;
  const { window, dealtIn, positions } = turn;
  const { dataEpoch, offset, indices } = window;
  return {
    window: { dataEpoch, offset, size: indices.length, dealtIn },
    positions: positions.slice(0, ring.heldSamples),
  };
}

/** Deals out a step of which ranks may hold parts, by rank. What this one holds in vain is dropped. */
export function dealTurn(
  { group, cursor, position, batchSize }: Dealer,
  ring: Ring,
  held: Holding | null,
  holdings: (Holding | null)[],
): Turn {
  const { dataEpoch, offset, indices } = cursor.windowAt(position, batchSize * group.worldSize);
  const { window, keeps, positions, rounds } = deal(
    { dataEpoch, offset, size: indices.length, dealtIn: group.epoch },
    holdings,
    { rank: group.rank, batchSize },
  );
  if (!keeps) ring.drop();
  return {
    window: cursor.windowAt(window, window.size),
    dealtIn: window.dealtIn,
    positions: keeps && held ? Uint32Array.from([...held.positions, ...positions]) : positions,
    rounds,
  };
}
