/** Progress of a run. */
import type { CursorPosition } from '../data/cursor.ts';

/** Result of an evaluation on held-out samples, compared with earlier ones. */
export interface Verdict {
  /** Applied steps at the time of the evaluation. */
  step: number;
  /** The lowest mean loss so far, and the steps after which it occurred. */
  best: number;
  bestStep: number;
  /** Evaluations since then. */
  since: number;
}

/** Progress that is equal on all ranks after a step; a joining rank receives it. */
export interface Progress {
  /** Applied steps. */
  step: number;
  /**
   * Generation in which the last step was applied, and the step before it; 0: not in this room. A
   * step is applied at most once in a generation, by all its ranks alike, so `step` and a
   * generation other than 0 identify one state.
   */
  appliedIn: number;
  previousAppliedIn: number;
  /** Start of the next step's window. */
  position: CursorPosition;
  /** Mean loss of every step. */
  losses: number[];
  /**
   * Steps between two evaluations, fixed by the generation that the run began in; 0: not fixed yet.
   */
  evaluateEvery: number;
  /**
   * Milliseconds that the steps have taken by rank 0's clock, as of the last step; 0 in runs
   * without a time limit.
   */
  trainedMs: number;
  /**
   * Verdicts of the last two evaluations, newest last. If ranks leave during an evaluation, it is
   * repeated and compared with the one before, so that all ranks of the new generation have the
   * same verdict.
   */
  verdicts: Verdict[];
}

/**
 * Limits that end a run, whichever comes first: epochs, steps, time, or evaluations without
 * improvement.
 */
export interface RunBounds {
  epochs: number;
  maxSteps: number | null;
  maxMinutes: number | null;
  /** Evaluations without a lower loss. */
  patience: number | null;
}

const MINUTE_MS = 60_000;

/** Share of the time limit that the run has used, from 0 on; 0 without a limit. */
export function shareOfTime(trainedMs: number, { maxMinutes }: Pick<RunBounds, 'maxMinutes'>): number {
  return maxMinutes === null ? 0 : trainedMs / (maxMinutes * MINUTE_MS);
}

/** Whether a limit is reached. */
export function isRunOver({ step, position, trainedMs, verdicts }: Progress, bounds: RunBounds): boolean {
  const { epochs, maxSteps, patience } = bounds;
  if ((verdicts.at(-1)?.since ?? 0) >= (patience ?? Infinity)) return true;
  return position.epoch >= epochs || step >= (maxSteps ?? Infinity) || shareOfTime(trainedMs, bounds) >= 1;
}

/**
 * Records the evaluation after the last step in `progress`.
 *
 * @param loss mean of the held-out samples, which are the same in each evaluation of a run and on
 *   all ranks.
 * @returns whether it is the lowest so far.
 */
export function judge(progress: Progress, loss: number): boolean {
  const { step } = progress;
  const before = progress.verdicts.filter((verdict) => verdict.step < step).slice(-1);
  const [last] = before;
  const isBest = last === undefined || loss < last.best;
  const verdict = isBest ? { best: loss, bestStep: step, since: 0 } : { ...last, since: last.since + 1 };
  progress.verdicts = [...before, { ...verdict, step }];
  return isBest;
}

/**
 * Records in `progress` a step that was applied in `generation`; the next window begins at `next`.
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
