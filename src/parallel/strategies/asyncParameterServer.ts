/**
 * `async-parameter-server`: each rank pushes its gradient to rank 0 as soon as it is computed, and
 * continues with the parameters that it receives. Rank 0 applies each push separately. A rank waits
 * for slower ranks in two cases: when it is more than `staleness` steps ahead of the slowest rank,
 * and every `syncEvery` steps, when all ranks synchronize. With this strategy a rank sends as many
 * bytes per step as with `parameter-server`. There are n updates per step instead of one, and each
 * gradient is computed from parameters that are some updates old.
 *
 * Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server"
 * (NeurIPS 2013).
 */
import type { Optimizer } from '../../optim/optimizer.ts';
import { asError } from '../../util/errors.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import type { Pass } from '../backward/pass.ts';
import { ModelReplica, type LocalPassReport } from './replica.ts';
import type { ReplicaUpdateResult } from './replicaStrategy.ts';
import { ServerStrategy } from './serverStrategy.ts';
import type { OnStepApplied, StepOptions, StepReport, StrategyOptions } from './strategy.ts';

/** Message tags of the two messages of a step. */
const PUSH = 1;
const PULL = 2;
/** Sample count of a push without a gradient: the rank waits until all ranks synchronize. */
const HALT = -1;

interface AsyncOptions {
  /**
   * Largest number of steps by which a rank that begins a step may be ahead of the slowest rank.
   */
  staleness: number;
  /** Number of steps between two synchronizations of all ranks. */
  syncEvery: number;
}

export class AsyncParameterServer extends ServerStrategy<StrategyOptions & AsyncOptions> {
  readonly reportsAllRanks = false;
  /** The server on rank 0; `null` on other ranks. */
  #server: Server | null = null;
  /** Number of steps since the last synchronization. */
  #steps = 0;

  static async create(options: StrategyOptions & AsyncOptions): Promise<AsyncParameterServer> {
    return new AsyncParameterServer(await ModelReplica.create(options), options);
  }

  get isSynchronized(): boolean {
    return this.#steps === 0;
  }

  protected override begin(): void {
    const { group, replica, options } = this;
    this.#server = group.rank === 0 ? new Server(replica, { ...options, group }) : null;
  }

