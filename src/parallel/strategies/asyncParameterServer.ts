/**
 * `async-parameter-server`: each rank pushes its gradient to rank 0 as soon as it has one, and goes on with the parameters it
 * gets back; rank 0 applies each push by itself. No rank waits for a slower one, up to a bound: none is more than `staleness`
 * steps ahead of the slowest, and every `syncEvery` steps all wait for all. Bytes as for the synchronous server; n updates a
 * step instead of one, each from parameters some updates old.
 *
 * Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server" (NeurIPS 2013).
 */
import { asError } from '../../util/errors.ts';
import { deferred, type Deferred } from '../../util/deferred.ts';
import { Replica } from '../replica.ts';
import type { Pass, PassOptions } from '../pass.ts';
import type { StatefulUpdateRule, StepReport, Strategy, StrategyOptions } from './strategy.ts';

/** Tags of the two messages of a step. */
const PUSH = 1;
const PULL = 2;
/** In place of a push's sample count: the rank pushes no more until all have come here. */
const HALT = -1;

export interface AsyncOptions {
  /** Most steps that a rank may be ahead of the slowest. */
  staleness: number;
  /** Steps between two points where all ranks wait for all. */
  syncEvery: number;
}

export class AsyncParameterServer implements Strategy {
  readonly reportsAllRanks = false;
  readonly #replica: Replica;
  readonly #options: StrategyOptions & AsyncOptions;
  readonly #server: Server | null;
  #steps = 0;
  #isHalted = true;

  private constructor(replica: Replica, options: StrategyOptions & AsyncOptions) {
    this.#replica = replica;
    this.#options = options;
    this.#server = options.group.rank === 0 ? new Server(replica, options) : null;
  }

  static async create(options: StrategyOptions & AsyncOptions): Promise<AsyncParameterServer> {
    return new AsyncParameterServer(await Replica.create(options), options);
  }

  get size(): number {
    return this.#replica.size;
  }

  get gradientBytes(): number {
    return this.#replica.sums.byteLength;
  }

  get bucketBytes(): readonly number[] {
    return [this.gradientBytes];
  }

  get isSynchronized(): boolean {
    return this.#isHalted || this.#steps % this.#options.syncEvery === 0;
  }

  async step(pass: Pass, options: PassOptions): Promise<StepReport> {
    const { group, clock } = this.#options;
    const replica = this.#replica;
    this.#isHalted = false;
    this.#server?.open();
    const sentBefore = group.bytesSent;
    const { lossSum, samples, compute } = await replica.compute(pass, options);
    const computedAt = clock.now();
    if (this.#server) await this.#server.pushOwn();
    else await this.#exchange();
    const answeredAt = clock.now();
    this.#steps += 1;
    replica.write();
    const communicate = answeredAt - computedAt;
    return {
      ...{ loss: samples > 0 ? lossSum / samples : 0, samples },
      ...{
        bytesSent: group.bytesSent - sentBefore,
        traces: [],
        compute,
        readback: 0,
        communicate,
        exposed: communicate,
      },
      update: clock.now() - answeredAt,
    };
  }

  async warmUp(pass: Pass, options: PassOptions): Promise<void> {
    await this.#replica.compute(pass, options);
  }

  async synchronize(): Promise<void> {
    if (this.#isHalted) return;
    this.#isHalted = true;
    const replica = this.#replica;
    if (this.#server) await this.#server.halt();
    else {
      replica.sums[replica.size + 1] = HALT;
      await this.#exchange();
    }
    replica.write();
    await replica.shareBuffers();
  }

  state(): readonly ArrayBufferView[] {
    return [this.#replica.parameters];
  }

  dispose(): void {
    this.#replica.dispose();
  }

  /** Pushes {@link Replica.sums} and waits for the parameters. */
  async #exchange(): Promise<void> {
    const { group } = this.#options;
    const server = group.ranks[0]!;
    const answered = group.irecv(this.#replica.parameters, server, { tag: PULL });
    await group.send(this.#replica.sums, server, { tag: PUSH });
    await answered;
  }
}

/** Rank 0's part: applies pushes as they come, answers each when its rank may go on. */
class Server {
  readonly #replica: Replica;
  readonly #options: StrategyOptions & AsyncOptions;
  readonly #optimizer: StatefulUpdateRule;
  /** Pushes of each rank so far; infinite once it has halted. */
  readonly #clocks: number[];
  /** Ranks that wait to go on. */
  readonly #waiting = new Map<number, Deferred<void>>();
  #isOpen = false;

  constructor(replica: Replica, options: StrategyOptions & AsyncOptions) {
    this.#replica = replica;
    this.#options = options;
    this.#optimizer = options.createOptimizer(replica.size);
    this.#clocks = options.group.ranks.map(() => 0);
  }

  /** Begins to take pushes; idempotent until all have halted. */
  open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#clocks.fill(0);
    for (const rank of this.#clocks.keys()) if (rank > 0) void this.#serve(rank);
  }

  /** Rank 0's own gradient. Resolves when rank 0 may go on. */
  async pushOwn(): Promise<void> {
    await this.#push(0, this.#replica.sums);
  }

  /** Resolves when every rank has halted and been given the same parameters. */
  async halt(): Promise<void> {
    await this.#advance(0, Infinity);
    this.#isOpen = false;
  }

  async #serve(rank: number): Promise<void> {
    const { group } = this.#options;
    const sums = new Float32Array(this.#replica.sums.length);
    const peer = group.ranks[rank]!;
    try {
      while (this.#clocks[rank]! < Infinity) {
        await group.irecv(sums, peer, { tag: PUSH });
        if (sums.at(-1) === HALT) await this.#advance(rank, Infinity);
        else await this.#push(rank, sums);
        // A copy: other pushes change the parameters while these are on their way.
        await group.isend(this.#replica.parameters.slice(), peer, { tag: PULL });
      }
    } catch (error) {
      // Nobody awaits this loop: whoever waits for the server hears it from the group.
      group.abort(asError(error));
      for (const wait of this.#waiting.values()) wait.reject(group.failure);
    }
  }

  async #push(rank: number, sums: Float32Array): Promise<void> {
    const { samples } = Replica.average(sums);
    if (samples > 0) this.#optimizer.apply(this.#replica.parameters, sums.subarray(0, this.#replica.size));
    await this.#advance(rank, this.#clocks[rank]! + 1);
  }

  /** Sets a rank's clock, and lets go whoever may go on then; resolves when that rank may. */
  async #advance(rank: number, clock: number): Promise<void> {
    this.#clocks[rank] = clock;
    const wait = deferred();
    this.#waiting.set(rank, wait);
    const { staleness, syncEvery } = this.#options;
    const slowest = Math.min(...this.#clocks);
    for (const [other, { resolve }] of this.#waiting) {
      const theirs = this.#clocks[other]!;
      const isBarrier = theirs === Infinity || theirs % syncEvery === 0;
      if (isBarrier ? slowest < theirs : theirs - slowest > staleness) continue;
      this.#waiting.delete(other);
      resolve();
    }
    await wait.promise;
  }
}
