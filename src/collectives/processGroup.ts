/**
 * `ProcessGroup`: the collectives of one epoch's ranks. Names and meaning are torch.distributed's
 * (https://pytorch.org/docs/stable/distributed.html), in camelCase.
 *
 * Every rank must issue the same collectives in the same order; they may be in flight together. A tensor belongs to its op
 * until the op is done.
 */
import { FRAME_HEADER_BYTES, MAX_FRAME_BYTES, OpCode, ReduceOp } from '../protocol/frame.ts';
import type { Link } from '../transport/link.ts';
import { systemClock, type Clock } from '../util/clock.ts';
import { UsageError } from '../util/errors.ts';
import { AllReduceOp } from './allReduce.ts';
import { AllGatherOp, BroadcastOp } from './gather.ts';
import { RingExecutor } from './ringExecutor.ts';
import type { Work } from './work.ts';

/** Deadline of one op, unless it or its group says otherwise. Gloo's 30 minutes are too long for people who watch. */
export const DEFAULT_OP_TIMEOUT_MS = 60_000;

export interface ProcessGroupOptions {
  rank: number;
  worldSize: number;
  /** Membership epoch; frames of another are dropped. */
  epoch: number;
  /** Links to rank-1 and rank+1 (mod n): the same one twice for n = 2, none for n = 1. */
  left: Link | null;
  right: Link | null;
  timeoutMs?: number;
  /** Most elements in a frame's payload; smaller than the default only to test. */
  segmentElements?: number;
  clock?: Clock;
  /** Called once if the group fails: no op will succeed from then on. */
  onfailure?: (error: Error) => void;
}

export interface OpOptions {
  timeoutMs?: number;
}

export interface AllReduceOptions extends OpOptions {
  /** SUM by default. */
  op?: ReduceOp;
  /** Gradient bucket this belongs to, for telemetry. */
  bucket?: number;
}

export class ProcessGroup {
  readonly rank: number;
  readonly worldSize: number;
  readonly epoch: number;
  readonly #executor: RingExecutor;
  /** Deadline of ops issued from now on, milliseconds, unless an op says otherwise. */
  timeoutMs: number;

  constructor(options: ProcessGroupOptions) {
    const { rank, worldSize, epoch, left, right } = options;
    if (!Number.isInteger(worldSize) || worldSize < 1 || !Number.isInteger(rank) || rank < 0 || rank >= worldSize) {
      throw new UsageError(`Rank ${rank} does not exist in world size ${worldSize}: ranks are 0 .. worldSize-1.`);
    }
    if (worldSize > 1 && (!left || !right)) {
      throw new UsageError('A process group of several ranks needs a link to both neighbours.');
    }
    this.rank = rank;
    this.worldSize = worldSize;
    this.epoch = epoch;
    this.timeoutMs = options.timeoutMs ?? DEFAULT_OP_TIMEOUT_MS;
    this.#executor = new RingExecutor({
      ...{ rank, worldSize, epoch, left, right },
      segmentElements: options.segmentElements ?? (MAX_FRAME_BYTES - FRAME_HEADER_BYTES) / 4,
      clock: options.clock ?? systemClock,
      onfailure: options.onfailure,
    });
  }

  /** Bytes of frames this rank's ops have sent since the group began, headers included. */
  get bytesSent(): number {
    return this.#executor.bytesSent;
  }

  /**
   * Combines `tensor` over all ranks, in place: afterwards every rank holds the same bits. SUM, or AVG (the sum divided by
   * the world size). A ring all-reduce (see `ringPlan.ts`): a rank sends 2(n-1)/n of the tensor.
   *
   * @throws UsageError where it is not a Float32Array; (rejects) TimeoutError naming the ranks waited for; PeerGoneError;
   *   MismatchError where ranks called different ops.
   */
  allReduce(
    tensor: Float32Array,
    { op = ReduceOp.SUM, bucket = 0, timeoutMs = this.timeoutMs }: AllReduceOptions = {},
  ): Work<Float32Array> {
    checkTensor(tensor);
    return this.#executor.issue({
      count: tensor.length,
      bucket,
      timeoutMs,
      create: (env) => new AllReduceOp(tensor, op, env),
      result: () => tensor,
    });
  }

  /**
   * Copies rank `src`'s `tensor` into every rank's, which must have the same length.
   *
   * @throws UsageError for a rank that does not exist; rejects as {@link allReduce} does.
   */
  broadcast(tensor: Float32Array, src: number, { timeoutMs = this.timeoutMs }: OpOptions = {}): Work<Float32Array> {
    if (!Number.isInteger(src) || src < 0 || src >= this.worldSize) {
      throw new UsageError(`Invalid root rank ${src}: this group has ranks 0 .. ${this.worldSize - 1}.`);
    }
    checkTensor(tensor);
    return this.#executor.issue({
      count: tensor.length,
      bucket: 0,
      timeoutMs,
      create: (env) => new BroadcastOp(tensor, src, env),
      result: () => tensor,
    });
  }

  /** Gathers every rank's `tensor` (all of one length); resolves with one array per rank, in rank order. */
  allGather(tensor: Float32Array, { timeoutMs = this.timeoutMs }: OpOptions = {}): Work<Float32Array[]> {
    const { rank, worldSize } = this;
    checkTensor(tensor);
    const size = tensor.length;
    const parts = new Float32Array(size * worldSize);
    parts.set(tensor, rank * size);
    return this.#executor.issue({
      count: parts.length,
      bucket: 0,
      timeoutMs,
      create: (env) => new AllGatherOp(parts, OpCode.ALL_GATHER, env),
      result: (): Float32Array[] => Array.from({ length: worldSize }, (_, r) => parts.slice(r * size, (r + 1) * size)),
    });
  }

  /** Resolves once every rank has called it. */
  barrier({ timeoutMs = this.timeoutMs }: OpOptions = {}): Work<void> {
    return this.#executor.issue({
      count: this.worldSize,
      bucket: 0,
      timeoutMs,
      create: (env) => new AllGatherOp(new Float32Array(this.worldSize), OpCode.BARRIER, env),
      result: () => {},
    });
  }

  /** Gives the group up on every rank: ops in flight are rejected everywhere with `error`'s message. */
  abort(error: Error): void {
    this.#executor.fail(error);
  }

  /** Ends the group on this rank. The links stay open: they belong to whoever made them. */
  destroy(): void {
    this.#executor.fail(
      new UsageError(`Rank ${this.rank} has left this process group: make a new one.`, { rank: this.rank }),
      { tellNeighbours: false },
    );
  }
}

/** Other arrays would be rounded or cut without a word. */
function checkTensor(tensor: unknown): void {
  if (tensor instanceof Float32Array) return;
  const kind = Object.prototype.toString.call(tensor).slice(8, -1);
  throw new UsageError(`Collectives take a Float32Array, not ${kind}: convert it first.`);
}
