/**
 * `ProcessGroup`: the collectives and messages of a group of ranks. Names and meaning are torch.distributed's
 * (https://docs.pytorch.org/docs/stable/distributed.html), in camelCase.
 *
 * Every member must issue the same collectives in the same order; they may be in flight together. A tensor belongs to its op
 * until the op is done. `src` and `dst` are global ranks, also in a subgroup. Who is no member of a group may call its
 * collectives all the same: nothing happens.
 *
 * A collective that fails ends its group on every rank: `work` rejects with TimeoutError naming the ranks that are missing,
 * MismatchError with what each rank called where they differ, or PeerGoneError.
 */
import { Algorithm, OpCode, ReduceOp } from '../protocol/frame.ts';
import type { FlightRecording } from '../protocol/flightRecording.ts';
import { systemClock, type Clock } from '../util/clock.ts';
import { asError, MismatchError, ProtocolError, UsageError } from '../util/errors.ts';
import { mixSeed } from '../util/rng.ts';
import { coalesce, concatenate, split } from './coalesce.ts';
import { chooseAllGather, chooseAllReduce, chooseRooted } from './costModel.ts';
import { copyInto, dtypeOf, emptyLike, view, type Dtype, type TypedArray } from './dtypes.ts';
import { Executor, type Issue } from './executor.ts';
import type { Mesh } from './mesh.ts';
import type { MonitoredBarrierOptions } from './monitoredBarrier.ts';
import { decodeObject, encodeObject } from './objects.ts';
import type { PlanOp } from './planOp.ts';
import {
  bruckAllGather,
  chainBroadcast,
  chainReduce,
  cutsOf,
  directAllToAll,
  directBroadcast,
  directGather,
  directReduce,
  directScatter,
  halvingDoubling,
  recursiveDoubling,
  ringAllGather,
  ringAllReduce,
  ringReduceScatter,
  treeBroadcast,
  treeReduce,
  type Cuts,
  type Plan,
} from './plans.ts';
import { reducerFor, scale } from './reduce.ts';
import { modulo, ringStepCount, transferFrom } from './ringPlan.ts';
import { Work, type OpTrace } from './work.ts';

export { ReduceOp };

/** Deadline of one op, unless it or its group says otherwise. Gloo's 30 minutes are too long for people who watch. */
export const DEFAULT_OP_TIMEOUT_MS = 60_000;
/** Largest tag of a message, and bucket: they have two bytes in a frame. */
const MAX_TAG = 0xffff;
/** Sizes of parts that a message of an error lists. */
const MAX_SIZES_NAMED = 8;

export interface ProcessGroupOptions {
  /** Which of its browser's tabs in the world the rank is, and of how many; default 0 of 1. */
  localRank?: number;
  localWorldSize?: number;
  timeoutMs?: number;
  /** Most elements in a frame's payload; smaller than the default only to test. */
  segmentElements?: number;
  clock?: Clock;
}

export interface OpOptions {
  timeoutMs?: number | undefined;
  /** That a Uint16Array holds IEEE half floats. */
  dtype?: 'float16' | undefined;
}

export interface ReduceOptions extends OpOptions {
  /** SUM by default. */
  op?: ReduceOp;
  /** With PREMUL_SUM: what this rank's values are multiplied by first. */
  factor?: number;
}

export interface AllReduceOptions extends ReduceOptions {
  /** Gradient bucket this belongs to, the same on every rank. 0 .. 65 535, 0 by default. */
  bucket?: number;
}

export interface RootedOptions {
  /** `direct`: between the root and each rank, as a parameter server does. By default what is fastest. */
  algorithm?: 'direct';
}

export interface SizesOptions extends OpOptions {
  /** Elements of each rank's part, the same list on every rank; by default all are as large as this rank's. */
  sizes?: readonly number[];
}

export interface AllToAllOptions extends OpOptions {
  /** Elements for, and from, each rank; by default equal parts. */
  inputSplits?: readonly number[];
  outputSplits?: readonly number[];
}

export interface MessageOptions extends OpOptions {
  /** Receives take messages of their own tag only. 0 .. 65 535, 0 by default. */
  tag?: number;
}

/** One message of {@link ProcessGroup.batchIsendIrecv}. */
export interface P2POp extends MessageOptions {
  op: 'isend' | 'irecv';
  tensor: TypedArray;
  peer: number;
}

type TimeoutOption = Pick<OpOptions, 'timeoutMs'>;

/** An op but for its deadline, which may be the group's. */
type Unissued<T> = Omit<Issue<T>, 'timeoutMs'> & { timeoutMs: number | undefined };

