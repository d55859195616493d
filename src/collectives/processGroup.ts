/**
 * `ProcessGroup`: the collectives and messages of a group of ranks. Names and meaning are
 * torch.distributed's (https://docs.pytorch.org/docs/stable/distributed.html), in camelCase.
 *
 * Every member must issue the same collectives in the same order; they may be in flight together. A
 * tensor belongs to its op until the op is done. `src` and `dst` are global ranks, also in a
 * subgroup. Who is no member of a group may call its collectives all the same: nothing happens.
 *
 * A collective that fails ends its group on every rank: `work` rejects with TimeoutError naming the
 * ranks that are missing, MismatchError with what each rank called where they differ, or
 * PeerGoneError.
 */
import { Algorithm, OpCode, ReduceOp } from '../protocol/frame.ts';
import type { FlightRecording } from '../protocol/flightRecording.ts';
import type { LinkCounters, LinkDescription } from '../transport/link.ts';
import { systemClock, type Clock } from '../util/clock.ts';
import { MismatchError, UsageError } from '../util/errors.ts';
import { mixSeed } from '../util/rng.ts';
import { allGatherOf, allReduceOf, broadcastOf, reduceOf, type Choice } from './plans/algorithms.ts';
import {
  checkCodec,
  checkCount,
  checkedDisplacements,
  checkMembers,
  checkParts,
  checkReduction,
  checkScattered,
  checkSizes,
  checkTag,
  partSizes,
  peerRank,
  rootRank,
  splitSizes,
  type Caller,
} from './argumentChecks.ts';
import { coalesce, concatenate, split } from './coalesce.ts';
import { amountOf, digestOf } from './diagnostics/descriptor.ts';
import { copyInto, dtypeOf, emptyLike, view, type Dtype, type TypedArray } from './dtypes.ts';
import { Executor, type Issue } from './executor.ts';
import type { Mesh } from './mesh.ts';
import type { MonitoredBarrierOptions } from './diagnostics/monitoredBarrier.ts';
import { ObjectCollectives } from './objects/objectCollectives.ts';
import type {
  AllReduceOptions,
  AllToAllOptions,
  MessageOptions,
  OpOptions,
  P2POp,
  ProcessGroupOptions,
  ReduceOptions,
  RootedOptions,
  SizesOptions,
  TimeoutOption,
} from './options.ts';
import type { PlanOp } from './planOp.ts';
import { directAllToAll, directGather, directScatter, ringReduceScatter, type Displacements } from './plans/plans.ts';
import { scale } from './reduce.ts';
import { traceOfRing } from './plans/ringTrace.ts';
import { Work } from './work.ts';

/**
 * Deadline of one op, unless it or its group says otherwise. Gloo's 30 minutes are too long for
 * people who watch.
 */
export const DEFAULT_OP_TIMEOUT_MS = 60_000;

/** An op whose arguments are checked. Its deadline may be the group's. */
interface Unissued<T> extends Omit<Issue<T>, 'timeoutMs'> {
  timeoutMs: number | undefined;
  /**
   * Writes to the caller's arrays what the op begins with. Not before it is issued: a refused call
   * changes nothing.
   */
  before?: (() => void) | undefined;
}

interface InPlace extends Choice, Pick<AllReduceOptions, 'op' | 'factor' | 'timeoutMs'> {
  root?: number;
  tag?: number;
  amount?: string;
}

export class ProcessGroup {
  /** This rank's place in the group; -1 where it is no member. */
  readonly rank: number;
  readonly worldSize: number;
  /** Global ranks of the members, by rank in the group. */
  readonly ranks: readonly number[];
  /**
   * This rank's number among the tabs of its browser, as torchrun's LOCAL_RANK among those of a
   * machine.
   */
  readonly localRank: number;
  /** Ranks of the world that are tabs of this browser. */
  readonly localWorldSize: number;
  readonly generation: number;
  readonly #mesh: Mesh;
  readonly #options: ProcessGroupOptions;
  readonly #executor: Executor;
  readonly #objects: ObjectCollectives;
  readonly #caller: Caller;
  readonly #clock: Clock;
  /** Deadline of ops issued from now on, milliseconds, unless an op says otherwise. */
  timeoutMs: number;

