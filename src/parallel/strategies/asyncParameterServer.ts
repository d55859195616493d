/**
 * `async-parameter-server`: each rank pushes its gradient to rank 0 as soon as it has one, and goes
 * on with the parameters it gets back; rank 0 applies each push by itself. No rank waits for a
 * slower one, up to a bound: none is more than `staleness` steps ahead of the slowest, and every
 * `syncEvery` steps all wait for all. Bytes as for the synchronous server; n updates a step instead
 * of one, each from parameters some updates old.
 *
 * Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server"
 * (NeurIPS 2013).
 */
import type { Optimizer } from '../../optim/optimizer.ts';
import { asError } from '../../util/errors.ts';
import { deferred, type Deferred } from '../../util/deferred.ts';
import type { Pass, PassOptions } from '../ddp/pass.ts';
import { Replica, type LocalGradient } from './replica.ts';
import { ReplicaStrategy, type Learned } from './replicaStrategy.ts';
import type { Applied, StepReport, StrategyOptions } from './strategy.ts';

/** Tags of the two messages of a step. */
const PUSH = 1;
const PULL = 2;
/** In place of a push's sample count: the rank has no gradient, and waits for all to come here. */
const HALT = -1;

interface AsyncOptions {
  /** Most steps that a rank may be ahead of the slowest. */
  staleness: number;
  /** Steps between two points where all ranks wait for all. */
  syncEvery: number;
}

export class AsyncParameterServer extends ReplicaStrategy<StrategyOptions & AsyncOptions> {
  readonly reportsAllRanks = false;
  /** Rank 0's. */
  #server: Server | null = null;
  /** Steps since all last waited for all. */
  #steps = 0;

  static async create(options: StrategyOptions & AsyncOptions): Promise<AsyncParameterServer> {
    return new AsyncParameterServer(await Replica.create(options), options);
  }

  get isSynchronized(): boolean {
    return this.#steps === 0;
  }

  protected override begin(): void {
    const { group, replica, options } = this;
    this.#server = group.rank === 0 ? new Server(replica, { ...options, group }) : null;
  }

  override step(pass: Pass, options: PassOptions, onapplied: Applied): Promise<StepReport> {
    // Others may be done first: rank 0 serves them while it computes.
    if (this.isSynchronized) this.#server?.beginRound();
    return super.step(pass, options, onapplied);
  }

  protected async learn({ loss, samples }: LocalGradient): Promise<Learned> {
    const { clock, syncEvery } = this.options;
    const startedAt = clock.now();
    if (this.#server) await this.#server.pushOwn();
    else await this.#exchange();
    this.#steps = (this.#steps + 1) % syncEvery;
    if (this.isSynchronized) await this.replica.shareBuffers();
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
    await replica.shareBuffers();
  }

  state(): readonly ArrayBufferView[] {
    return [this.replica.parameters];
  }

  /** Pushes {@link Replica.sums} and waits for the parameters. */
  async #exchange(): Promise<void> {
    const { group } = this;
    const server = group.ranks[0]!;
    const answered = group.irecv(this.replica.parameters, server, { tag: PULL });
    await group.send(this.replica.sums, server, { tag: PUSH });
    await answered;
  }
}

/**
 * Rank 0's part: applies pushes as they come, and answers each when its rank may go on. A round is
 * the time from one point where all wait for all to the next; between two rounds the server takes
 * nothing.
 */
class Server {
  readonly #replica: Replica;
  readonly #options: StrategyOptions & AsyncOptions;
  readonly #optimizer: Optimizer;
  /** Pushes of each rank in this round; {@link AsyncOptions.syncEvery} once it waits for all. */
  readonly #clocks: number[];
  /** Ranks that wait to go on. */
  readonly #waiting = new Set<number>();
  /** Settles when rank 0 may go on. */
  #own: Deferred<void> | null = null;

  constructor(replica: Replica, options: StrategyOptions & AsyncOptions) {
    this.#replica = replica;
    this.#options = options;
    this.#optimizer = options.createOptimizer(replica.size);
    this.#clocks = options.group.ranks.map(() => 0);
  }

  beginRound(): void {
    this.#clocks.fill(0);
    for (const rank of this.#clocks.keys()) if (rank > 0) void this.#serve(rank);
  }

  /** Rank 0's own gradient. Resolves when rank 0 may go on. */
  async pushOwn(): Promise<void> {
    this.#apply(this.#replica.sums);
    await this.#advanceOwn(this.#clocks[0]! + 1);
  }

  /**
   * Ends the round early. Resolves when every rank has halted and been sent the same parameters.
   */
  async halt(): Promise<void> {
    await this.#advanceOwn(this.#options.syncEvery);
  }

  /** One rank's pushes of a round. */
  async #serve(rank: number): Promise<void> {
    const { group, syncEvery } = this.#options;
    const sums = new Float32Array(this.#replica.sums.length);
    try {
      while (this.#clocks[rank]! < syncEvery) {
        await group.irecv(sums, group.ranks[rank], { tag: PUSH });
        const isHalt = sums.at(-1) === HALT;
        if (!isHalt) this.#apply(sums);
        this.#advance(rank, isHalt ? syncEvery : this.#clocks[rank]! + 1);
      }
    } catch (error) {
      // Nobody awaits this loop: whoever waits for the server hears it from the group.
      group.abort(asError(error));
      this.#own?.reject(group.failure);
    }
  }

  #apply(sums: Float32Array): void {
    const { samples } = Replica.average(sums);
    if (samples > 0) this.#optimizer.apply(this.#replica.parameters, sums.subarray(0, this.#replica.size));
  }

  async #advanceOwn(clock: number): Promise<void> {
    // What fails while rank 0 computes finds nobody waiting.
    const { failure } = this.#options.group;
    if (failure) throw failure;
    const own = deferred();
    this.#own = own;
    this.#advance(0, clock);
    await own.promise;
  }

  /** Sets a rank's clock, and answers whoever may go on then. */
  #advance(rank: number, clock: number): void {
    const { group, staleness, syncEvery } = this.#options;
    this.#clocks[rank] = clock;
    this.#waiting.add(rank);
    const slowest = Math.min(...this.#clocks);
    const free = [...this.#waiting].filter((waiting) => {
      const theirs = this.#clocks[waiting]!;
      return theirs === syncEvery ? slowest === syncEvery : theirs - slowest <= staleness;
    });
    // A copy: other pushes change the parameters while these are on their way.
    const parameters = this.#replica.parameters.slice();
    const answers = free
      .filter((other) => other > 0)
      .map((other) => group.isend(parameters, group.ranks[other]!, { tag: PULL }));
    for (const other of free) this.#waiting.delete(other);
    if (!free.includes(0)) return;
    const { resolve, reject } = this.#own!;
    // Rank 0 waits for nobody's line, but where all wait for all.
    if (slowest === syncEvery) Promise.all(answers).then(() => resolve(), reject);
    else resolve();
  }
}
