/** How far a run has come. */
import type { CursorPosition } from './cursor.ts';

/** The same on all ranks after a step, and part of what a joiner receives. */
export interface Progress {
  /** Steps that are applied. */
  step: number;
  /** Epoch (of membership) in which the last one was applied. */
  appliedIn: number;
  /** Where the next step's window begins. */
  position: CursorPosition;
  /** Mean loss of every step. */
  losses: number[];
  /** Steps between two tests on held-out samples, fixed by the world that the run began in; 0 before it has begun. */
  evaluateEvery: number;
  /** Milliseconds that steps have taken by rank 0's clock, told with the last of them; 0 in runs whose time has no bound. */
  trainedMs: number;
}

/** What ends a run: passes, steps, time; whichever comes first. */
export interface RunBounds {
  epochs: number;
  maxSteps: number | null;
  maxMinutes: number | null;
}

const MINUTE_MS = 60_000;

/** Share of the time that a run may take, from 0 on; 0 where it may take any. */
export function shareOfTime(trainedMs: number, { maxMinutes }: Pick<RunBounds, 'maxMinutes'>): number {
  return maxMinutes === null ? 0 : trainedMs / (maxMinutes * MINUTE_MS);
}

/** Whether a run is through. */
export function isRunOver({ step, position, trainedMs }: Progress, bounds: RunBounds): boolean {
  const { epochs, maxSteps } = bounds;
  return position.dataEpoch >= epochs || step >= (maxSteps ?? Infinity) || shareOfTime(trainedMs, bounds) >= 1;
}

export function startOfRun(): Progress {
  return { step: 0, appliedIn: 0, position: { dataEpoch: 0, offset: 0 }, losses: [], evaluateEvery: 0, trainedMs: 0 };
}
