/** Progress of a run. */
import type { DataCursorPosition } from '../data/cursor.ts';

/** Result of an evaluation on held-out samples, compared with earlier evaluations. */
export interface EvaluationComparison {
  /** Number of applied steps at the time of the evaluation. */
  step: number;
  /** The lowest mean loss so far, and the number of steps after which it occurred. */
  best: number;
  bestStep: number;
  /** Number of evaluations since the lowest loss. */
  since: number;
}

/** Progress that is equal on all ranks after a step; a joining rank receives it. */
export interface TrainingProgress {
  /** Number of applied steps. */
  step: number;
  /**
   * Generation in which the latest step was applied, and generation in which the step before it was
   * applied; 0 if a step was not applied in this room. A step is applied at most once in a
   * generation, and all ranks of the generation apply the same update. So `step` and a generation
   * other than 0 identify one state.
   */
  appliedIn: number;
  previousAppliedIn: number;
  /** Start of the next step's window. */
  position: DataCursorPosition;
  /** Mean loss of every step. */
  losses: number[];
  /**
   * Number of steps between two evaluations. The generation in which the run began sets it; 0 means
   * that it is not set yet.
   */
  evaluateEvery: number;
  /**
   * Training time when the latest step began, in milliseconds of rank 0's clock; 0 in runs without
   * a time limit.
   */
  trainedMs: number;
  /**
   * Verdicts of the latest two evaluations; the newer verdict is last. The older verdict is needed
   * if ranks leave during an evaluation: the new generation repeats the evaluation and judges it
   * against the older verdict, so all ranks have the same result.
   */
  verdicts: EvaluationComparison[];
}

/**
 * Limits that end a run, whichever comes first: epochs, steps, time, or evaluations without
 * improvement.
 */
export interface RunLimits {
  epochs: number;
  maxSteps: number | null;
  maxMinutes: number | null;
  /** Number of evaluations without a lower loss after which the run ends. */
  patience: number | null;
}

const MINUTE_MS = 60_000;

/** Returns the share of the time limit that the run has used; 0 if there is no limit. */
export function usedTimeShare(trainedMs: number, { maxMinutes }: Pick<RunLimits, 'maxMinutes'>): number {
  return maxMinutes === null ? 0 : trainedMs / (maxMinutes * MINUTE_MS);
}

/** Whether a limit is reached. */
export function isRunLimitReached(
  { step, position, trainedMs, verdicts }: TrainingProgress,
  bounds: RunLimits,
): boolean {
  const { epochs, maxSteps, patience } = bounds;
  if ((verdicts.at(-1)?.since ?? 0) >= (patience ?? Infinity)) return true;
  return position.epoch >= epochs || step >= (maxSteps ?? Infinity) || usedTimeShare(trainedMs, bounds) >= 1;
}

/**
 * Records an evaluation of the current state in `progress`.
 *
 * @param loss mean loss of the held-out samples. These samples are the same in each evaluation of a
 * run and on all ranks.
 * @returns whether the loss is the lowest so far.
 */
export function recordEvaluation(progress: TrainingProgress, loss: number): boolean {
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
export function recordAppliedStep(progress: TrainingProgress, generation: number, next: DataCursorPosition): void {
  progress.step += 1;
  progress.previousAppliedIn = progress.appliedIn;
  progress.appliedIn = generation;
  progress.position = next;
}

export function initialTrainingProgress(): TrainingProgress {
  const position = { epoch: 0, offset: 0 };
  const applied = { step: 0, appliedIn: 0, previousAppliedIn: 0 };
  return { ...applied, position, losses: [], evaluateEvery: 0, trainedMs: 0, verdicts: [] };
}
