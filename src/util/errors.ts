/**
 * Error classes: one class for each decision that a caller has to make. Every message states what
 * happened and what to do. `context` has the same facts for programs.
 */

/**
 * Where an error happened. Every field is optional, because not every place that throws knows all
 * of them.
 */
export interface ErrorContext {
  room?: string | undefined;
  /** Membership generation. */
  generation?: number | undefined;
  rank?: number | undefined;
  worldSize?: number | undefined;
  /** Optimizer step. */
  step?: number | undefined;
  /** Collective, e.g. `allReduce`. */
  op?: string | undefined;
  /** The op's sequence number in its process group. */
  seq?: number | undefined;
  /** Ranks that did not respond. */
  missing?: number[] | undefined;
  /** Ranks whose data, model or state differs from that of the majority. */
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

/** The caller passed invalid arguments: fix the call. Command lines exit with 2. */
export class UsageError extends PeergradError {
  override readonly name: string = 'UsageError';
}

/**
 * A deadline passed. `context.missing` lists the ranks that did not respond. Retry with the other
 * ranks, or give up.
 */
export class TimeoutError extends PeergradError {
  override readonly name: string = 'TimeoutError';
}

/**
 * The AbortSignal of a rank (`context.rank`) ended an op or a wait. The name is that of the
 * browser's own abort errors. An aborted op has ended its group: create a new group to continue.
 */
export class AbortError extends PeergradError {
  override readonly name: string = 'AbortError';
}

/**
 * A neighbour's link closed or a member left, so this process group has ended. Rejoin to continue.
 */
export class PeerGoneError extends PeergradError {
  override readonly name: string = 'PeerGoneError';
}

/**
 * Ranks issued different collectives, or models or states do not match. Usually the program differs
 * between ranks. Give up.
 */
export class MismatchError extends PeergradError {
  override readonly name: string = 'MismatchError';
}

/**
 * Some ranks (`context.divergent`) have a different state than the majority. Begin another
 * generation, which replaces the state of these ranks. If it happens again, continue without them.
 */
export class DivergenceError extends PeergradError {
  override readonly name: string = 'DivergenceError';
}

/**
 * Received bytes or messages violate the protocol. The other side is faulty or hostile, or runs a
 * different version.
 */
export class ProtocolError extends PeergradError {
  override readonly name: string = 'ProtocolError';
}

/**
 * The signaling server refused the request or could not be reached: check the address and the room
 * code, then try again.
 */
export class SignalingError extends PeergradError {
  override readonly name: string = 'SignalingError';
}

/** The host removed this member from the room: do not rejoin automatically. */
export class RemovedError extends SignalingError {
  override readonly name: string = 'RemovedError';
}

/** The room ended a run early, and this member is still in the room: wait for the next run. */
export class RunOverError extends PeergradError {
  override readonly name: string = 'RunOverError';
}

/** The GPU device was lost or rejected an operation: the result of this rank's step is invalid. */
export class DeviceError extends PeergradError {
  override readonly name: string = 'DeviceError';
}

/**
 * Data or a file is missing, damaged, in the wrong format or different from the other ranks' data:
 * choose other files.
 */
export class DataError extends PeergradError {
  override readonly name: string = 'DataError';
}

/** The browser's storage is full, blocked or broken: continue without storing. */
export class StorageError extends PeergradError {
  override readonly name: string = 'StorageError';
}

/** A rank has no more inputs, so all ranks stop here: end this epoch. The model is unchanged. */
export class EarlyTerminationError extends PeergradError {
  override readonly name: string = 'EarlyTerminationError';
}

/** Converts any thrown value to an Error. */
export function asError(error: unknown): Error {
  return error instanceof Error ? error : new PeergradError(errorMessageOf(error));
}

/** Returns the message of any thrown value, without its stack. */
export function errorMessageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Like {@link errorMessageOf}, without the message's final full stop, to quote it in a sentence.
 */
export function errorReasonOf(error: unknown): string {
  return errorMessageOf(error).replace(/\.$/, '');
}