interface InPlace extends Pick<AllReduceOptions, 'op' | 'timeoutMs'> {
  algorithm: Algorithm;
  plan: Plan;
  root?: number;
  tag?: number;
  amount?: string;
}

const ALL_REDUCE_PLANS: Partial<Record<Algorithm, typeof ringAllReduce>> = {
  [Algorithm.RING]: ringAllReduce,
  [Algorithm.HALVING_DOUBLING]: halvingDoubling,
  [Algorithm.DOUBLING]: recursiveDoubling,
};
const REDUCE_PLANS: Partial<Record<Algorithm, typeof chainReduce>> = {
  [Algorithm.RING]: chainReduce,
  [Algorithm.TREE]: treeReduce,
  [Algorithm.DIRECT]: directReduce,
};
const BROADCAST_PLANS: Partial<Record<Algorithm, typeof chainBroadcast>> = {
  [Algorithm.RING]: chainBroadcast,
  [Algorithm.TREE]: treeBroadcast,
  [Algorithm.DIRECT]: directBroadcast,
};

/** Largest encoded object: what its receivers make room for before they have seen any of it. */
const MAX_OBJECT_BYTES = 256 * 1024 * 1024;
/** What text is filled up with. */
const BLANK = 0x20;

export class ProcessGroup {
  /** This rank's place in the group; -1 where it is no member. */
  readonly rank: number;
  readonly worldSize: number;
  /** Global ranks of the members, by rank in the group. */
  readonly ranks: readonly number[];
  /** This rank's number among the tabs of its browser, as torchrun's LOCAL_RANK among those of a machine. */
  readonly localRank: number;
  /** Ranks of the world that are tabs of this browser. */
  readonly localWorldSize: number;
  readonly epoch: number;
  readonly #mesh: Mesh;
  readonly #options: ProcessGroupOptions;
  readonly #executor: Executor;
  readonly #clock: Clock;
  /** Deadline of ops issued from now on, milliseconds, unless an op says otherwise. */
  timeoutMs: number;

