/**
 * `ProcessGroup`: the collectives and messages of a group of ranks. Names and meanings are those of
 * torch.distributed (https://docs.pytorch.org/docs/stable/distributed.html), in camelCase.
 *
 * Every member must issue the same collectives in the same order. Several collectives may be in
 * flight at the same time. Do not use a tensor while its op is in flight. `src` and `dst` are
 * global ranks, also in a subgroup. On a rank that is not a member, collectives do nothing.
 *
 * A failed collective ends its group on every rank. Its `Work` rejects with TimeoutError,
 * MismatchError or PeerGoneError. A TimeoutError names the missing ranks. A MismatchError names the
 * call of each rank.
 */
import type { ServedPairs, ServerForwarding } from '../protocol/control.ts';
import type { FlightRecording } from '../protocol/flightRecording.ts';
import type { LinkTrafficCounters, LinkDescription } from '../transport/link.ts';
import type { AlgorithmName } from '../spec/algorithms.ts';
import { systemClock, type Clock } from '../util/clock.ts';
import { createDeferred } from '../util/deferred.ts';
import { UsageError } from '../util/errors.ts';
import {
  checkedDisplacements,
  checkGroupRanks,
  checkedMessageOptions,
  groupRankOfPeer,
  groupRankOfRoot,
  type CallerInGroup,
} from './argumentChecks.ts';
import { runCoalesced, concatenateParts, splitAtDisplacements } from './coalesce.ts';
import { dtypeOf, type TypedArray } from './dtypes.ts';
import { CollectiveExecutor } from './executor.ts';
import { agreeOnMembers, createSubgroups } from './groupCreation.ts';
import type { Mesh } from './mesh.ts';
import { NO_SERVED_PAIRS } from './plans/costModel.ts';
import { collectiveOpName } from './diagnostics/descriptor.ts';
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
  ReduceScatterOptions,
  RootedOptions,
  SizesOptions,
  GroupOptions,
  WaitOptions,
} from './options.ts';
import {
  prepareAllGather,
  prepareAllReduce,
  prepareAllToAll,
  prepareBarrier,
  prepareBroadcast,
  prepareGather,
  prepareReduce,
  prepareReduceScatter,
  prepareScatter,
  type PreparedOp,
} from './preparedOps.ts';
import { issueAbortable, checkSignalNotAborted, failGroupOnAbort, Work, type AbortableGroup } from './work.ts';

/**
 * Default of the maximum time without progress. Gloo's 30 minutes are too long for users at a page.
 */
export const DEFAULT_OP_TIMEOUT_MS = 60_000;

/**
 * The ranks of a world, or some of them, and their collectives (torch: `ProcessGroup`).
 *
 * @example
 * ```ts
 * const sum = Float32Array.of(group.rank);
 * await group.allReduce(sum); // in place: the same on all ranks
 * const names = await group.allGatherObject({ name: `rank ${group.rank}` });
 * ```
 */
export class ProcessGroup {
  /** The number of this rank in the group; -1 if this rank is not a member. */
  readonly rank: number;
  readonly worldSize: number;
  /** Global ranks of the members, by rank in the group. */
  readonly ranks: readonly number[];
  /** Place of this tab among the ranks of its browser, like torchrun's LOCAL_RANK on a machine. */
  readonly localRank: number;
  /** Number of ranks of the world that are tabs of this browser. */
  readonly localWorldSize: number;
  readonly generation: number;
  /**
   * Resolves with {@link failure} when the group fails, also while no op is in flight. It stays
   * pending if this rank destroys the group first.
   */
  readonly failed: Promise<Error>;
  readonly #mesh: Mesh;
  readonly #options: ProcessGroupOptions;
  readonly #executor: CollectiveExecutor;
  readonly #objects: ObjectCollectives;
  readonly #caller: CallerInGroup;
  readonly #abortable: AbortableGroup;
  /** The clock of deadlines. */
  readonly clock: Clock;
  #isDestroyed = false;
  /** Default of {@link OpOptions.timeoutMs}; a change applies to ops that are called afterwards. */
  timeoutMs: number;
  /** Default algorithm of all-reduces, the same on every rank; may be changed like `timeoutMs`. */
  algorithm: AlgorithmName;

