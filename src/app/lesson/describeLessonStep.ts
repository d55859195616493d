/**
 * Finds what a rank did in its latest step, and with which numbers, so that texts can describe it;
 * pure.
 */
import { ringTransferFrom, modulo } from '../../collectives/plans/ringPlan.ts';
import { lessonMovesAt, roundStepCount } from '../../engine/lesson/lessonRound.ts';
import type { LessonRound } from '../../protocol/lesson.ts';

type StepDescription =
  | { kind: 'ready' | 'alone' | 'waiting' }
  /** On the ring: `sent` goes to the right neighbour, and `got` is from the left neighbour. */
  | {
      kind: 'added' | 'copied';
      sent: { chunk: number; numbers: number[]; to: number };
      got: { chunk: number; from: number; numbers: number[]; own: number[]; sums: number[] };
    }
  /** With a parameter server. */
  | { kind: 'gave' | 'gathered' | 'returned' | 'took' };

export function describeLessonStep(round: LessonRound, you: number): StepDescription {
  const { mode, n, steps, own, held } = round;
  if (you >= n) return { kind: 'waiting' };
  if (n === 1) return { kind: 'alone' };
  if (steps.length === 0) return { kind: 'ready' };
  const step = steps.length - 1;
  if (mode === 'parameter-server') {
    if (step === 0) return { kind: you === 0 ? 'gathered' : 'gave' };
    return { kind: you === 0 ? 'returned' : 'took' };
  }
  const moves = lessonMovesAt(mode, n, step);
  const [out, into] = [moves[you]!, moves[modulo(you - 1, n)]!];
  const sums = held[you]!.slice(into.start, into.end);
  const mine = own[you]!.slice(into.start, into.end);
  return {
    kind: into.adds ? 'added' : 'copied',
    sent: {
      chunk: ringTransferFrom(n, step, you).chunk,
      numbers: held[you]!.slice(out.start, out.end),
      to: out.to,
    },
    got: {
      chunk: ringTransferFrom(n, step, into.from).chunk,
      from: into.from,
      numbers: into.adds ? sums.map((sum, i) => sum - mine[i]!) : sums,
      own: mine,
      sums,
    },
  };
}

type RoundPhase = 'before' | 'reduceScatter' | 'allGather' | 'gathering' | 'returning' | 'done';

export function roundPhaseOf({ mode, n, steps }: LessonRound): RoundPhase {
  if (steps.length >= roundStepCount(mode, n)) return n === 1 ? 'before' : 'done';
  if (mode === 'parameter-server') return steps.length === 0 ? 'gathering' : 'returning';
  if (steps.length < n - 1) return steps.length === 0 ? 'before' : 'reduceScatter';
  return 'allGather';
}

/** Returns a sum as text: `3 + 5 + (−2)`. */
export function formatSum(terms: readonly number[]): string {
  return terms
    .map((term, i) => (i > 0 && term < 0 ? `(${formatLessonNumber(term)})` : formatLessonNumber(term)))
    .join(' + ');
}

/** Returns a number as text, with a minus sign that differs from a dash. */
export function formatLessonNumber(value: number): string {
  return String(value).replace('-', '−');
}