  /** The world of a mesh. Subgroups come from {@link newGroup}. */
  constructor(mesh: Mesh, options: ProcessGroupOptions = {}, ranks?: readonly number[]) {
    this.#mesh = mesh;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.ranks = ranks ?? Array.from({ length: mesh.worldSize }, (_, rank) => rank);
    this.worldSize = this.ranks.length;
    this.epoch = mesh.epoch;
    this.localRank = options.localRank ?? 0;
    this.localWorldSize = options.localWorldSize ?? 1;
    this.timeoutMs = options.timeoutMs ?? DEFAULT_OP_TIMEOUT_MS;
    this.#executor = new Executor({
      ...{ mesh, ranks: this.ranks, clock: this.#clock },
      segmentElements: options.segmentElements ?? Infinity,
    });
    this.rank = this.#executor.rank;
  }

  /** Bytes of frames this rank's ops have sent since the group began, headers included. */
  get bytesSent(): number {
    return this.#executor.bytesSent;
  }

  /** Bytes of frames that have come for this rank's ops. */
  get bytesReceived(): number {
    return this.#executor.bytesReceived;
  }

  /** Why the group is over; `null` while it is not. */
  get failure(): Error | null {
    return this.#executor.failure;
  }

  /** This rank's last collectives and messages, of all groups. */
  get flightRecording(): FlightRecording {
    return this.#mesh.recorder.dump();
  }

  /**
   * Combines `tensor` over all ranks, in place: afterwards every rank holds the same bits.
   *
   * @throws UsageError where the op makes no sense for the dtype.
   */
  allReduce<T extends TypedArray>(tensor: T, options: AllReduceOptions = {}): Work<T> {
    const { worldSize: n, rank } = this;
    const dtype = dtypeOf(tensor, options.dtype);
    const count = tensor.length;
    const { bucket: tag = 0 } = options;
    checkTag('bucket', tag);
    this.#prepare(tensor, dtype, options);
    const algorithm = chooseAllReduce(n, tensor.byteLength);
    const plan = this.#isMember ? ALL_REDUCE_PLANS[algorithm]!(rank, n, count) : [];
    const issue = this.#inPlace(OpCode.ALL_REDUCE, tensor, dtype, { ...options, algorithm, plan, tag });
    if (algorithm !== Algorithm.RING) return this.#issue(issue);
    return this.#issue({ ...issue, trace: (op, startedAt) => traceOf(op, startedAt, rank, n) });
  }

  /** Combines `tensor` over all ranks into `dst`'s, in place. What is in the others' afterwards is undefined. */
  reduce<T extends TypedArray>(tensor: T, dst: number, options: ReduceOptions & RootedOptions = {}): Work<T> {
    const root = this.#root(dst);
    const dtype = dtypeOf(tensor, options.dtype);
    this.#prepare(tensor, dtype, options);
    const algorithm = this.#rooted(tensor, options);
    const plan = this.#isMember ? REDUCE_PLANS[algorithm]!(this.rank, this.worldSize, root, tensor.length) : [];
    return this.#issue(this.#inPlace(OpCode.REDUCE, tensor, dtype, { ...options, algorithm, plan, root }));
  }

  /** Copies rank `src`'s `tensor` into every rank's, which must have the same length. */
  broadcast<T extends TypedArray>(tensor: T, src: number, options: OpOptions & RootedOptions = {}): Work<T> {
    const root = this.#root(src);
    const dtype = dtypeOf(tensor, options.dtype);
    const algorithm = this.#rooted(tensor, options);
    const plan = this.#isMember ? BROADCAST_PLANS[algorithm]!(this.rank, this.worldSize, root, tensor.length) : [];
    const { timeoutMs } = options;
    return this.#issue(
      this.#inPlace(OpCode.BROADCAST, tensor, dtype, { algorithm, plan, root, timeoutMs, op: ReduceOp.NONE }),
    );
  }

  /** Gathers every rank's `tensor`; resolves with one array per rank, in rank order. */
  allGather<T extends TypedArray>(tensor: T, options: SizesOptions = {}): Work<T[]> {
    const { rank, worldSize: n } = this;
    const dtype = dtypeOf(tensor, options.dtype);
    const sizes = this.#sizes(tensor, options.sizes);
    const cuts = cutsOf(sizes);
    const parts = emptyLike(tensor, cuts.at(-1)!);
    if (this.#isMember) copyInto(parts, tensor, cuts[rank]!);
    const algorithm = chooseAllGather(n, parts.byteLength);
    const planOf = algorithm === Algorithm.RING ? ringAllGather : bruckAllGather;
    const plan = this.#isMember ? planOf(rank, n, cuts) : [];
    const { timeoutMs } = options;
    const issue = this.#inPlace(OpCode.ALL_GATHER, parts, dtype, {
      ...{ op: ReduceOp.NONE, algorithm, plan, timeoutMs },
      ...{ tag: digestOf(sizes), amount: amountOf(sizes) },
    });
    return this.#issue({ ...issue, result: () => split(parts, cuts) });
  }

  /** Gathers every rank's `tensor` on `dst`; resolves with one array per rank there, with `null` elsewhere. */
  gather<T extends TypedArray>(tensor: T, dst: number, options: SizesOptions = {}): Work<T[] | null> {
    const { rank, worldSize: n } = this;
    const root = this.#root(dst);
    const dtype = dtypeOf(tensor, options.dtype);
    const sizes = this.#sizes(tensor, options.sizes);
    const cuts = cutsOf(sizes);
    const isRoot = rank === root;
    const parts = isRoot ? emptyLike(tensor, cuts.at(-1)!) : tensor;
    if (isRoot) copyInto(parts, tensor, cuts[rank]!);
    return this.#issue({
      descriptor: { ...direct(OpCode.GATHER, dtype, root), count: cuts.at(-1)!, tag: digestOf(sizes) },
      plan: this.#isMember ? directGather(rank, n, root, cuts) : [],
      ...{ dtype, source: tensor, target: parts, timeoutMs: options.timeoutMs, amount: amountOf(sizes) },
      result: () => (isRoot ? split(parts, cuts) : null),
    });
  }

  /**
   * Gives each rank its part: `parts[r]`, which only `src` passes, goes into rank r's `tensor`.
   *
   * @throws UsageError where `src` does not pass one part per rank, of its tensor's length, or another rank passes any.
   */
  scatter<T extends TypedArray>(tensor: T, src: number, parts: readonly T[] | null, options: OpOptions = {}): Work<T> {
    const { rank, worldSize: n } = this;
    const root = this.#root(src);
    const dtype = dtypeOf(tensor, options.dtype);
    if (rank === root) this.#checkParts(parts, tensor, dtype, options);
    else if (parts !== null) throw new UsageError(`Only rank ${src} scatters: pass null on rank ${this.#name}.`);
    const cuts = cutsOf(Array.from({ length: n }, () => tensor.length));
    const all = rank === root ? concatenate(parts!, cuts) : tensor;
    if (rank === root) copyInto(tensor, parts![rank]!, 0);
    return this.#issue({
      descriptor: { ...direct(OpCode.SCATTER, dtype, root), count: cuts.at(-1)!, tag: 0 },
      plan: this.#isMember ? directScatter(rank, n, root, cuts) : [],
      ...{ dtype, source: all, target: tensor, timeoutMs: options.timeoutMs },
      result: () => tensor,
    });
  }

  /**
   * Combines `tensor` over all ranks and gives each rank its part of the result. The tensor stays as it is.
   *
   * @param options.sizes elements of each rank's part; by default equal, so that the length must be a multiple of the ranks.
   */
  reduceScatter<T extends TypedArray>(tensor: T, options: ReduceOptions & SizesOptions = {}): Work<T> {
    const { rank, worldSize: n } = this;
    const dtype = dtypeOf(tensor, options.dtype);
    const sizes = this.#splits(tensor.length, options.sizes, 'sizes');
    const cuts = cutsOf(sizes);
    const copy = tensor.slice() as T;
    this.#prepare(copy, dtype, options);
    const plan = this.#isMember ? ringReduceScatter(rank, n, cuts) : [];
    const issue = this.#inPlace(OpCode.REDUCE_SCATTER, copy, dtype, {
      ...{ ...options, algorithm: Algorithm.RING, plan },
      ...{ tag: digestOf(sizes), amount: amountOf(sizes) },
    });
    return this.#issue({ ...issue, result: () => copy.slice(cuts[rank], cuts[rank + 1]) as T });
  }

  /** Sends part j of `tensor` to rank j; resolves with the parts from all ranks, one behind the other (torch: all_to_all_single). */
  allToAll<T extends TypedArray>(tensor: T, options: AllToAllOptions = {}): Work<T> {
    const { rank, worldSize: n } = this;
    const dtype = dtypeOf(tensor, options.dtype);
    const inputSplits = this.#splits(tensor.length, options.inputSplits, 'inputSplits');
    const outputSplits = options.outputSplits ? this.#checkSizes(options.outputSplits, 'outputSplits') : inputSplits;
    const input = cutsOf(inputSplits);
    const output = cutsOf(outputSplits);
    const target = emptyLike(tensor, output.at(-1)!);
    const [sent, received] = [amountOf(inputSplits), amountOf(outputSplits)];
    if (this.#isMember) this.#copyOwn(tensor, input, target, output);
    return this.#issue({
      descriptor: { ...direct(OpCode.ALL_TO_ALL, dtype, 0), count: tensor.length, tag: 0 },
      plan: this.#isMember ? directAllToAll(rank, n, input, output) : [],
      ...{ dtype, source: tensor, target, timeoutMs: options.timeoutMs },
      amount: sent === received ? sent : `${sent} into ${received}`,
      result: () => target,
    });
  }

  /** Resolves once every rank has called it. */
  barrier({ timeoutMs }: Pick<OpOptions, 'timeoutMs'> = {}): Work<void> {
    const { rank, worldSize: n } = this;
    // An all-reduce of one byte ends on no rank before all have begun it.
    const tensor = new Uint8Array(1);
    const algorithm = chooseAllReduce(n, tensor.byteLength);
    const plan = this.#isMember ? ALL_REDUCE_PLANS[algorithm]!(rank, n, 1) : [];
    const issue = this.#inPlace(OpCode.BARRIER, tensor, dtypeOf(tensor), {
      op: ReduceOp.MAX,
      algorithm,
      plan,
      timeoutMs,
    });
    return this.#issue<void>({ ...issue, result: () => {} });
  }

  /**
   * A barrier that names who is missing: rank 0 rejects with "Rank 1 failed to pass monitoredBarrier in 2000 ms", naming the
   * first missing rank, or all with `waitAllRanks`. The others reject too.
   */
  async monitoredBarrier({
    timeoutMs = this.timeoutMs,
    waitAllRanks = false,
  }: Partial<MonitoredBarrierOptions> = {}): Promise<void> {
    if (this.#isMember) await this.#executor.monitoredBarrier({ timeoutMs, waitAllRanks });
  }

  /** {@link allReduce} of several tensors at once, one op per dtype; in place. */
  allReduceCoalesced<T extends readonly TypedArray[]>(tensors: T, options: AllReduceOptions = {}): Work<T> {
    // All of them before any is sent.
    for (const tensor of tensors) checkReduction(dtypeOf(tensor, forArray(tensor, options).dtype), options);
    return coalesce(tensors, this.#clock, (flat) => this.allReduce(flat, forArray(flat, options)));
  }

  /** {@link broadcast} of several tensors at once, one op per dtype; in place. */
  broadcastCoalesced<T extends readonly TypedArray[]>(tensors: T, src: number, options: OpOptions = {}): Work<T> {
    this.#root(src);
    for (const tensor of tensors) dtypeOf(tensor, forArray(tensor, options).dtype);
    return coalesce(tensors, this.#clock, (flat) => this.broadcast(flat, src, forArray(flat, options)));
  }

  /** {@link allGather} of several tensors of one dtype at once: resolves with each rank's tensors, in rank order. */
  async allGatherCoalesced<T extends TypedArray>(tensors: readonly T[], options: OpOptions = {}): Promise<T[][]> {
    if (tensors.length === 0) throw new UsageError('allGatherCoalesced requires a non-empty list of tensors.');
    const dtypes = new Set(tensors.map((tensor) => dtypeOf(tensor, options.dtype)));
    if (dtypes.size > 1) throw new UsageError('allGatherCoalesced takes tensors of one dtype: call it once for each.');
    const cuts = cutsOf(tensors.map(({ length }) => length));
    return (await this.allGather(concatenate(tensors, cuts), options)).map((all) => split(all, cuts));
  }

  /** Rank `src`'s value on every rank: data such as JSON, Map, Set, Date, BigInt, typed arrays. */
  async broadcastObject<T>(value: T | undefined, src: number, { timeoutMs }: TimeoutOption = {}): Promise<T> {
    const isSource = this.rank === this.#root(src);
    if (!this.#isMember) return value as T;
    const mine = isSource ? encodeObject(value) : new Uint8Array();
    const sizeOf = this.broadcast(Float64Array.of(mine.length), src, { timeoutMs });
    const bytes = await this.#inTwo(sizeOf, ([size]) =>
      this.broadcast(isSource ? mine : bytesFor(size!), src, { timeoutMs }),
    );
    return isSource ? (value as T) : (decodeObject(bytes) as T);
  }

  /** Every rank's value on every rank, in rank order. */
  async allGatherObject<T>(value: T, { timeoutMs }: TimeoutOption = {}): Promise<T[]> {
    if (!this.#isMember) return [];
    const mine = encodeObject(value);
    const sizesOf = this.allGather(Float64Array.of(mine.length), { timeoutMs });
    const parts = await this.#inTwo(sizesOf, (all) => this.allGather(mine, { sizes: sizesIn(all), timeoutMs }));
    return parts.map((bytes, rank) => (rank === this.rank ? value : (decodeObject(bytes) as T)));
  }

  /** Every rank's value on `dst`, in rank order; `null` elsewhere. */
  async gatherObject<T>(value: T, dst: number, { timeoutMs }: TimeoutOption = {}): Promise<T[] | null> {
    this.#root(dst);
    if (!this.#isMember) return null;
    const mine = encodeObject(value);
    const sizesOf = this.allGather(Float64Array.of(mine.length), { timeoutMs });
    const parts = await this.#inTwo(sizesOf, (all) => this.gather(mine, dst, { sizes: sizesIn(all), timeoutMs }));
    return parts?.map((bytes, rank) => (rank === this.rank ? value : (decodeObject(bytes) as T))) ?? null;
  }

  /** Rank r gets `values[r]` of rank `src`; only that rank passes any. */
  async scatterObjects<T>(values: readonly T[] | null, src: number, { timeoutMs }: TimeoutOption = {}): Promise<T> {
    const isSource = this.rank === this.#root(src);
    if (!this.#isMember) return undefined as T;
    if (!isSource && values !== null)
      throw new UsageError(`Only rank ${src} scatters: pass null on rank ${this.#name}.`);
    if (isSource && values?.length !== this.worldSize) {
      throw new UsageError(
        `Incorrect input list size: rank ${src} scatters ${this.worldSize} values, one per rank, not ${values?.length ?? 0}.`,
      );
    }
    const encoded = (isSource ? values! : []).map(encodeObject);
    const length = Float64Array.of(Math.max(0, ...encoded.map((bytes) => bytes.length)));
    const bytes = await this.#inTwo(this.broadcast(length, src, { timeoutMs }), ([size]) => {
      // Parts of a scatter are of one size: shorter ones are filled up with blanks, which JSON may end with.
      const parts = encoded.map((part) => {
        const filled = bytesFor(size!).fill(BLANK);
        filled.set(part);
        return filled;
      });
      return this.scatter(bytesFor(size!), src, isSource ? parts : null, { timeoutMs });
    });
    return isSource ? values![this.rank]! : (decodeObject(bytes) as T);
  }

  /** Sends `tensor` to rank `dst`; resolves once that rank has asked for it and all of it is on its way. */
  async send(tensor: TypedArray, dst: number, options: MessageOptions = {}): Promise<void> {
    await this.isend(tensor, dst, options);
  }

  /** Receives into `tensor` from rank `src`, or from any rank for `null`; resolves with the sender's rank. */
  async recv(tensor: TypedArray, src: number | null = null, options: MessageOptions = {}): Promise<number> {
    return this.irecv(tensor, src, options);
  }

  /** {@link send} as a `Work`. */
  isend(
    tensor: TypedArray,
    dst: number,
    { tag = 0, timeoutMs = this.timeoutMs, dtype }: MessageOptions = {},
  ): Work<void> {
    const to = this.#peer(dst, 'destination');
    checkTag('tag', tag);
    const kind = dtypeOf(tensor, dtype);
    if (!this.#isMember) return this.#nothing<void>(undefined);
    return this.#executor.messages.send(tensor, kind, to, tag, timeoutMs);
  }

  /** {@link recv} as a `Work`. */
  irecv(
    tensor: TypedArray,
    src: number | null = null,
    { tag = 0, timeoutMs = this.timeoutMs, dtype }: MessageOptions = {},
  ): Work<number> {
    const from = src === null ? null : this.#peer(src, 'source');
    checkTag('tag', tag);
    const kind = dtypeOf(tensor, dtype);
    if (!this.#isMember) return this.#nothing(-1);
    return this.#executor.messages.receiveInto(tensor, kind, from, tag, timeoutMs);
  }

  /** Starts several messages at once, in whatever order suits the network: one `Work` for each. */
  batchIsendIrecv(ops: readonly P2POp[]): (Work<number> | Work<void>)[] {
    if (ops.length === 0) throw new UsageError('batchIsendIrecv requires a non-empty list of messages.');
    return ops.map(({ op, tensor, peer, ...options }) =>
      op === 'isend' ? this.isend(tensor, peer, options) : this.irecv(tensor, peer, options),
    );
  }

  /**
   * A group of some of the world's ranks (global). Every rank of the world must call it, with the same ranks in the same order,
   * also those that will be no members. Resolves once all have.
   *
   * @param options.timeoutMs deadline of making it, and of its ops; by default this group's.
   * @throws (rejects) UsageError for ranks that do not exist, are named twice, or none; MismatchError where ranks named others.
   */
  async newGroup(ranks: readonly number[], { timeoutMs = this.timeoutMs }: TimeoutOption = {}): Promise<ProcessGroup> {
    if (this.worldSize !== this.#mesh.worldSize) {
      throw new UsageError('Make groups from the world group: all its ranks must take part.');
    }
    const wrong = ranks.find((rank) => !this.ranks.includes(rank));
    if (ranks.length === 0) throw new UsageError('A group needs at least one rank.');
    if (wrong !== undefined)
      throw new UsageError(`Rank ${wrong} does not exist: the world has ranks 0 .. ${this.worldSize - 1}.`);
    if (new Set(ranks).size < ranks.length)
      throw new UsageError(`A group names each rank once, not ${ranks.join(', ')}.`);
    // Ready to hear before anyone is told to speak.
    const group = new ProcessGroup(this.#mesh, { ...this.#options, timeoutMs }, ranks);
    const said = await this.allGather(Uint32Array.of(mixSeed(...ranks)), { timeoutMs });
    const other = said.findIndex(([hash]) => hash !== said[0]![0]);
    if (other < 0) return group;
    const error = new MismatchError(
      `newGroup was called with other ranks on rank ${other} than on rank 0; rank ${this.rank} said ${ranks.join(', ')}.`,
      { rank: this.rank, worldSize: this.worldSize },
    );
    this.abort(error);
    throw error;
  }

  /**
   * Cuts the world into groups of `size` neighbouring ranks each (torch: new_subgroups).
   *
   * @returns this rank's group, and all of them.
   * @throws (rejects) UsageError where the world cannot be cut so.
   */
  async newSubgroups(size: number): Promise<[mine: ProcessGroup, all: ProcessGroup[]]> {
    if (!Number.isInteger(size) || size < 1 || this.worldSize % size !== 0) {
      throw new UsageError(`A world of ${this.worldSize} cannot be cut into groups of ${size}.`);
    }
    const groups: ProcessGroup[] = [];
    for (let first = 0; first < this.worldSize; first += size) {
      groups.push(await this.newGroup(Array.from({ length: size }, (_, i) => first + i)));
    }
    return [groups[Math.floor(this.rank / size)]!, groups];
  }

  /** Gives the group up on every rank: ops in flight are rejected everywhere with `error`'s message. */
  abort(error: Error): void {
    if (this.#isMember) this.#executor.fail(error);
  }

  /** Ends the group on this rank. The links stay open: they belong to whoever made them. */
  destroy(): void {
    this.#executor.fail(
      new UsageError(`Rank ${this.#mesh.rank} has left this process group: make a new one.`, { rank: this.#mesh.rank }),
      { tell: false },
    );
  }

  /**
   * The two collectives of an object: sizes, then bytes, under a number that is taken now. Ranks that fail between the two
   * would leave the others waiting, so the group fails.
   */
  async #inTwo<Sizes, Result>(sizes: Work<Sizes>, bytes: (sizes: Sizes) => Work<Result>): Promise<Result> {
    const later = this.#executor.reserve();
    try {
      const known = await sizes;
      return await later(() => bytes(known));
    } catch (error) {
      this.abort(asError(error));
      throw error;
    }
  }

  get #isMember(): boolean {
    return this.rank >= 0;
  }

  /** This rank in messages. */
  get #name(): number {
    return this.#mesh.rank;
  }

  #nothing<T>(value: T): Work<T> {
    const work = new Work<T>('a call of a rank that is no member', this.#clock);
    work.complete(value);
    return work;
  }

  #issue<T>({ timeoutMs, ...issue }: Unissued<T>): Work<T> {
    if (!this.#isMember) return this.#nothing(issue.result());
    return this.#executor.issue({ ...issue, timeoutMs: timeoutMs ?? this.timeoutMs });
  }

  #inPlace<T extends TypedArray>(code: OpCode, tensor: T, dtype: Dtype, options: InPlace): Unissued<T> {
    const { op = ReduceOp.SUM, algorithm, plan, root = 0, tag = 0, timeoutMs, amount } = options;
    return {
      descriptor: { op: code, reduceOp: op, dtype: dtype.code, algorithm, root, tag, count: tensor.length },
      ...{ dtype, plan, source: tensor, target: tensor, amount, timeoutMs },
      result: () => tensor,
    };
  }

  /** Checks a reduction, and does what it does to this rank's tensor first. @throws UsageError */
  #prepare(tensor: TypedArray, dtype: Dtype, options: ReduceOptions): void {
    checkReduction(dtype, options);
    if (options.factor !== undefined && this.#isMember) scale(tensor, dtype, options.factor);
  }

  /** The group's rank of global rank `rank`. */
  #root(rank: number): number {
    const root = this.ranks.indexOf(rank);
    if (root >= 0) return root;
    throw new UsageError(`Invalid root rank ${rank}: this group has ranks ${rangeOf(this.ranks)}.`);
  }

  #peer(rank: number, what: string): number {
    const peer = this.ranks.indexOf(rank);
    if (peer >= 0 && peer !== this.rank) return peer;
    const why = peer >= 0 ? 'a rank does not send to itself' : `this group has ranks ${rangeOf(this.ranks)}`;
    throw new UsageError(`Invalid ${what} rank ${rank}: ${why}.`);
  }

  #rooted(tensor: TypedArray, { algorithm }: RootedOptions): Algorithm {
    return algorithm === 'direct' ? Algorithm.DIRECT : chooseRooted(this.worldSize, tensor.byteLength);
  }

  /** Sizes of all ranks' parts, where this rank's is `tensor`. */
  #sizes(tensor: TypedArray, sizes: readonly number[] | undefined): readonly number[] {
    if (sizes === undefined) return this.ranks.map(() => tensor.length);
    this.#checkSizes(sizes, 'sizes');
    if (this.#isMember && sizes[this.rank] !== tensor.length) {
      throw new UsageError(
        `sizes[${this.rank}] is ${sizes[this.rank]}, but rank ${this.#name}'s tensor has ${tensor.length} elements.`,
      );
    }
    return sizes;
  }

  /** Sizes of the parts that a tensor of `length` elements is cut into. */
  #splits(length: number, sizes: readonly number[] | undefined, name: string): readonly number[] {
    const n = this.worldSize;
    if (sizes === undefined) {
      if (length % n === 0) return this.ranks.map(() => length / n);
      throw new UsageError(`${length} elements cannot be cut into ${n} equal parts: pass ${name}.`);
    }
    const sum = this.#checkSizes(sizes, name).reduce((total, size) => total + size, 0);
    if (sum !== length) throw new UsageError(`${name} add up to ${sum}, but the tensor has ${length} elements.`);
    return sizes;
  }

  #checkSizes(sizes: readonly number[], name: string): readonly number[] {
    if (sizes.length !== this.worldSize || !sizes.every((size) => Number.isSafeInteger(size) && size >= 0)) {
      throw new UsageError(`${name} must be ${this.worldSize} whole numbers, one per rank, not ${sizes.join(', ')}.`);
    }
    return sizes;
  }

  #checkParts(parts: readonly TypedArray[] | null, tensor: TypedArray, dtype: Dtype, options: OpOptions): void {
    if (parts?.length !== this.worldSize) {
      throw new UsageError(
        `Incorrect input list size: rank ${this.#name} scatters ${this.worldSize} parts, one per rank, not ${parts?.length ?? 0}.`,
      );
    }
    const odd = parts.findIndex((one) => one.length !== tensor.length || dtypeOf(one, options.dtype) !== dtype);
    if (odd < 0) return;
    throw new UsageError(
      `parts[${odd}] is ${parts[odd]!.length} ${dtypeOf(parts[odd]!, options.dtype).name}, where every rank receives ${tensor.length} ${dtype.name}.`,
    );
  }

  #copyOwn(input: TypedArray, inputCuts: Cuts, output: TypedArray, outputCuts: Cuts): void {
    const { rank } = this;
    const own = view(input, inputCuts[rank]!, inputCuts[rank + 1]!);
    if (own.length !== outputCuts[rank + 1]! - outputCuts[rank]!) {
      throw new UsageError(
        `inputSplits[${rank}] and outputSplits[${rank}] differ, but are rank ${this.#name}'s part for itself.`,
      );
    }
    copyInto(output, own, outputCuts[rank]!);
  }
}