  /** Creates the world group of a mesh; {@link newGroup} creates subgroups. */
  constructor(mesh: Mesh, options: ProcessGroupOptions = {}, ranks?: readonly number[]) {
    this.#mesh = mesh;
    this.#options = options;
    this.clock = options.clock ?? systemClock;
    // A copy, so that the caller cannot change the group.
    this.ranks = Object.freeze(ranks ? [...ranks] : Array.from({ length: mesh.worldSize }, (_, rank) => rank));
    this.worldSize = this.ranks.length;
    this.generation = mesh.generation;
    this.algorithm = options.algorithm ?? 'auto';
    this.localRank = options.localRank ?? 0;
    this.localWorldSize = options.localWorldSize ?? 1;
    this.timeoutMs = options.timeoutMs ?? DEFAULT_OP_TIMEOUT_MS;
    const failed = createDeferred<Error>();
    this.failed = failed.promise;
    this.#executor = new CollectiveExecutor({
      mesh,
      ranks: this.ranks,
      clock: this.clock,
      segmentElements: options.segmentElements ?? Infinity,
      activityOf: options.activityOf,
      onfailure: (error) => (this.#isDestroyed ? undefined : failed.resolve(error)),
    });
    this.rank = this.#executor.rank;
    this.#caller = { self: mesh.rank, rank: this.rank, ranks: this.ranks, served: NO_SERVED_PAIRS };
    this.#objects = new ObjectCollectives(this, this.#caller, () => this.#executor.reserve());
    this.#abortable = { rank: mesh.rank, clock: this.clock, fail: (error) => this.abort(error) };
  }

  /**
   * The ring's links that go through the signaling server; the same on every rank. The algorithm
   * `auto` depends on them. Subgroups do not know these links and return none.
   */
  get served(): ServedPairs {
    return this.#caller.served;
  }
  set served(pairs: ServedPairs) {
    this.#caller.served = pairs;
  }

  /** How the server forwards frames, as this rank knows it. */
  get serverLine(): ServerForwarding | null {
    return this.#mesh.serverLine;
  }

  /** Bytes of frames that this rank sent in the group, headers included. */
  get bytesSent(): number {
    return this.#executor.bytesSent;
  }

  /** For each algorithm: the part of {@link bytesSent} that ended collectives have sent. */
  get bytesSentBy(): ReadonlyMap<string, number> {
    return this.#executor.bytesSentBy;
  }

  /** Bytes of received frames. Unexpected frames are counted when their op is called. */
  get bytesReceived(): number {
    return this.#executor.bytesReceived;
  }

  /** The error that ended the group; `null` while the group is alive. */
  get failure(): Error | null {
    return this.#executor.failure;
  }

  /** The latest collectives and messages of this rank, in all groups. */
  get flightRecording(): FlightRecording {
    return this.#mesh.recorder.dump();
  }

  /**
   * Describes the link to a rank of the group, and returns the link's counters in both directions
   * since the generation began; `null` if there is no link. The browser may take a while to answer,
   * so do not await the result between two steps.
   */
  async describeLink(rank: number): Promise<(LinkDescription & LinkTrafficCounters) | null> {
    const link = this.#mesh.linkTo(this.ranks[rank]!);
    return link && { ...(await link.describe()), ...link.counters };
  }

  /**
   * Combines `tensor` over all ranks in place. Afterwards every rank holds the same bits.
   *
   * @throws UsageError if the op or the codec does not support the dtype, or the ranks cannot run
   * the algorithm.
   */
  allReduce<T extends TypedArray>(tensor: T, options: AllReduceOptions = {}): Work<T> {
    return this.#issue(prepareAllReduce(this.#caller, tensor, { algorithm: this.algorithm, ...options }), options);
  }

  /**
   * Combines `tensor` over all ranks into `dst`'s tensor. Afterwards, the tensors of other ranks
   * have undefined contents.
   */
  reduce<T extends TypedArray>(tensor: T, dst: number, options: ReduceOptions & RootedOptions = {}): Work<T> {
    return this.#issue(prepareReduce(this.#caller, tensor, dst, options), options);
  }

  /** Copies rank `src`'s `tensor` into every rank's `tensor` of the same length. */
  broadcast<T extends TypedArray>(tensor: T, src: number, options: OpOptions & RootedOptions = {}): Work<T> {
    return this.#issue(prepareBroadcast(this.#caller, tensor, src, options), options);
  }

  /** Gathers every rank's `tensor`; resolves with one array per rank, in rank order. */
  allGather<T extends TypedArray>(tensor: T, options: SizesOptions = {}): Work<T[]> {
    return this.#issue(prepareAllGather(this.#caller, tensor, options), options);
  }

  /**
   * Gathers every rank's `tensor` on `dst`. Resolves there with one array per rank, in rank order,
   * and with `null` elsewhere.
   */
  gather<T extends TypedArray>(tensor: T, dst: number, options: SizesOptions = {}): Work<T[] | null> {
    return this.#issue(prepareGather(this.#caller, tensor, dst, options), options);
  }

  /**
   * Copies `parts[r]` of rank `src` into rank r's `tensor`. Only `src` passes parts.
   *
   * @throws UsageError if `src` does not pass one part per rank, each with the tensor's length, or
   * if another rank passes parts.
   */
  scatter<T extends TypedArray>(tensor: T, src: number, parts: readonly T[] | null, options: OpOptions = {}): Work<T> {
    return this.#issue(prepareScatter(this.#caller, tensor, src, parts, options), options);
  }

  /**
   * Combines `tensor` over all ranks and resolves with this rank's part of the result. The tensor
   * is not changed.
   *
   * @param options.sizes number of elements of each rank's part. By default all parts are equal, so
   * the tensor's length must be a multiple of the world size.
   */
  reduceScatter<T extends TypedArray>(tensor: T, options: ReduceScatterOptions = {}): Work<T> {
    return this.#issue(prepareReduceScatter(this.#caller, tensor, options), options);
  }

  /**
   * Sends part j of `tensor` to rank j; resolves with the parts from all ranks, concatenated
   * (torch: all_to_all_single).
   */
  allToAll<T extends TypedArray>(tensor: T, options: AllToAllOptions = {}): Work<T> {
    return this.#issue(prepareAllToAll(this.#caller, tensor, options), options);
  }

  /** Resolves once every rank has called `barrier`. */
  barrier(options: WaitOptions = {}): Work<void> {
    return this.#issue(prepareBarrier(this.#caller), options);
  }

  /**
   * A barrier that names missing ranks. On a timeout, rank 0 rejects with an error such as "Rank 1
   * failed to pass monitoredBarrier in 2000 ms". The error names the first missing rank, or all
   * missing ranks with `waitAllRanks`. The other ranks reject, too.
   */
  async monitoredBarrier(options: Partial<MonitoredBarrierOptions> & WaitOptions = {}): Promise<void> {
    const { timeoutMs = this.timeoutMs, waitAllRanks = false, signal } = options;
    if (this.rank < 0) return;
    checkSignalNotAborted(signal, this.#mesh.rank, 'monitoredBarrier');
    const passed = this.#executor.barrier.pass({ timeoutMs, waitAllRanks });
    if (signal) failGroupOnAbort(this.#abortable, signal, 'monitoredBarrier', passed);
    await passed;
  }

  /** {@link allReduce} of several tensors together, one op per dtype; in place. */
  allReduceCoalesced<T extends readonly TypedArray[]>(tensors: T, options: AllReduceOptions = {}): Work<T> {
    return runCoalesced(tensors, options, this.clock, (flat, own) => {
      const op = prepareAllReduce(this.#caller, flat, { algorithm: this.algorithm, ...own });
      return () => this.#issue(op, own);
    });
  }

  /** {@link broadcast} of several tensors together, one op per dtype; in place. */
  broadcastCoalesced<T extends readonly TypedArray[]>(tensors: T, src: number, options: OpOptions = {}): Work<T> {
    groupRankOfRoot(this.#caller, src);
    return runCoalesced(tensors, options, this.clock, (flat, own) => () => this.broadcast(flat, src, own));
  }

  /** {@link allGather} of several tensors of one dtype; resolves with each rank's tensors. */
  async allGatherCoalesced<T extends TypedArray>(tensors: readonly T[], options: OpOptions = {}): Promise<T[][]> {
    if (tensors.length === 0) throw new UsageError('allGatherCoalesced requires a non-empty list of tensors.');
    const dtypes = new Set(tensors.map((tensor) => dtypeOf(tensor, options.dtype)));
    if (dtypes.size > 1) throw new UsageError('allGatherCoalesced needs tensors of one dtype. Call it once per dtype.');
    const displacements = checkedDisplacements(tensors.map(({ length }) => length));
    return (await this.allGather(concatenateParts(tensors, displacements), options)).map((all) =>
      splitAtDisplacements(all, displacements),
    );
  }

  /**
   * Resolves on every rank with the value of rank `src`. The value is data such as JSON, Map, Set,
   * Date, BigInt, typed arrays.
   */
  async broadcastObject<T>(value: T | undefined, src: number, options: WaitOptions = {}): Promise<T> {
    return this.#objects.broadcast(value, src, options);
  }

  /** Resolves on every rank with the values of all ranks, in rank order. */
  async allGatherObject<T>(value: T, options: WaitOptions = {}): Promise<T[]> {
    return this.#objects.allGather(value, options);
  }

  /** Resolves on `dst` with all ranks' values, in rank order, and elsewhere with `null`. */
  async gatherObject<T>(value: T, dst: number, options: WaitOptions = {}): Promise<T[] | null> {
    return this.#objects.gather(value, dst, options);
  }

  /** Resolves on rank r with `values[r]` of rank `src`; only that rank passes values. */
  async scatterObjects<T>(values: readonly T[] | null, src: number, options: WaitOptions = {}): Promise<T> {
    return this.#objects.scatter(values, src, options);
  }

  /**
   * Sends `tensor` to rank `dst`; resolves once that rank has posted the receive and all data is
   * sent.
   */
  async send(tensor: TypedArray, dst: number, options: MessageOptions = {}): Promise<void> {
    await this.isend(tensor, dst, options);
  }

  /**
   * Receives into `tensor` from rank `src`, or from any rank if `src` is `null`; resolves with the
   * sender's rank.
   */
  async recv(tensor: TypedArray, src: number | null = null, options: MessageOptions = {}): Promise<number> {
    return this.irecv(tensor, src, options);
  }

  /** {@link send} as a `Work`. */
  isend(tensor: TypedArray, dst: number, options: MessageOptions = {}): Work<void> {
    const to = groupRankOfPeer(this.#caller, dst, 'destination');
    const message = checkedMessageOptions(tensor, options, this.timeoutMs);
    if (this.rank < 0) return this.#nothing<void>(undefined);
    return issueAbortable(this.#abortable, options.signal, `send to rank ${dst}`, () =>
      this.#executor.messages.send(tensor, to, message),
    );
  }

  /** {@link recv} as a `Work`. */
  irecv(tensor: TypedArray, src: number | null = null, options: MessageOptions = {}): Work<number> {
    const from = src === null ? null : groupRankOfPeer(this.#caller, src, 'source');
    const message = checkedMessageOptions(tensor, options, this.timeoutMs);
    if (this.rank < 0) return this.#nothing(-1);
    const call = `recv from ${src === null ? 'any rank' : `rank ${src}`}`;
    return issueAbortable(this.#abortable, options.signal, call, () =>
      this.#executor.messages.receiveInto(tensor, from, message),
    );
  }

  /** Starts several sends and receives together, listed in any order; returns a `Work` for each. */
  batchIsendIrecv(ops: readonly P2POp[]): (Work<number> | Work<void>)[] {
    if (ops.length === 0) throw new UsageError('batchIsendIrecv requires a non-empty list of messages.');
    return ops.map(({ op, tensor, peer, ...options }) =>
      op === 'isend' ? this.isend(tensor, peer, options) : this.irecv(tensor, peer, options),
    );
  }

  /**
   * Creates a group of some ranks of the world, given as global ranks. Every rank of the world must
   * call `newGroup` with the same ranks in the same order, even if it will not be a member.
   * Resolves once all ranks have called it.
   *
   * @param options `timeoutMs` is the deadline of the creation and of the group's ops; by default
   * the deadline of this group. `algorithm` is the default algorithm of the group's all-reduces;
   * `auto` by default, because the world's algorithm may not fit the group's size.
   * @throws (rejects) UsageError if this group is not the world, if `ranks` is empty or contains an
   * unknown rank or the same rank twice, or if the generation already has 65 536 groups.
   * MismatchError if two ranks passed different members.
   */
  async newGroup(
    ranks: readonly number[],
    { timeoutMs = this.timeoutMs, algorithm = 'auto', signal }: GroupOptions = {},
  ): Promise<ProcessGroup> {
    if (this.worldSize !== this.#mesh.worldSize) {
      throw new UsageError('newGroup must be called on the world group, because all ranks of the world take part.');
    }
    checkGroupRanks(ranks, this.worldSize);
    checkSignalNotAborted(signal, this.#mesh.rank, 'newGroup');
    if (this.failure) throw this.failure;
    // The group is registered before any rank can send to it.
    const group = new ProcessGroup(this.#mesh, { ...this.#options, timeoutMs, algorithm }, ranks);
    try {
      await agreeOnMembers(this, group.ranks, this.#mesh.rank, { timeoutMs, signal });
      return group;
    } catch (error) {
      // The caller does not receive the group, so it is destroyed here.
      group.destroy();
      throw error;
    }
  }

  /**
   * Divides the world into groups of `size` consecutive ranks (torch: new_subgroups).
   *
   * @returns this rank's group, and all groups.
   * @throws (rejects) UsageError if `size` does not divide the world size.
   */
  newSubgroups(size: number): Promise<[mine: ProcessGroup, all: ProcessGroup[]]> {
    return createSubgroups(this, size, (ranks) => this.newGroup(ranks));
  }

  /** Fails the group on every rank: ops in flight reject everywhere with `error`'s message. */
  abort(error: Error): void {
    if (this.rank >= 0) this.#executor.fail(error);
  }

  /** Ends the group on this rank. The links stay open: their owner closes them. */
  destroy(): void {
    this.#isDestroyed = true;
    this.#executor.fail(
      new UsageError(`Rank ${this.#mesh.rank} has left this process group. Create a new group.`, {
        rank: this.#mesh.rank,
      }),
      { notify: false },
    );
  }

  #nothing<T>(value: T): Work<T> {
    const work = new Work<T>('a call of a rank that is not a member', this.clock);
    work.complete(value);
    return work;
  }

  #issue<T>(op: PreparedOp<T>, options: OpOptions): Work<T> {
    if (this.rank < 0) return this.#nothing(op.result());
    const { timeoutMs = this.timeoutMs, after } = options;
    return issueAbortable(this.#abortable, options.signal, collectiveOpName(op.descriptor.op), () =>
      this.#executor.issue({ ...op, timeoutMs, after }),
    );
  }
}
