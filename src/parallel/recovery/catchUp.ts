/**
 * Decides what a newcomer does while it receives the state beside the training. Ranks that train
 * wait for what a newcomer still lacks when it enters. So it enters when this takes little time at
 * the rate of its line.
 */

/** How far a newcomer is. Times are in milliseconds, sizes in bytes. */
export interface Lag {
  /** Number of steps that the run has applied since the newcomer's state. */
  behind: number;
  /** Whether the feeder has the averaged gradient of the first of these steps. */
  canRepeat: boolean;
  stateBytes: number;
  /** Size of a step's averaged gradient; `null` if a step cannot be repeated with it alone. */
  updateBytes: number | null;
  /** Bytes in a millisecond that the line carries; `null` if none have arrived yet. */
  rate: number | null;
  /** Mean time between two changes of the run's state. */
  everyMs: number;
  /** Time since the newcomer asked for the state. */
  waitedMs: number;
}

/** What the newcomer does next. `wait` means that its line carries less than the run's updates. */
export type NextMove = { move: 'enter' | 'update' | 'state' } | { move: 'wait'; ms: number };

/** The ranks wait at least this long for a newcomer, in milliseconds. */
const LEAST_MS = 5_000;
/** The ranks wait for this part of the time that the newcomer has waited. */
const PATIENCE = 1 / 20;

export function nextMove(lag: Lag): NextMove {
  const { behind, canRepeat, stateBytes, updateBytes, rate, everyMs, waitedMs } = lag;
  if (behind === 0) return { move: 'enter' };
  // Before the first bytes, nothing is known about the line.
  if (rate === null) return { move: canRepeat ? 'update' : 'state' };
  const isOneStep = behind === 1 && canRepeat && updateBytes !== null;
  // On entering, a rank one step behind receives that step's gradient; any other the whole state.
  const lacksMs = (isOneStep ? updateBytes : stateBytes) / rate;
  if (lacksMs <= Math.max(LEAST_MS, waitedMs * PATIENCE)) return { move: 'enter' };
  if (canRepeat) return { move: 'update' };
  if ((updateBytes ?? stateBytes) / rate < everyMs) return { move: 'state' };
  return { move: 'wait', ms: lacksMs / PATIENCE - waitedMs };
}
