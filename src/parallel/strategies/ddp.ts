/**
 * `ddp`: DistributedDataParallel. Each step costs 2K(n-1)/n bytes per rank, and 2(n-1) hops (K and
 * n: see `strategy.ts`).
 *
 * The strategy is elastic. If a step fails because its group fails, only the gradients that the
 * rank keeps have changed. {@link DdpStrategy.attach} makes all ranks' states equal in the next
 * group. An update needs the gradients of all ranks, so ranks of one group are at most one step
 * apart. Therefore it is enough that a rank keeps its last averaged gradient for ranks that are one
 * step behind.
 *
 * With `shardOptimizer`, a rank has only the averaged gradient of its own shard, so a rank that is
 * one step behind receives the parameters instead; see `zero/shardedOptimizer.ts`.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { JobCodecName } from '../../spec/codecs.ts';
import { MismatchError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';
import { CommittedVariables } from '../backward/committedVariables.ts';
import { DistributedDataParallel } from '../ddp/distributedDataParallel.ts';
import { variablesOf, type ModelVariables } from '../backward/flatten.ts';
import type { Pass, PassOptions } from '../backward/pass.ts';
import type { TrainingProgress } from '../recovery/progress.ts';
import {
  gatherSlices,
  type GatherSlicesOptions,
  type ReceivedStateSlices,
  type StateParts,
} from '../recovery/gatherSlices.ts';
import { exchangeStates, recoverElectedState, type StateTransfer } from '../recovery/recover.ts';
import type { PeerState } from '../recovery/stateElection.ts';
import { ShardedOptimizer } from '../zero/shardedOptimizer.ts';
import { ddpStateFromParts, ddpStateToParts, type DdpState, type DdpStateHead } from '../recovery/ddpState.ts';
import type { EnteredRankState, ElasticStrategy } from './elasticStrategy.ts';
import { GradientTransport, type GradientTransportOptions } from './gradientTransport.ts';
import type { ReplicaOptimizer, MissedStepRepeater } from '../zero/replicaOptimizer.ts';
import type { OnStepApplied, StepOptions, StepReport, Strategy, StrategyOptions } from './strategy.ts';
import { WholeOptimizer } from './wholeOptimizer.ts';

interface DdpOptions extends StrategyOptions, GradientTransportOptions {
  /** Whether each rank has only the averages of its own shard. */
  shardOptimizer: boolean;
}

/** The learning rate is that of the last step. */
type LastStepHead = DdpStateHead & { learningRate: number };

export class DdpStrategy implements Strategy, ElasticStrategy {
  readonly elastic = this;
  readonly accumulator = this;
  readonly reportsAllRanks = true;
  readonly isSynchronized = true;
  readonly #ddp: DistributedDataParallel;
  readonly #variables: ModelVariables;
  readonly #buffers: CommittedVariables;
  readonly #optimizer: ReplicaOptimizer;
  readonly #options: DdpOptions;
  readonly #received: ReceivedStateSlices = [];
  readonly #receivedGradient: ReceivedStateSlices = [];
  #isFresh = true;
  readonly #transport: GradientTransport;
  /** See `PeerState`. */
  #keepsGradient = false;

  private constructor(ddp: DistributedDataParallel, options: DdpOptions) {
    this.#ddp = ddp;
    this.#options = options;
    this.#variables = variablesOf(options.model);
    this.#buffers = new CommittedVariables(this.#variables.buffers);
    this.#optimizer = options.shardOptimizer
      ? new ShardedOptimizer(ddp, options)
      : new WholeOptimizer(ddp, options.createOptimizer(ddp.layout.size), options.clipNorm);
    this.#transport = new GradientTransport(ddp, this.#variables.parameters, options);
  }

  static async create(options: DdpOptions): Promise<DdpStrategy> {
    const { model, group, clock, checkGradients, errorFeedback } = options;
    const ddp = await DistributedDataParallel.create(model, group, {
      clock,
      checkGradients,
      keepGradients: true,
      errorFeedback,
    });
    return new DdpStrategy(ddp, options);
  }

  get size(): number {
    return this.#ddp.layout.size;
  }

  get codec(): JobCodecName {
    return this.#transport.codec;
  }

  get gradientBytes(): number {
    return this.#transport.gradientBytes;
  }

  get bucketBytes(): readonly number[] {
    return this.#transport.bucketBytes;
  }

  /** See `PeerState`. */
  get isFresh(): boolean {
    return this.#isFresh;
  }

  /**
   * Number of samples whose gradients this rank keeps for the next step: those of
   * {@link accumulate} and of a failed step.
   */
  get heldSamples(): number {
    return this.#ddp.pendingSamples;
  }

  /** Drops the gradients of {@link heldSamples}. */
  drop(): void {
    this.#ddp.dropGradients();
  }

  /** Each applied step is committed. */
  committed(progress: TrainingProgress): TrainingProgress {
    return progress;
  }