/** @throws ProtocolError where another rank's object says that it is larger than any may be. */
function checkObjectSize(size: number): void {
  if (size >= 0 && size <= MAX_OBJECT_BYTES) return;
  throw new ProtocolError(
    `An object of ${size} bytes is more than ranks take (${MAX_OBJECT_BYTES}): send typed arrays.`,
  );
}

/** Room for an object. */
function bytesFor(size: number): Uint8Array {
  checkObjectSize(size);
  return new Uint8Array(size);
}

function sizesIn(all: readonly Float64Array[]): number[] {
  for (const [size] of all) checkObjectSize(size!);
  return all.map(([size]) => size!);
}

/** An op in which the root, or every rank, speaks to each other rank itself. */
function direct(op: OpCode, dtype: Dtype, root: number) {
  return { op, dtype: dtype.code, reduceOp: ReduceOp.NONE, algorithm: Algorithm.DIRECT, root };
}

/** Options of a coalesced collective for one of its arrays: only an array of 16-bit words can hold halves. */
function forArray<Options extends OpOptions>(flat: TypedArray, options: Options): Options {
  return flat instanceof Uint16Array ? options : { ...options, dtype: undefined };
}

/** @throws UsageError where the op makes no sense for the dtype, or there is a factor and no PREMUL_SUM, or the reverse. */
function checkReduction(dtype: Dtype, { op = ReduceOp.SUM, factor }: ReduceOptions): void {
  reducerFor(dtype, op);
  if ((op === ReduceOp.PREMUL_SUM) === (factor !== undefined)) return;
  throw new UsageError('PREMUL_SUM needs a factor, and only PREMUL_SUM takes one.');
}

