/**
 * Executes steps of a lesson's round: ranks send real messages, then exchange reports, so that all
 * ranks know each result.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { lessonNumbersPerRank, type LessonState } from '../../protocol/lesson.ts';
import type { Clock } from '../../util/clock.ts';
import { lessonRoundMs, lessonMovesAt, roundStepCount, lessonStateAfterStep } from './lessonRound.ts';

interface StepsOptions {
  group: ProcessGroup;
  clock: Clock;
  state: LessonState;
  /** The largest number of steps to take. */
  count: number;
  /** Deadline of a message and of an exchange, not including the time that a slow line adds. */
  timeoutMs: number;
  /**
   * Called with the rank from which this rank waits for numbers; `null` if this rank waits for
   * none.
   */
  onwait: (rank: number | null) => void;
  /** Called with the new state when all ranks have taken a step. */
  onstep: (state: LessonState) => void;
}

/** The number of values in a step's report before the rank's numbers; see `LessonStep`. */
const FACTS = 4;

/**
 * Takes steps as a real all-reduce does: each rank continues as soon as it has received what it
 * needs, so on the ring it waits for its left neighbour only. Reports about a step are exchanged in
 * the background. Every rank of the world must call this function. A rank outside of the round
 * takes part only in the exchange of reports.
 */
export async function runLessonSteps(options: StepsOptions): Promise<void> {
  const { group, clock, state, count, onwait, onstep } = options;
  const { round, slow } = state;
  const { n, mode, steps } = round;
  const { rank } = group;
  const began = clock.now() - lessonRoundMs(round);
  const now = (): number => Math.round(clock.now() - began);
  const lineMs = slow?.rank === rank ? slow.seconds * 1000 : 0;
  // In a round no rank sends more than 2n messages, and a slow line delays each of them by
  // `slow.seconds`.
  const timeoutMs = options.timeoutMs + 2000 * n * (slow?.seconds ?? 0);
  const held = Float32Array.from(round.held[rank] ?? Array<number>(lessonNumbersPerRank(n)).fill(0));

  const last = Math.min(steps.length + count, roundStepCount(mode, n));
  const plan = Array.from({ length: last - steps.length }, (_, i) => {
    const moves = lessonMovesAt(mode, n, steps.length + i);
    return { tag: steps.length + i, moves: moves.filter(({ from, to }) => from === rank || to === rank) };
  });
  // All receives begin now, so that a sender does not wait until this rank has reached the step.
  const incoming = plan.map(({ tag, moves }) =>
    moves.flatMap((move) => {
      if (move.to !== rank) return [];
      const numbers = new Float32Array(move.end - move.start);
      return [{ ...move, numbers, came: group.irecv(numbers, move.from, { tag, timeoutMs }) }];
    }),
  );

  let line = Promise.resolve();
  const send = (numbers: Float32Array, to: number, tag: number): Promise<void> => {
    const delayed = lineMs === 0 ? line : line.then(() => wait(clock, lineMs));
    line = delayed;
    return delayed.then(() => group.send(numbers, to, { tag, timeoutMs }));
  };

  let current = state;
  /** The exchanges of reports. Each waits for the exchange before it. */
  let after = Promise.resolve();
  const exchange = async (facts: readonly number[], numbers: Float32Array): Promise<void> => {
    const all = await group.allGather(Float64Array.of(...facts, ...numbers), { timeoutMs });
    const ranks = all.slice(0, n);
    const byRank = (fact: number): number[] => ranks.map((report) => report[fact]!);
    current = lessonStateAfterStep(
      current,
      { startedAt: byRank(0), endedAt: byRank(1), sentBytes: byRank(2), receivedBytes: byRank(3) },
      ranks.map((report) => Array.from(report.subarray(FACTS))),
    );
    onstep(current);
  };

  for (const [i, { tag, moves }] of plan.entries()) {
    const startedAt = now();
    const outgoing = moves.filter(({ from }) => from === rank);
    const sent = Promise.all(outgoing.map(({ to, start, end }) => send(held.slice(start, end), to, tag)));
    for (const { from, start, adds, numbers, came } of incoming[i]!) {
      onwait(from);
      await came;
      numbers.forEach((value, at) => (held[start + at] = adds ? held[start + at]! + value : value));
    }
    onwait(null);
    const endedAt = incoming[i]!.length > 0 ? now() : startedAt;
    const numbers = held.slice();
    after = after.then(async () => {
      await sent;
      await exchange([startedAt, endedAt, bytesOf(outgoing), bytesOf(incoming[i]!)], numbers);
    });
    // These two lines prevent unhandled rejections. `after` is awaited at the end, and then rejects
    // if an exchange or a send has failed.
    after.catch(() => {});
    sent.catch(() => {});
  }
  await after;
}

/** Returns the bytes of the numbers that are moved, as float32. */
function bytesOf(moves: readonly { start: number; end: number }[]): number {
  return moves.reduce((sum, { start, end }) => sum + (end - start) * Float32Array.BYTES_PER_ELEMENT, 0);
}

function wait(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}
