/**
 * One picture of a ring all-reduce as a pure function of (trace, n, t): the chunks on their way,
 * and every rank's copy of every chunk. The plan gives the moves, the trace the times. One rank
 * knows its own times only, so all ranks are drawn at them.
 */
import { ringStepCount, transfersAt, type RingPhase, type Transfer } from '../../collectives/plans/ringPlan.ts';
import type { RecordedTrace } from '../../protocol/stepTrace.ts';

/** Content of a cell: the sum over ranks `first`, `first + 1`, … (`count` of them, modulo n). */
export interface Parts {
  first: number;
  count: number;
}

export interface Flight extends Transfer {
  /** 0 at the sender .. 1 at the receiver. */
  progress: number;
  /** Content of the travelling chunk. */
  parts: Parts;
}

export interface Frame {
  /** Ring steps whose chunks have arrived, 0 .. 2(n-1). */
  completed: number;
  /** The current phase; `done` when every rank has every sum. */
  phase: RingPhase | 'done';
  /** Chunks on their way, by sender; empty between two ring steps. */
  flights: Flight[];
  /** `cells[rank][chunk]`. */
  cells: Parts[][];
}

/**
 * Times at which each ring step's chunk left and arrived, milliseconds since the all-reduce began;
 * never decreasing.
 */
export interface Timeline {
  leaves: number[];
  arrives: number[];
  duration: number;
}

/**
 * Least share of a ring step in which its chunk travels. `sentAt` is the time of the last byte, and
 * the first bytes left long before.
 */
const LEAST_TRAVEL = 0.4;

/**
 * Least length of a ring step, as a share of an even one: clocks have a resolution, and arrivals
 * may seem to coincide.
 */
const LEAST_STEP = 0.02;

export function timelineOf(trace: RecordedTrace, n: number): Timeline {
  const steps = ringStepCount(n);
  const hops = Array.from({ length: steps }, (_, ringStep) => trace.hops.find((one) => one.ringStep === ringStep));
  const times = hops.flatMap((hop) => [sinceStart(trace, hop?.sentAt), sinceStart(trace, hop?.receivedAt)]);
  const end = Math.max(0, ...times.filter((time) => time !== null));
  const least = (LEAST_STEP * end) / Math.max(1, steps);
  // A ring step without a time lasts as long as the average before it.
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

/** Ring steps whose chunks have arrived `t` milliseconds after the all-reduce began. */
export function completedAt({ arrives }: Timeline, t: number): number {
  let completed = 0;
  while (completed < arrives.length && arrives[completed]! <= t) completed++;
  return completed;
}

/** The picture at `t` milliseconds after the all-reduce began. */
export function frameAt(trace: RecordedTrace, n: number, t: number): Frame {
  const timeline = timelineOf(trace, n);
  return frameOf(timeline, n, t, cellsAfter(n, completedAt(timeline, t)));
}

/** The same, with known times and cells. */
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

/** The content of every cell after `completed` ring steps, by the plan. */
export function cellsAfter(n: number, completed: number): Parts[][] {
  const cells = Array.from({ length: n }, (_, rank) =>
    Array.from({ length: n }, (): Parts => ({ first: rank, count: 1 })),
  );
  for (let ringStep = 0; ringStep < completed; ringStep++) {
    // No rank sends the chunk that it receives in the same ring step, so writing in place is safe.
    for (const { from, to, chunk, phase } of transfersAt(n, ringStep)) {
      const sent = cells[from]![chunk]!;
      cells[to]![chunk] = phase === 'reduce-scatter' ? { first: sent.first, count: sent.count + 1 } : sent;
    }
  }
  return cells;
}

/** Whether `rank`'s gradient is in the sum. */
export function includes(parts: Parts, n: number, rank: number): boolean {
  return (rank - parts.first + n) % n < parts.count;
}

/** The name of a chunk: letters, to differ from ranks. A .. Z, then AA .. */
export function chunkName(chunk: number): string {
  const letter = String.fromCharCode(65 + (chunk % 26));
  return chunk < 26 ? letter : chunkName(Math.floor(chunk / 26) - 1) + letter;
}

function sinceStart(trace: RecordedTrace, at: number | null | undefined): number | null {
  return at === null || at === undefined ? null : at - trace.startedAt;
}