  /**
   * Restores the model's buffers after a step that was not applied. If the buffers had changed,
   * kept gradients are dropped: only a new forward pass over their samples changes the buffers
   * again.
   */
  rollBack(): void {
    if (this.#buffers.rollBack()) this.drop();
  }

  /**
   * Adds the gradients of a micro-batch to the next {@link step}. Use it if this rank's samples do
   * not fit in one micro-batch.
   */
  async accumulate(pass: Pass, options: PassOptions): Promise<void> {
    await this.#ddp.noSync(() => this.#ddp.backward(pass, options));
  }

  async step(pass: Pass, options: StepOptions, onapplied: OnStepApplied): Promise<StepReport> {
    const { clock } = this.#options;
    const choice = await this.#transport.choose();
    const reduction = await this.#ddp.backward(pass, options);
    const reducedAt = clock.now();
    const gather = await this.#optimizer.update(options.learningRate, () => {
      // If buffers have changed, the gradient alone is not enough for another rank.
      this.#keepsGradient = !this.#buffers.commit() && this.#optimizer.repeater !== null;
      onapplied(reduction);
    });
    const report = {
      ...reduction,
      communicate: reduction.communicate + gather,
      exposed: reduction.exposed + gather,
      update: clock.now() - reducedAt - gather,
      choice,
    };
    this.#transport.record(report);
    return report;
  }

  async warmUp(pass: Pass, options: PassOptions): Promise<void> {
    await this.#ddp.backward(pass, options);
  }

  async synchronize(): Promise<void> {}

  state(): readonly ArrayBufferView[] {
    const { scalars, slots } = this.#optimizer.equalState;
    return [this.#ddp.parameters, scalars, ...slots];
  }

  get repeater(): MissedStepRepeater | null {
    const { repeater, learningRate } = this.#optimizer;
    return (
      repeater && {
        lastGradient: this.#keepsGradient ? repeater.lastGradient : null,
        learningRate,
        repeat: (gradient, rate) => this.#catchUp(gradient, rate),
      }
    );
  }

  /** Whether {@link snapshot} has the averages of all parameters. */
  get isWhole(): boolean {
    return this.#optimizer.isWhole;
  }

  /**
   * Gives {@link snapshot} the averages of all parameters on the ranks that want them, until
   * {@link release} or the next step. Every rank must call it.
   */
  gatherWhole(isWanted: boolean): Promise<void> {
    return this.#optimizer.gatherWhole(isWanted);
  }

  release(): void {
    this.#optimizer.release();
  }

  /** Returns a copy of the state at the time of the call. */
  async snapshot(): Promise<DdpState> {
    return {
      order: this.#ddp.parameterOrder,
      parameters: this.#ddp.parameters.slice(),
      ...this.#optimizer.snapshot(),
      buffers: await this.#buffers.read(),
    };
  }

  /** Returns the state that is equal on all ranks. Arrays on the CPU are not copied. */
  async #state(): Promise<DdpState> {
    return {
      order: this.#ddp.parameterOrder,
      parameters: this.#ddp.parameters,
      optimizer: this.#optimizer.equalState,
      buffers: await this.#buffers.read(),
    };
  }

  /**
   * Replaces this rank's state by a copy of another state. Kept gradients are dropped.
   *
   * @throws MismatchError if the other state belongs to a different model or optimizer; nothing is
   *   changed then.
   */
  load(state: DdpState): void {
    this.#check(state);
    this.#optimizer.check(state);
    this.#setModel(state);
    this.#optimizer.load(state);
  }

  /**
   * Loads the part of the elected state that all ranks have. See {@link ReplicaOptimizer.adopt}.
   */
  #adopt(elected: DdpState, behind: number, appliedIn: number): void {
    this.#check(elected);
    this.#setModel(elected);
    this.#optimizer.adopt(elected.optimizer, behind, appliedIn);
  }

  #check({ order, parameters, buffers }: DdpState): void {
    const { length } = this.#variables.parameters;
    const bufferSize = this.#variables.buffers.reduce((sum, { size }) => sum + size, 0);
    if (order.length === length && parameters.length === this.size && buffers.length === bufferSize) return;
    throw new MismatchError(
      `The state has ${parameters.length} parameters in ${order.length} variables and ${buffers.length} buffer elements, but this ` +
        `model has ${this.size}, ${length} and ${bufferSize}. Load a state of the same model.`,
    );
  }

  #setModel({ order, parameters, buffers }: DdpState): void {
    this.#ddp.reorder(order);
    this.#ddp.parameters.set(parameters);
    this.#ddp.writeParameters();
    this.#buffers.write(buffers);
    this.#keepsGradient = false;
    this.#isFresh = false;
  }

  /**
   * Continues in `group`, whose ranks may have applied different numbers of steps. All ranks
   * receive the state with the most steps (for ties see `electState`), as {@link
   * recoverElectedState} describes. Every rank must call it. Even after an interruption, each rank
   * has one whole state and the progress that belongs to it.
   *
   * @param progress this rank's progress; it is overwritten with the progress of the elected state.
   * @param note data for the other ranks.
   * @returns the states of all ranks before the recovery.
   * @throws (rejects) if models differ: MismatchError on the ranks that differ from most ranks,
   *   PeergradError on the others, both with `context.divergent`; the same if states differ after
   *   the recovery; errors of collectives.
   */
  async attach<Note>(group: ProcessGroup, progress: TrainingProgress, note: Note): Promise<EnteredRankState<Note>[]> {
    const states = await exchangeStates(group, this.#variables, progress, {
      isFresh: this.#isFresh,
      digest: await this.#digest(progress),
      keepsGradient: this.#keepsGradient,
      note,
    });
    const attached = await recoverElectedState(group, states, this.#transferIn(group, states, progress), progress);
    this.#received.length = 0;
    this.#receivedGradient.length = 0;
    this.#isFresh = false;
    this.#ddp.regroup(group);
    this.#transport.restart();
    await this.#optimizer.attach(progress.step);
    return attached;
  }

  /**
   * Loads a saved state on all ranks of the group; does nothing if no rank has one. Every rank must
   * call it. An interruption may leave ranks with different states after the same step; {@link
   * attach} then elects one.
   *
   * @param kept the saved state, equal on each rank that has it; `null` on the other ranks.
   */
  async restore(kept: DdpState | null): Promise<void> {
    const { group } = this.#ddp;
    const all = await group.allGatherObject(kept !== null);
    const sources = all.flatMap((has, rank) => (has ? [rank] : []));
    if (sources.length === 0) return;
    if (kept) this.load(kept);
    if (sources.length < group.worldSize) {
      const { head, arrays } = ddpStateToParts(await this.#state());
      const theirs = await group.broadcastObject(kept === null ? undefined : head, group.ranks[sources[0]!]!);
      const gathered = await gatherSlices(group, arrays, sources, this.#gathering);
      if (kept === null) this.load(ddpStateFromParts({ head: theirs, arrays: gathered }));
      this.#received.length = 0;
    }
    await this.#optimizer.attach(0);
  }

  dispose(): void {
    this.#ddp.dispose();
    this.#buffers.dispose();
  }

  /** Digest of all state that determines the following steps. */
  async #digest({ step, appliedIn, position, evaluateEvery, trainedMs }: TrainingProgress): Promise<string> {
    const order = Int32Array.from(this.#ddp.parameterOrder);
    const { epoch, offset, parts = 0 } = position;
    const cursor = Float64Array.of(step, appliedIn, epoch, offset, parts, evaluateEvery, trainedMs);
    return hashOfArrays([cursor, order, ...this.state(), await this.#buffers.read()]);
  }

  get #gathering(): GatherSlicesOptions {
    return { received: this.#received, onreceived: this.#options.onreceived };
  }

  #transferIn(
    group: ProcessGroup,
    states: readonly PeerState[],
    progress: TrainingProgress,
  ): StateTransfer<LastStepHead, Float32Array<ArrayBuffer>, StateParts<DdpStateHead>> {
    return {
      digest: () => this.#digest(progress),
      head: () => {
        const { name, scalars } = this.#optimizer.equalState;
        return { order: this.#ddp.parameterOrder, name, scalars, learningRate: this.#optimizer.learningRate };
      },
      repeat: {
        broadcastGradient: async (gradientSource) => {
          const { digest } = states[gradientSource]!;
          const has = ({ keepsGradient, ...state }: PeerState): boolean => keepsGradient && state.digest === digest;
          const own = has(states[group.rank]!) ? this.#optimizer.repeater!.lastGradient! : new Float32Array(this.size);
          const sources = states.flatMap((state, rank) => (has(state) ? [rank] : []));
          const [gradient] = await gatherSlices(group, [own], sources, { received: this.#receivedGradient });
          return gradient!;
        },
        catchUp: (gradient, { learningRate }) => this.#catchUp(gradient, learningRate),
        distrust: () => (this.#isFresh = true),
      },
      gather: async (head, sources) => {
        const { arrays } = ddpStateToParts(await this.#state());
        return { head, arrays: await gatherSlices(group, arrays, sources, this.#gathering) };
      },
      load: (state, { step, appliedIn }) => this.#adopt(ddpStateFromParts(state), step - progress.step, appliedIn),
    };
  }

  /** Applies the one missing step as the other ranks did. */
  #catchUp(gradient: Float32Array<ArrayBuffer>, learningRate: number): void {
    this.drop();
    // The averaged gradient of the other ranks already includes this rank's residual.
    this.#ddp.resetErrorFeedback();
    this.#optimizer.repeater!.repeat(gradient, learningRate);
    this.#keepsGradient = true;
  }
}