function checkTag(what: 'tag' | 'bucket', value: number): void {
  if (Number.isInteger(value) && value >= 0 && value <= MAX_TAG) return;
  throw new UsageError(`A ${what} is a whole number from 0 to ${MAX_TAG}, not ${value}.`);
}

/** Differs, but for one list in 65 536, where sizes do: of the same sum, they would else look the same to other ranks. */
function digestOf(sizes: readonly number[]): number {
  return mixSeed(...sizes) % (MAX_TAG + 1);
}

/** `12` elements in equal parts, or `3 + 4 + 5`. */
function amountOf(sizes: readonly number[]): string {
  if (sizes.every((size) => size === sizes[0])) return String(sizes.length * sizes[0]!);
  const more = sizes.length > MAX_SIZES_NAMED ? ' + ...' : '';
  return `${sizes.slice(0, MAX_SIZES_NAMED).join(' + ')}${more}`;
}

/** `0 .. 3`, `0, 2, 5`. */
function rangeOf(ranks: readonly number[]): string {
  const isRange = ranks.every((rank, i) => rank === i);
  return isRange ? `0 .. ${ranks.length - 1}` : ranks.join(', ');
}

/** When each chunk went and came: what the plan's ring steps show on a page. */
function traceOf(op: PlanOp, startedAt: number, rank: number, n: number): OpTrace {
  const left = modulo(rank - 1, n);
  const hops = Array.from({ length: ringStepCount(n) }, (_, ringStep) => ({
    ringStep,
    sentChunk: transferFrom(n, ringStep, rank).chunk,
    receivedChunk: transferFrom(n, ringStep, left).chunk,
    sentAt: op.endOf('send', ringStep),
    receivedAt: op.endOf('receive', ringStep),
  }));
  return { startedAt, hops };
}
