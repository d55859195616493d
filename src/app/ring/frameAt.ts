/**
 * Computes one picture (frame) of a ring all-reduce, as a pure function of the trace, n and the
 * time t. A frame has the chunks on their way, and every copy of every chunk on every rank. The
 * moves are from the plan, and the times from the trace. A trace has only the times of one rank, so
 * all ranks are drawn at those times.
 */
import { ringStepCount, transfersAt, type RingPhase, type Transfer } from '../../collectives/plans/ringPlan.ts';
import type { RecordedTrace } from '../../protocol/stepTrace.ts';

/**
 * The ranks whose numbers are in the sum of a cell. They are `count` neighbours on the ring:
 * `first`, `first + 1` and so on, modulo n.
 */
export interface Parts {
  first: number;
  count: number;
}

export interface Flight extends Transfer {
  /** How far the chunk has travelled: 0 at the sender, 1 at the receiver. */
  progress: number;
  /** The ranks in the sum of the travelling chunk. */
  parts: Parts;
}

export interface Frame {
  /** The number of ring steps whose chunks have arrived, 0 to 2(n-1). */
  completed: number;
  /** The current phase. It is `done` when every rank has every sum. */
  phase: RingPhase | 'done';
  /** The chunks on their way, by sender. There are none between two ring steps. */
  flights: Flight[];
  /** The content of each cell: `cells[rank][chunk]`. */
  cells: Parts[][];
}

/**
 * The times at which the chunk of each ring step left and arrived, in milliseconds since the
 * all-reduce began. They never decrease.
 */
export interface Timeline {
  leaves: number[];
  arrives: number[];
  duration: number;
}

/**
 * A chunk travels during at least this share of its ring step. `sentAt` is the time of the last
 * byte, and the first bytes left long before it.
 */
const LEAST_TRAVEL = 0.4;

/**
 * A ring step takes at least this share of the average ring step. Otherwise two chunks could seem
 * to arrive at once, because clocks have a limited resolution.
 */
const LEAST_STEP = 0.02;

export function timelineOf(trace: RecordedTrace, n: number): Timeline {
  const steps = ringStepCount(n);
  const hops = Array.from({ length: steps }, (_, ringStep) => trace.hops.find((one) => one.ringStep === ringStep));
  const times = hops.flatMap((hop) => [sinceStart(trace, hop?.sentAt), sinceStart(trace, hop?.receivedAt)]);
  const end = Math.max(0, ...times.filter((time) => time !== null));
  const least = (LEAST_STEP * end) / Math.max(1, steps);
  // A ring step whose time is unknown takes as long as the average of the other ring steps.
  const timed = hops.filter((hop) => hop !== undefined && (hop.receivedAt ?? hop.sentAt) !== null).length;
  const usual = end > 0 ? end / timed : 1;
  const leaves: number[] = [];
  const arrives: number[] = [];
  let now = 0;
  for (const hop of hops) {
    const sent = sinceStart(trace, hop?.sentAt);
    const received = sinceStart(trace, hop?.receivedAt);
    const arrive = Math.max(now + least, received ?? sent ?? now + usual);
    const latest = now + (arrive - now) * (1 - LEAST_TRAVEL);
    leaves.push(Math.min(Math.max(now, sent ?? now), latest));
    arrives.push(arrive);
    now = arrive;
  }
  return { leaves, arrives, duration: now };
}

/**
 * Returns the number of ring steps whose chunks have arrived `t` milliseconds after the all-reduce
 * began.
 */
export function completedAt({ arrives }: Timeline, t: number): number {
  let completed = 0;
  while (completed < arrives.length && arrives[completed]! <= t) completed++;
  return completed;
}

/** Returns the frame at `t` milliseconds after the all-reduce began. */
export function frameAt(trace: RecordedTrace, n: number, t: number): Frame {
  const timeline = timelineOf(trace, n);
  return frameOf(timeline, n, t, cellsAfter(n, completedAt(timeline, t)));
}

/** Returns the same frame as {@link frameAt}, from a timeline and cells that are known already. */
export function frameOf(timeline: Timeline, n: number, t: number, cells: Parts[][]): Frame {
  const completed = completedAt(timeline, t);
  if (completed === ringStepCount(n)) return { completed, phase: 'done', flights: [], cells };
  const transfers = transfersAt(n, completed);
  const leave = timeline.leaves[completed]!;
  const arrive = timeline.arrives[completed]!;
  const progress = arrive > leave ? Math.min(1, Math.max(0, (t - leave) / (arrive - leave))) : 0;
  const flights = t < leave ? [] : transfers.map((one) => ({ ...one, progress, parts: cells[one.from]![one.chunk]! }));
  return { completed, phase: transfers[0]!.phase, flights, cells };
}

/** Returns the content of every cell after `completed` ring steps of the plan. */
export function cellsAfter(n: number, completed: number): Parts[][] {
  const cells = Array.from({ length: n }, (_, rank) =>
    Array.from({ length: n }, (): Parts => ({ first: rank, count: 1 })),
  );
  for (let ringStep = 0; ringStep < completed; ringStep++) {
    // No rank sends the chunk that it receives in the same ring step, so the cells can be changed
    // in place.
    for (const { from, to, chunk, phase } of transfersAt(n, ringStep)) {
      const sent = cells[from]![chunk]!;
      cells[to]![chunk] = phase === 'reduce-scatter' ? { first: sent.first, count: sent.count + 1 } : sent;
    }
  }
  return cells;
}

/** Returns whether the gradient of `rank` is in the sum. */
export function includes(parts: Parts, n: number, rank: number): boolean {
  return (rank - parts.first + n) % n < parts.count;
}

/**
 * Returns the name of a chunk. It has letters, so that it differs from a rank: A to Z, then AA and
 * so on.
 */
export function chunkName(chunk: number): string {
  const letter = String.fromCharCode(65 + (chunk % 26));
  return chunk < 26 ? letter : chunkName(Math.floor(chunk / 26) - 1) + letter;
}

function sinceStart(trace: RecordedTrace, at: number | null | undefined): number | null {
  return at === null || at === undefined ? null : at - trace.startedAt;
}
