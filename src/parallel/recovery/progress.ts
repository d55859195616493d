/** How far a run has come. */
import type { CursorPosition } from '../data/cursor.ts';

/** How good a run was when held-out samples were last tested. */
export interface Verdict {
  /** Steps that were applied by then. */
  step: number;
  /** The lowest mean loss by then, and the steps after which it was. */
  best: number;
  bestStep: number;
  /** Tests since then. */
  since: number;
}

/** The same on all ranks after a step, and part of what a joiner receives. */
export interface Progress {
  /** Steps that are applied. */
  step: number;
  /**
   * Generation (of membership) in which the last one was applied, and the one before it; 0: in none
   * of this room's. As a step is applied once at most in a generation, and by all its ranks alike,
   * `step` and a generation other than 0 name one state.
   */
  appliedIn: number;
  previousAppliedIn: number;
  /** Where the next step's window begins. */
  position: CursorPosition;
  /** Mean loss of every step. */
  losses: number[];
  /**
   * Steps between two tests on held-out samples, fixed by the world that the run began in; 0 before
   * it has begun.
   */
  evaluateEvery: number;
  /**
   * Milliseconds that steps have taken by rank 0's clock, told with the last of them; 0 in runs
   * whose time has no bound.
   */
  trainedMs: number;
  /**
   * Of the last two tests, the newest last: a test is repeated where ranks went while it was on,
   * and is judged anew then by the one before, so that all ranks have the same whose world it ended
   * in.
   */
  verdicts: Verdict[];
}

/** What ends a run: passes, steps, time, or that it gets no better; whichever comes first. */
export interface RunBounds {
  epochs: number;
  maxSteps: number | null;
  maxMinutes: number | null;
  /** Tests on held-out samples without a lower loss. */
  patience: number | null;
}

const MINUTE_MS = 60_000;

/** Share of the time that a run may take, from 0 on; 0 where it may take any. */
export function shareOfTime(trainedMs: number, { maxMinutes }: Pick<RunBounds, 'maxMinutes'>): number {
  return maxMinutes === null ? 0 : trainedMs / (maxMinutes * MINUTE_MS);
}

/** Whether a run is through. */
export function isRunOver({ step, position, trainedMs, verdicts }: Progress, bounds: RunBounds): boolean {
  const { epochs, maxSteps, patience } = bounds;
  if ((verdicts.at(-1)?.since ?? 0) >= (patience ?? Infinity)) return true;
  return position.epoch >= epochs || step >= (maxSteps ?? Infinity) || shareOfTime(trainedMs, bounds) >= 1;
}

/**
 * Takes the outcome of a test after the last step into `progress`.
 *
 * @param loss mean of held-out samples, the same ones in each test of a run, and the same number on
 *   all ranks.
 * @returns whether it is the lowest so far.
 */
export function judge(progress: Progress, loss: number): boolean {
  const { step } = progress;
  const before = progress.verdicts.filter((one) => one.step < step).slice(-1);
  const [last] = before;
  const isBest = last === undefined || loss < last.best;
  const verdict = isBest ? { best: loss, bestStep: step, since: 0 } : { ...last, since: last.since + 1 };
  progress.verdicts = [...before, { ...verdict, step }];
  return isBest;
}

/**
 * Takes a step into `progress` that was applied in `generation` (of membership); the next one's
 * window begins at `next`.
 */
export function advance(progress: Progress, generation: number, next: CursorPosition): void {
  progress.step += 1;
  progress.previousAppliedIn = progress.appliedIn;
  progress.appliedIn = generation;
  progress.position = next;
}

export function startOfRun(): Progress {
  const position = { epoch: 0, offset: 0 };
  const applied = { step: 0, appliedIn: 0, previousAppliedIn: 0 };
  return { ...applied, position, losses: [], evaluateEvery: 0, trainedMs: 0, verdicts: [] };
}