  /** The world of a mesh. Subgroups come from {@link newGroup}. */
  constructor(mesh: Mesh, options: ProcessGroupOptions = {}, ranks?: readonly number[]) {
    this.#mesh = mesh;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    // A copy: everything that the group does goes by it.
    this.ranks = Object.freeze(ranks ? [...ranks] : Array.from({ length: mesh.worldSize }, (_, rank) => rank));
    this.worldSize = this.ranks.length;
    this.generation = mesh.generation;
    this.localRank = options.localRank ?? 0;
    this.localWorldSize = options.localWorldSize ?? 1;
    this.timeoutMs = options.timeoutMs ?? DEFAULT_OP_TIMEOUT_MS;
    this.#executor = new Executor({
      ...{ mesh, ranks: this.ranks, clock: this.#clock },
      segmentElements: options.segmentElements ?? Infinity,
    });
    this.rank = this.#executor.rank;
    this.#objects = new ObjectCollectives(this, () => this.#executor.reserve());
    this.#caller = { self: mesh.rank, rank: this.rank, ranks: this.ranks };
  }

  /** Bytes of frames this rank's ops have sent since the group began, headers included. */
  get bytesSent(): number {
    return this.#executor.bytesSent;
  }

  /**
   * Bytes of frames that this rank's ops have received since the group began; of frames that came
   * early, once their op is called.
   */
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
   * How bytes travel to a rank of the group, and how many have, both ways, since its link was made
   * for this generation; `null` where there is no link to it. May take a browser's answer: do not
   * await it between two steps.
   */
  async describeLink(rank: number): Promise<(LinkDescription & LinkCounters) | null> {
    const link = this.#mesh.linkTo(this.ranks[rank]!);
    return link && { ...(await link.describe()), ...link.counters };
  }

  /**
   * Combines `tensor` over all ranks, in place: afterwards every rank holds the same bits.
   *
   * @throws UsageError where the op or the codec makes no sense for the dtype.
   */
  allReduce<T extends TypedArray>(tensor: T, options: AllReduceOptions = {}): Work<T> {
    return this.#issue(this.#checkedAllReduce(tensor, options));
  }

  /**
   * Combines `tensor` over all ranks into `dst`'s, in place. What is in the others' afterwards is
   * undefined.
   */
  reduce<T extends TypedArray>(tensor: T, dst: number, options: ReduceOptions & RootedOptions = {}): Work<T> {
    const root = rootRank(this.#caller, dst);
    const dtype = dtypeOf(tensor, options.dtype);
    checkReduction(dtype, options);
    const choice = reduceOf(tensor, root, this.worldSize, options);
    return this.#issue(this.#inPlace(OpCode.REDUCE, tensor, dtype, { ...options, ...choice, root }));
  }

  /** Copies rank `src`'s `tensor` into every rank's, which must have the same length. */
  broadcast<T extends TypedArray>(tensor: T, src: number, options: OpOptions & RootedOptions = {}): Work<T> {
    const root = rootRank(this.#caller, src);
    const dtype = dtypeOf(tensor, options.dtype);
    const choice = broadcastOf(tensor, root, this.worldSize, options);
    const { timeoutMs } = options;
    return this.#issue(
      this.#inPlace(OpCode.BROADCAST, tensor, dtype, { ...choice, root, timeoutMs, op: ReduceOp.NONE }),
    );
  }

  /** Gathers every rank's `tensor`; resolves with one array per rank, in rank order. */
  allGather<T extends TypedArray>(tensor: T, options: SizesOptions = {}): Work<T[]> {
    const dtype = dtypeOf(tensor, options.dtype);
    const sizes = partSizes(this.#caller, tensor, options.sizes);
    const displacements = checkedDisplacements(sizes);
    const parts = emptyLike(tensor, displacements.at(-1)!);
    if (this.#isMember) copyInto(parts, tensor, displacements[this.rank]!);
    const issue = this.#inPlace(OpCode.ALL_GATHER, parts, dtype, {
      ...{ ...allGatherOf(parts, displacements), op: ReduceOp.NONE, timeoutMs: options.timeoutMs },
      ...{ tag: digestOf(sizes), amount: amountOf(sizes) },
    });
    return this.#issue({ ...issue, result: () => split(parts, displacements) });
  }

  /**
   * Gathers every rank's `tensor` on `dst`; resolves with one array per rank there, with `null`
   * elsewhere.
   */
  gather<T extends TypedArray>(tensor: T, dst: number, options: SizesOptions = {}): Work<T[] | null> {
    const { rank, worldSize: n } = this;
    const root = rootRank(this.#caller, dst);
    const dtype = dtypeOf(tensor, options.dtype);
    const sizes = partSizes(this.#caller, tensor, options.sizes);
    const displacements = checkedDisplacements(sizes);
    const isRoot = rank === root;
    const parts = isRoot ? emptyLike(tensor, displacements.at(-1)!) : tensor;
    if (isRoot) copyInto(parts, tensor, displacements[rank]!);
    return this.#issue({
      descriptor: { ...direct(OpCode.GATHER, dtype, root), count: displacements.at(-1)!, tag: digestOf(sizes) },
      plan: () => directGather(rank, n, root, displacements),
      ...{ dtype, source: tensor, target: parts, timeoutMs: options.timeoutMs, amount: amountOf(sizes) },
      result: () => (isRoot ? split(parts, displacements) : null),
    });
  }

  /**
   * Gives each rank its part: `parts[r]`, which only `src` passes, goes into rank r's `tensor`.
   *
   * @throws UsageError where `src` does not pass one part per rank, of its tensor's length, or
   *   another rank passes any.
   */
  scatter<T extends TypedArray>(tensor: T, src: number, parts: readonly T[] | null, options: OpOptions = {}): Work<T> {
    const { rank, worldSize: n } = this;
    const root = rootRank(this.#caller, src);
    const dtype = dtypeOf(tensor, options.dtype);
    const passed = checkScattered(this.#caller, src, parts, 'parts');
    if (passed) checkParts(passed, tensor, dtype, options);
    const displacements = checkedDisplacements(Array.from({ length: n }, () => tensor.length));
    const all = passed ? concatenate(passed, displacements) : tensor;
    if (passed) copyInto(tensor, passed[rank]!, 0);
    return this.#issue({
      descriptor: { ...direct(OpCode.SCATTER, dtype, root), count: displacements.at(-1)!, tag: 0 },
      plan: () => directScatter(rank, n, root, displacements),
      ...{ dtype, source: all, target: tensor, timeoutMs: options.timeoutMs },
      result: () => tensor,
    });
  }

  /**
   * Combines `tensor` over all ranks and gives each rank its part of the result. The tensor stays
   * as it is.
   *
   * @param options.sizes elements of each rank's part; by default equal, so that the length must be
   *   a multiple of the ranks.
   */
  reduceScatter<T extends TypedArray>(tensor: T, options: ReduceOptions & SizesOptions = {}): Work<T> {
    const { rank, worldSize: n } = this;
    const dtype = dtypeOf(tensor, options.dtype);
    const sizes = splitSizes(this.#caller, tensor, options.sizes, 'sizes');
    const displacements = checkedDisplacements(sizes);
    const copy = tensor.slice() as T;
    checkReduction(dtype, options);
    const issue = this.#inPlace(OpCode.REDUCE_SCATTER, copy, dtype, {
      ...{ ...options, algorithm: Algorithm.RING, plan: () => ringReduceScatter(rank, n, displacements) },
      ...{ tag: digestOf(sizes), amount: amountOf(sizes) },
    });
    return this.#issue({ ...issue, result: () => copy.slice(displacements[rank], displacements[rank + 1]) as T });
  }

  /**
   * Sends part j of `tensor` to rank j; resolves with the parts from all ranks, one behind the
   * other (torch: all_to_all_single).
   */
  allToAll<T extends TypedArray>(tensor: T, options: AllToAllOptions = {}): Work<T> {
    const { rank, worldSize: n } = this;
    const dtype = dtypeOf(tensor, options.dtype);
    const inputSplits = splitSizes(this.#caller, tensor, options.inputSplits, 'inputSplits');
    const outputSplits = checkSizes(this.#caller, options.outputSplits ?? inputSplits, 'outputSplits');
    const input = checkedDisplacements(inputSplits);
    const output = checkedDisplacements(outputSplits);
    const target = emptyLike(tensor, output.at(-1)!);
    const [sent, received] = [amountOf(inputSplits), amountOf(outputSplits)];
    if (this.#isMember) this.#copyOwn(tensor, input, target, output);
    return this.#issue({
      descriptor: { ...direct(OpCode.ALL_TO_ALL, dtype, 0), count: tensor.length, tag: 0 },
      plan: () => directAllToAll(rank, n, input, output),
      ...{ dtype, source: tensor, target, timeoutMs: options.timeoutMs },
      amount: sent === received ? sent : `${sent} into ${received}`,
      result: () => target,
    });
  }

  /** Resolves once every rank has called it. */
  barrier({ timeoutMs }: TimeoutOption = {}): Work<void> {
    // An all-reduce of one byte ends on no rank before all have begun it.
    const tensor = new Uint8Array(1);
    const choice = allReduceOf(tensor, this.worldSize);
    const issue = this.#inPlace(OpCode.BARRIER, tensor, dtypeOf(tensor), { ...choice, op: ReduceOp.MAX, timeoutMs });
    return this.#issue<void>({ ...issue, result: () => {} });
  }

  /**
   * A barrier that names who is missing: rank 0 rejects with "Rank 1 failed to pass
   * monitoredBarrier in 2000 ms", naming the first missing rank, or all with `waitAllRanks`. The
   * others reject too.
   */
  async monitoredBarrier({
    timeoutMs = this.timeoutMs,
    waitAllRanks = false,
  }: Partial<MonitoredBarrierOptions> = {}): Promise<void> {
    if (this.#isMember) await this.#executor.monitoredBarrier({ timeoutMs, waitAllRanks });
  }

  /** {@link allReduce} of several tensors at once, one op per dtype; in place. */
  allReduceCoalesced<T extends readonly TypedArray[]>(tensors: T, options: AllReduceOptions = {}): Work<T> {
    return coalesce(tensors, options, this.#clock, (flat, own) => {
      const issue = this.#checkedAllReduce(flat, own);
      return () => this.#issue(issue);
    });
  }

  /** {@link broadcast} of several tensors at once, one op per dtype; in place. */
  broadcastCoalesced<T extends readonly TypedArray[]>(tensors: T, src: number, options: OpOptions = {}): Work<T> {
    rootRank(this.#caller, src);
    return coalesce(tensors, options, this.#clock, (flat, own) => () => this.broadcast(flat, src, own));
  }

  /**
   * {@link allGather} of several tensors of one dtype at once: resolves with each rank's tensors,
   * in rank order.
   */
  async allGatherCoalesced<T extends TypedArray>(tensors: readonly T[], options: OpOptions = {}): Promise<T[][]> {
    if (tensors.length === 0) throw new UsageError('allGatherCoalesced requires a non-empty list of tensors.');
    const dtypes = new Set(tensors.map((tensor) => dtypeOf(tensor, options.dtype)));
    if (dtypes.size > 1) throw new UsageError('allGatherCoalesced takes tensors of one dtype: call it once for each.');
    const displacements = checkedDisplacements(tensors.map(({ length }) => length));
    return (await this.allGather(concatenate(tensors, displacements), options)).map((all) => split(all, displacements));
  }

  /** Rank `src`'s value on every rank: data such as JSON, Map, Set, Date, BigInt, typed arrays. */
  async broadcastObject<T>(value: T | undefined, src: number, { timeoutMs }: TimeoutOption = {}): Promise<T> {
    const isSource = this.rank === rootRank(this.#caller, src);
    if (!this.#isMember) return value as T;
    return this.#objects.broadcast(value, src, isSource, { timeoutMs });
  }

  /** Every rank's value on every rank, in rank order. */
  async allGatherObject<T>(value: T, { timeoutMs }: TimeoutOption = {}): Promise<T[]> {
    return this.#isMember ? this.#objects.allGather(value, { timeoutMs }) : [];
  }

  /** Every rank's value on `dst`, in rank order; `null` elsewhere. */
  async gatherObject<T>(value: T, dst: number, { timeoutMs }: TimeoutOption = {}): Promise<T[] | null> {
    rootRank(this.#caller, dst);
    return this.#isMember ? this.#objects.gather(value, dst, { timeoutMs }) : null;
  }

  /** Rank r gets `values[r]` of rank `src`; only that rank passes any. */
  async scatterObjects<T>(values: readonly T[] | null, src: number, { timeoutMs }: TimeoutOption = {}): Promise<T> {
    rootRank(this.#caller, src);
    if (!this.#isMember) return undefined as T;
    return this.#objects.scatter(checkScattered(this.#caller, src, values, 'values'), src, { timeoutMs });
  }

  /**
   * Sends `tensor` to rank `dst`; resolves once that rank has asked for it and all of it is on its
   * way.
   */
  async send(tensor: TypedArray, dst: number, options: MessageOptions = {}): Promise<void> {
    await this.isend(tensor, dst, options);
  }

  /**
   * Receives into `tensor` from rank `src`, or from any rank for `null`; resolves with the sender's
   * rank.
   */
  async recv(tensor: TypedArray, src: number | null = null, options: MessageOptions = {}): Promise<number> {
    return this.irecv(tensor, src, options);
  }

  /** {@link send} as a `Work`. */
  isend(
    tensor: TypedArray,
    dst: number,
    { tag = 0, timeoutMs = this.timeoutMs, dtype }: MessageOptions = {},
  ): Work<void> {
    const to = peerRank(this.#caller, dst, 'destination');
    checkTag('tag', tag);
    const kind = dtypeOf(tensor, dtype);
    checkCount(tensor.length);
    if (!this.#isMember) return this.#nothing<void>(undefined);
    return this.#executor.messages.send(tensor, kind, to, tag, timeoutMs);
  }

  /** {@link recv} as a `Work`. */
  irecv(
    tensor: TypedArray,
    src: number | null = null,
    { tag = 0, timeoutMs = this.timeoutMs, dtype }: MessageOptions = {},
  ): Work<number> {
    const from = src === null ? null : peerRank(this.#caller, src, 'source');
    checkTag('tag', tag);
    const kind = dtypeOf(tensor, dtype);
    checkCount(tensor.length);
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
   * A group of some of the world's ranks (global). Every rank of the world must call it, with the
   * same ranks in the same order, also those that will be no members. Resolves once all have.
   *
   * @param options its `timeoutMs` is the deadline of making it, and of its ops; by default this
   *   group's.
   * @throws (rejects) UsageError for ranks that do not exist, are named twice, or none, and beyond
   *   65 536 groups of one generation; MismatchError where ranks named others.
   */
  async newGroup(ranks: readonly number[], { timeoutMs = this.timeoutMs }: TimeoutOption = {}): Promise<ProcessGroup> {
    if (this.worldSize !== this.#mesh.worldSize) {
      throw new UsageError('Make groups from the world group: all its ranks must take part.');
    }
    checkMembers(ranks, this.worldSize);
    if (this.failure) throw this.failure;
    // Ready to hear before anyone is told to speak.
    const group = new ProcessGroup(this.#mesh, { ...this.#options, timeoutMs }, ranks);
    try {
      await this.#agreeOn(group.ranks, timeoutMs);
      return group;
    } catch (error) {
      // Nobody else has it to destroy.
      group.destroy();
      throw error;
    }
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
    try {
      for (let first = 0; first < this.worldSize; first += size) {
        groups.push(await this.newGroup(Array.from({ length: size }, (_, i) => first + i)));
      }
    } catch (error) {
      for (const group of groups) group.destroy();
      throw error;
    }
    return [groups[Math.floor(this.rank / size)]!, groups];
  }

  /**
   * Gives the group up on every rank: ops in flight are rejected everywhere with `error`'s message.
   */
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

  get #isMember(): boolean {
    return this.rank >= 0;
  }

  /** Resolves once all ranks have named the same members of a new group. */
  async #agreeOn(members: readonly number[], timeoutMs: number): Promise<void> {
    const said = await this.allGather(Uint32Array.of(mixSeed(...members)), { timeoutMs });
    const other = said.findIndex(([hash]) => hash !== said[0]![0]);
    if (other < 0) return;
    const { rank, worldSize } = this.#mesh;
    const error = new MismatchError(
      `newGroup was called with other ranks on rank ${this.ranks[other]} than on rank ${this.ranks[0]}; rank ${rank} said ${members.join(', ')}.`,
      { rank, worldSize },
    );
    this.abort(error);
    throw error;
  }

  #nothing<T>(value: T): Work<T> {
    const work = new Work<T>('a call of a rank that is no member', this.#clock);
    work.complete(value);
    return work;
  }

  #issue<T>({ timeoutMs, before, ...issue }: Unissued<T>): Work<T> {
    if (!this.#isMember) return this.#nothing(issue.result());
    if (!this.failure) before?.();
    return this.#executor.issue({ ...issue, timeoutMs: timeoutMs ?? this.timeoutMs });
  }

  #inPlace<T extends TypedArray>(code: OpCode, tensor: T, dtype: Dtype, options: InPlace): Unissued<T> {
    const { op = ReduceOp.SUM, factor, algorithm, plan, root = 0, tag = 0, timeoutMs, amount } = options;
    checkCount(tensor.length);
    return {
      descriptor: { op: code, reduceOp: op, dtype: dtype.code, algorithm, root, tag, count: tensor.length },
      ...{ dtype, plan, source: tensor, target: tensor, amount, timeoutMs },
      before: factor === undefined ? undefined : () => scale(tensor, dtype, factor),
      result: () => tensor,
    };
  }

  /** @throws UsageError */
  #checkedAllReduce<T extends TypedArray>(tensor: T, options: AllReduceOptions): Unissued<T> {
    const { worldSize: n, rank } = this;
    const dtype = dtypeOf(tensor, options.dtype);
    const { bucket: tag = 0, lost = null } = options;
    checkTag('bucket', tag);
    checkReduction(dtype, options);
    const codec = checkCodec(tensor, dtype, options);
    const choice = allReduceOf(tensor, n, codec);
    const plain = this.#inPlace(OpCode.ALL_REDUCE, tensor, dtype, { ...options, ...choice, tag });
    // Also where values go as they are: who names another codec means another sum.
    const descriptor = { ...plain.descriptor, dtype: codec?.code ?? dtype.code };
    const isOnRing = choice.algorithm === Algorithm.RING;
    const isEncoded = codec !== null && isOnRing && n > 1;
    return {
      ...{ ...plain, descriptor, ...(isEncoded && { codec, lost }) },
      ...(isOnRing && { trace: (op: PlanOp, startedAt: number) => traceOfRing(op, startedAt, rank, n) }),
      before: () => {
        plain.before?.();
        if (!isEncoded) lost?.fill(0);
      },
    };
  }

  #copyOwn(input: TypedArray, inputCuts: Displacements, output: TypedArray, outputDisplacements: Displacements): void {
    const { rank } = this;
    const own = view(input, inputCuts[rank]!, inputCuts[rank + 1]!);
    if (own.length !== outputDisplacements[rank + 1]! - outputDisplacements[rank]!) {
      throw new UsageError(
        `inputSplits[${rank}] and outputSplits[${rank}] differ, but are rank ${this.#mesh.rank}'s part for itself.`,
      );
    }
    copyInto(output, own, outputDisplacements[rank]!);
  }
}

/** An op in which the root, or every rank, speaks to each other rank itself. */
function direct(op: OpCode, dtype: Dtype, root: number) {
  return { op, dtype: dtype.code, reduceOp: ReduceOp.NONE, algorithm: Algorithm.DIRECT, root };
}
