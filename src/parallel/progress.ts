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
}

/** Whether a run of so many passes, and steps at most, is through. */
export function isRunOver(
  { step, position }: Progress,
  { epochs, maxSteps }: { epochs: number; maxSteps: number | null },
): boolean {
  return position.dataEpoch >= epochs || step >= (maxSteps ?? Infinity);
}

export function startOfRun(): Progress {
  return { step: 0, appliedIn: 0, position: { dataEpoch: 0, offset: 0 }, losses: [], evaluateEvery: 0 };
}
