/**
 * Errors, one class per decision a caller has to make. Every message says what happened and what to
 * do about it; `context` carries the same facts for programs.
 */

/** Where an error happened. Every field is optional: an error carries what its thrower knows. */
export interface ErrorContext {
  room?: string | undefined;
  /** Membership generation (not a pass over the data). */
  generation?: number | undefined;
  rank?: number | undefined;
  worldSize?: number | undefined;
  /** Optimizer step. */
  step?: number | undefined;
  /** Collective, e.g. `allReduce`. */
  op?: string | undefined;
  /** The op's sequence number in its process group. */
  seq?: number | undefined;
  /** Ranks that were waited for. */
  missing?: number[] | undefined;
  /** Ranks that differ from most: in their data, model or state. */
  divergent?: number[] | undefined;
}

export class PeergradError extends Error {
  override readonly name: string = 'PeergradError';
  readonly context: ErrorContext;

  constructor(message: string, context: ErrorContext = {}, options?: ErrorOptions) {
    super(message, options);
    this.context = context;
  }
}

/** The caller passed something that can never work: fix the call. Command lines exit with 2. */
export class UsageError extends PeergradError {
  override readonly name: string = 'UsageError';
}

/**
 * A deadline passed; `context.missing` names the ranks that did not answer. Retry with the
 * survivors, or give up.
 */
export class TimeoutError extends PeergradError {
  override readonly name: string = 'TimeoutError';
}

/** A neighbour's link closed or a member left: this process group is over, rejoin to go on. */
export class PeerGoneError extends PeergradError {
  override readonly name: string = 'PeerGoneError';
}

/**
 * Ranks issued different collectives or hold different models: the program differs between ranks,
 * so give up.
 */
export class MismatchError extends PeergradError {
  override readonly name: string = 'MismatchError';
}

/**
 * Some ranks' state (`context.odd`) is no longer that of the others: begin another generation, at
 * whose start theirs is replaced; if it comes again, go on without them.
 */
export class DivergenceError extends PeergradError {
  override readonly name: string = 'DivergenceError';
}

/**
 * Bytes or messages that our protocol does not allow: the other side is broken, hostile or of
 * another version.
 */
export class ProtocolError extends PeergradError {
  override readonly name: string = 'ProtocolError';
}

/**
 * The signaling server refused or could not be reached: check the address and the room code, then
 * try again.
 */
export class SignalingError extends PeergradError {
  override readonly name: string = 'SignalingError';
}

/** The host has sent this member out of the room: do not come back unasked. */
export class RemovedError extends SignalingError {
  override readonly name: string = 'RemovedError';
}

/**
 * The room has ended a run before it was finished, and this member is still there: wait for the
 * next one.
 */
export class RunOverError extends PeergradError {
  override readonly name: string = 'RunOverError';
}

/** The GPU device was lost or rejected an operation: this rank's step is void. */
export class DeviceError extends PeergradError {
  override readonly name: string = 'DeviceError';
}

/** The job's data is missing, truncated or of another format: choose other files. */
export class DataError extends PeergradError {
  override readonly name: string = 'DataError';
}

/** The browser's storage is full, blocked or broken: go on without what was to be kept. */
export class StorageError extends PeergradError {
  override readonly name: string = 'StorageError';
}

/**
 * Some rank has no more inputs and all were told to stop with it: end this pass over the data, the
 * model is as it was.
 */
export class EarlyTerminationError extends PeergradError {
  override readonly name: string = 'EarlyTerminationError';
}

/** Anything that was thrown as an Error. */
export function asError(error: unknown): Error {
  return error instanceof Error ? error : new PeergradError(messageOf(error));
}

/** What to show for anything that was thrown: its message, never its stack. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
