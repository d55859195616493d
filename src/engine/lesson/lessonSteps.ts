/**
 * Steps of a lesson's round as real messages between ranks, and what all ranks then know of them.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { numbersOf, type LessonState } from '../../protocol/lesson.ts';
import type { Clock } from '../../util/clock.ts';
import { elapsed, movesAt, stepCount, takeStep } from './lessonRound.ts';

interface StepsOptions {
  group: ProcessGroup;
  clock: Clock;
  state: LessonState;
  /** Steps to take, at most. */
  count: number;
  /** Deadline of a message and of telling each other, beyond what a slow line takes. */
  timeoutMs: number;
  /** The rank whose numbers this rank waits for now; `null`: none. */
  onwait: (rank: number | null) => void;
  /** All ranks have taken a step: the state after it. */
  onstep: (state: LessonState) => void;
}

/** A rank tells so many numbers of a step, as in `LessonStep`, and then what it holds. */
const FACTS = 4;

/**
 * Takes steps as an all-reduce does: each rank goes on as soon as it has what it needs, and waits
 * for its left neighbour only. What ranks tell each other of a step goes beside that. Every rank of
 * the world calls it; one that is not in the round only listens.
 */
export async function takeSteps(options: StepsOptions): Promise<void> {
  const { group, clock, state, count, onwait, onstep } = options;
  const { round, slow } = state;
  const { n, mode, steps } = round;
  const { rank } = group;
  const began = clock.now() - elapsed(round);
  const now = (): number => Math.round(clock.now() - began);
  const lineMs = slow?.rank === rank ? slow.seconds * 1000 : 0;
  // Nobody sends more than 2n messages in a round, and one behind the other on a slow line.
  const timeoutMs = options.timeoutMs + 2000 * n * (slow?.seconds ?? 0);
  const held = Float32Array.from(round.held[rank] ?? Array<number>(numbersOf(n)).fill(0));

  const last = Math.min(steps.length + count, stepCount(mode, n));
  const plan = Array.from({ length: last - steps.length }, (_, i) => {
    const moves = movesAt(mode, n, steps.length + i);
    return { tag: steps.length + i, moves: moves.filter(({ from, to }) => from === rank || to === rank) };
  });
  // All at once, so that no sender waits until this rank has come so far.
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
  /** Telling the others of one step after the other. */
  let after = Promise.resolve();
  const tell = async (facts: readonly number[], holds: Float32Array): Promise<void> => {
    const all = await group.allGather(Float64Array.of(...facts, ...holds), { timeoutMs });
    const ranks = all.slice(0, n);
    const told = (fact: number): number[] => ranks.map((one) => one[fact]!);
    current = takeStep(
      current,
      { startedAt: told(0), endedAt: told(1), sentBytes: told(2), receivedBytes: told(3) },
      ranks.map((one) => Array.from(one.subarray(FACTS))),
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
    const holds = held.slice();
    after = after.then(async () => {
      await sent;
      await tell([startedAt, endedAt, bytesOf(outgoing), bytesOf(incoming[i]!)], holds);
    });
    // It is awaited in the end; until then it fails only where the group does.
    after.catch(() => {});
    sent.catch(() => {});
  }
  await after;
}

/** Bytes of the moved float32 numbers. */
function bytesOf(moves: readonly { start: number; end: number }[]): number {
  return moves.reduce((sum, { start, end }) => sum + (end - start) * Float32Array.BYTES_PER_ELEMENT, 0);
}

function wait(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}