  override step(pass: Pass, options: StepOptions, onapplied: OnStepApplied): Promise<StepReport> {
    if (this.#server) this.#server.learningRate = options.learningRate;
    // Other ranks may push first: rank 0 serves them while it computes.
    if (this.isSynchronized) this.#server?.beginRound();
    return super.step(pass, options, onapplied);
  }

  protected async update({ loss, samples }: LocalPassReport): Promise<ReplicaUpdateResult> {
    const { clock, syncEvery } = this.options;
    const startedAt = clock.now();
    if (this.#server) await this.#server.pushOwn();
    else await this.#exchange();
    this.#steps = (this.#steps + 1) % syncEvery;
    if (this.isSynchronized) await this.replica.shareBuffers(samples > 0);
    return { loss, samples, communicate: clock.now() - startedAt };
  }

  async synchronize(): Promise<void> {
    if (this.isSynchronized) return;
    const { replica } = this;
    if (this.#server) await this.#server.halt();
    else {
      replica.sums[replica.size + 1] = HALT;
      await this.#exchange();
    }
    this.#steps = 0;
    replica.write();
    await replica.shareBuffers(true);
  }

  state(): readonly ArrayBufferView[] {
    return [this.replica.parameters];
  }

  /** Pushes {@link ModelReplica.sums} and waits for the parameters. */
  async #exchange(): Promise<void> {
    const { group } = this;
    const server = group.ranks[0]!;
    const answered = group.irecv(this.replica.parameters, server, { tag: PULL });
    await group.send(this.replica.sums, server, { tag: PUSH });
    await answered;
  }
}

/**
 * The server on rank 0: applies pushes as they arrive, and answers a push when the rank that sent
 * it may continue. A round lasts from one synchronization of all ranks to the next; between rounds
 * the server receives nothing.
 */
class Server {
  /** Learning rate of the next pushes; by default the optimizer's. */
  learningRate: number | undefined;
  readonly #replica: ModelReplica;
  readonly #options: StrategyOptions & AsyncOptions;
  readonly #optimizer: Optimizer;
  /**
   * Number of pushes of each rank in this round. It is {@link AsyncOptions.syncEvery} if the rank
   * waits for all ranks.
   */
  readonly #clocks: number[];
  /** Ranks that wait for an answer. */
  readonly #waiting = new Set<number>();
  /** Settles when rank 0 may continue. */
  #own: Deferred<void> | null = null;

  constructor(replica: ModelReplica, options: StrategyOptions & AsyncOptions) {
    this.#replica = replica;
    this.#options = options;
    this.#optimizer = options.createOptimizer(replica.size);
    this.#clocks = options.group.ranks.map(() => 0);
  }

  beginRound(): void {
    this.#clocks.fill(0);
    for (const rank of this.#clocks.keys()) if (rank > 0) void this.#serve(rank);
  }

  /** Applies rank 0's own gradient. Resolves when rank 0 may continue. */
  async pushOwn(): Promise<void> {
    this.#learn(this.#replica.sums);
    await this.#advanceOwn(this.#clocks[0]! + 1);
  }

  /** Ends the round early. Resolves when every rank has halted and received the same parameters. */
  async halt(): Promise<void> {
    await this.#advanceOwn(this.#options.syncEvery);
  }

  /** Serves one rank's pushes of a round. */
  async #serve(rank: number): Promise<void> {
    const { group, syncEvery } = this.#options;
    const sums = new Float32Array(this.#replica.sums.length);
    try {
      while (this.#clocks[rank]! < syncEvery) {
        await group.irecv(sums, group.ranks[rank], { tag: PUSH });
        const isHalt = sums.at(-1) === HALT;
        if (!isHalt) this.#learn(sums);
        this.#advance(rank, isHalt ? syncEvery : this.#clocks[rank]! + 1);
      }
    } catch (error) {
      // No caller awaits this loop; the error reaches waiting callers through the group.
      group.abort(asError(error));
      this.#own?.reject(group.failure);
    }
  }

  #learn(sums: Float32Array): void {
    this.#replica.learn(this.#optimizer, this.learningRate, sums);
  }

  async #advanceOwn(clock: number): Promise<void> {
    // While rank 0 computes, it does not await the group. So an error of the group is thrown here.
    const { failure } = this.#options.group;
    if (failure) throw failure;
    const own = createDeferred();
    this.#own = own;
    this.#advance(0, clock);
    await own.promise;
  }

  /** Sets a rank's element of `#clocks`, and answers all ranks that may continue. */
  #advance(rank: number, clock: number): void {
    const { group, staleness, syncEvery } = this.#options;
    this.#clocks[rank] = clock;
    this.#waiting.add(rank);
    const slowest = Math.min(...this.#clocks);
    const free = [...this.#waiting].filter((waiting) => {
      const theirs = this.#clocks[waiting]!;
      return theirs === syncEvery ? slowest === syncEvery : theirs - slowest <= staleness;
    });
    // This is a copy, because other pushes change the parameters while the answers are being sent.
    const parameters = this.#replica.parameters.slice();
    const answers = free
      .filter((other) => other > 0)
      .map((other) => group.isend(parameters, group.ranks[other]!, { tag: PULL }));
    for (const other of free) this.#waiting.delete(other);
    if (!free.includes(0)) return;
    const { resolve, reject } = this.#own!;
    // If all ranks synchronize, rank 0 waits until its answers are sent. Otherwise it continues.
    if (slowest === syncEvery) Promise.all(answers).then(() => resolve(), reject);
    else resolve();
  }
}
