/**
 * `ddp`: DistributedDataParallel. Each step costs 2K(n-1)/n bytes per rank, and 2(n-1) hops (K and
 * n: see `strategy.ts`).
 *
 * The strategy is elastic. If a step fails because its group fails, only the gradients that the
 * rank keeps have changed. {@link Ddp.attach} makes all ranks' states equal in the next group. An
 * update needs the gradients of all ranks, so ranks of one group are at most one step apart.
 * Therefore it is enough that a rank keeps its last averaged gradient for ranks that are one step
 * behind.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Optimizer, OptimizerState } from '../../optim/optimizer.ts';
import type { JobCodec } from '../../spec/names.ts';
import { MismatchError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';
import { CommittedVariables } from '../ddp/committedVariables.ts';
import { DistributedDataParallel } from '../ddp/distributedDataParallel.ts';
import { variablesOf, type ModelVariables } from '../ddp/flatten.ts';
import type { Pass, PassOptions } from '../ddp/pass.ts';
import type { Progress } from '../recovery/progress.ts';
import { recover, type StateTransfer } from '../recovery/recover.ts';
import { gatherSlices } from '../recovery/gatherSlices.ts';
import { divergentRanks, rejectDivergentRanks, type PeerState } from '../recovery/stateElection.ts';
import { describeModel, differenceBetween, type ModelDescription } from '../ddp/verifyModel.ts';
import { optimizerLayouts } from '../optimizerLayout.ts';
import { GradientTransport, type TransportOptions } from './gradientTransport.ts';
import type { Applied, StepReport, Strategy, StrategyOptions } from './strategy.ts';

interface DdpOptions extends StrategyOptions, TransportOptions {}

/** State that is equal on all ranks after a step, without the run's {@link Progress}. */
export interface DdpState {
  /** Indices of the parameters (forward order) in the order of the flat arrays. */
  order: number[];
  parameters: Float32Array<ArrayBuffer>;
  optimizer: OptimizerState;
  /** The model's buffers, flat. */
  buffers: Float32Array<ArrayBuffer>;
}

/** The small part of a state. One rank sends it for all ranks that have the state. */
type StateHead = Pick<DdpState, 'order'> & Pick<OptimizerState, 'name' | 'scalars'> & { learningRate: number };

/** A rank's state when it entered a group. */
export interface AttachedRank<Note> extends PeerState {
  /** Whether the rank already had the state that all ranks have now. */
  isCurrent: boolean;
  note: Note;
}

/** The ability to continue in another group after ranks have joined or left. */
export type ElasticStrategy = Pick<
  Ddp,
  'codec' | 'isFresh' | 'heldSamples' | 'drop' | 'rollBack' | 'accumulate' | 'attach' | 'snapshot' | 'load' | 'restore'
>;

export class Ddp implements Strategy {
  readonly elastic = this;
  readonly reportsAllRanks = true;
  readonly isSynchronized = true;
  readonly #ddp: DistributedDataParallel;
  readonly #variables: ModelVariables;
  readonly #buffers: CommittedVariables;
  readonly #optimizer: Optimizer;
  readonly #options: DdpOptions;
  #isFresh = true;
  readonly #transport: GradientTransport;
  /** The averaged gradient of the last step, for a rank that has not applied it. */
  #lastGradient: Float32Array<ArrayBuffer> | null = null;
  #keepsGradient = false;

  private constructor(ddp: DistributedDataParallel, options: DdpOptions) {
    this.#ddp = ddp;
    this.#options = options;
    this.#variables = variablesOf(options.model);
    this.#buffers = new CommittedVariables(this.#variables.buffers);
    this.#optimizer = options.createOptimizer(ddp.layout.size);
    this.#transport = new GradientTransport(ddp, this.#variables.parameters, options);
  }

  static async create(options: DdpOptions): Promise<Ddp> {
    const { model, group, clock, checkGradients, errorFeedback } = options;
    const ddp = await DistributedDataParallel.create(model, group, {
      clock,
      checkGradients,
      keepGradients: true,
      errorFeedback,
    });
    return new Ddp(ddp, options);
  }

  get size(): number {
    return this.#ddp.layout.size;
  }

  /** Current codec of the gradients. */
  get codec(): JobCodec {
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
   * not fit into one micro-batch.
   */
  async accumulate(pass: Pass, options: PassOptions): Promise<void> {
    await this.#ddp.noSync(() => this.#ddp.backward(pass, options));
  }

  async step(pass: Pass, options: PassOptions, onapplied: Applied): Promise<StepReport> {
    const { clock } = this.#options;
    const choice = await this.#transport.choose();
    const reduction = await this.#ddp.backward(pass, options);
    const reducedAt = clock.now();
    this.#ddp.step(this.#optimizer);
    this.#lastGradient ??= new Float32Array(this.size);
    this.#lastGradient.set(this.#ddp.gradient);
    // If buffers have changed, the gradient alone is not enough for another rank.
    this.#keepsGradient = !this.#buffers.commit();
    onapplied(reduction);
    const report = { ...reduction, update: clock.now() - reducedAt, choice };
    this.#transport.record(report);
    return report;
  }

  async warmUp(pass: Pass, options: PassOptions): Promise<void> {
    await this.#ddp.backward(pass, options);
  }

  async synchronize(): Promise<void> {}

  state(): readonly ArrayBufferView[] {
    const { scalars, slots } = this.#optimizer.state();
    return [this.#ddp.parameters, scalars, ...slots];
  }

  /** Returns a copy of the state at the time of the call. */
  async snapshot(): Promise<DdpState> {
    const { name, scalars, slots } = this.#optimizer.state();
    return {
      order: this.#ddp.parameterOrder,
      parameters: this.#ddp.parameters.slice(),
      optimizer: { name, scalars: scalars.slice(), slots: slots.map((slot) => slot.slice()) },
      buffers: await this.#buffers.read(),
    };
  }

  /** Returns the state. Arrays on the CPU are not copied. */
  async #state(): Promise<DdpState> {
    const optimizer = this.#optimizer.state();
    return {
      order: this.#ddp.parameterOrder,
      parameters: this.#ddp.parameters,
      optimizer,
      buffers: await this.#buffers.read(),
    };
  }

  /**
   * Replaces this rank's state by a copy of another state. Kept gradients are dropped.
   *
   * @throws MismatchError if the other state belongs to another model or optimizer; nothing is
   *   changed then.
   */
  load({ order, parameters, optimizer, buffers }: DdpState): void {
    const { length } = this.#variables.parameters;
    const bufferSize = this.#variables.buffers.reduce((sum, { size }) => sum + size, 0);
    if (order.length !== length || parameters.length !== this.size || buffers.length !== bufferSize) {
      throw new MismatchError(
        `The state has ${parameters.length} parameters in ${order.length} variables and ${buffers.length} buffer elements, but this ` +
          `model has ${this.size}, ${length} and ${bufferSize}. Load a state of the same model.`,
      );
    }
    this.#optimizer.load(optimizer);
    this.#ddp.reorder(order);
    optimizerLayouts.set(this.#optimizer, this.#ddp.layout);
    this.#ddp.parameters.set(parameters);
    this.#ddp.writeParameters();
    this.#buffers.write(buffers);
    this.#keepsGradient = false;
    this.#isFresh = false;
  }

  /**
   * Continues in `group`, whose ranks may have applied different numbers of steps. All ranks
   * receive the state with the most steps (for ties see `electState`), as {@link recover}
   * describes. Every rank must call it. Even after an interruption, each rank has one whole state
   * and the progress that belongs to it.
   *
   * @param progress this rank's progress; it is overwritten with the progress of the elected state.
   * @param note data for the other ranks.
   * @returns the states of all ranks before the recovery.
   * @throws (rejects) if models differ: MismatchError on the ranks that differ from most ranks,
   *   PeergradError on the others, both with `context.divergent`; the same if states differ after
   *   the recovery; errors of collectives.
   */
  async attach<Note>(group: ProcessGroup, progress: Progress, note: Note): Promise<AttachedRank<Note>[]> {
    const { step, appliedIn, previousAppliedIn, verdicts } = progress;
    const mine = {
      isFresh: this.#isFresh,
      step,
      appliedIn,
      previousAppliedIn,
      verdicts,
      digest: await this.#digest(progress),
      keepsGradient: this.#keepsGradient,
      model: describeModel(this.#variables, {}),
      note,
    };
    const states = await group.allGatherObject(mine);
    this.#verifyModels(group, states);
    const attached = await recover(group, states, this.#transferIn(group, progress), progress);
    this.#isFresh = false;
    this.#ddp.regroup(group);
    this.#transport.restart();
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
    if (sources.length === group.worldSize) return this.load(kept!);
    const head = kept === null ? undefined : { order: kept.order, ...kept.optimizer, slots: [] };
    const theirs = await group.broadcastObject(head, group.ranks[sources[0]!]!);
    this.load(await gatherState(group, kept ?? (await this.#state()), theirs, sources));
  }

  dispose(): void {
    this.#ddp.dispose();
    this.#buffers.dispose();
  }

  /** Digest of all state that determines the following steps. */
  async #digest({ step, appliedIn, position, evaluateEvery, trainedMs }: Progress): Promise<string> {
    const order = Int32Array.from(this.#ddp.parameterOrder);
    const { epoch, offset, parts = 0 } = position;
    const cursor = Float64Array.of(step, appliedIn, epoch, offset, parts, evaluateEvery, trainedMs);
    return hashState([cursor, order, ...this.state(), await this.#buffers.read()]);
  }

  #verifyModels(group: ProcessGroup, states: readonly (PeerState & { model: ModelDescription })[]): void {
    const models = states.map(({ model }) => model);
    const votes = models.map((model) => JSON.stringify(model));
    const fresh = states.map(({ isFresh }) => isFresh);
    const divergent = divergentRanks(votes, fresh);
    if (divergent.length === 0) return;
    const right = votes.findIndex((_, rank) => !divergent.includes(rank));
    rejectDivergentRanks(
      group,
      divergent,
      MismatchError,
      differenceBetween(models, right, divergent[0]!, this.#variables)!,
    );
  }

  #transferIn(group: ProcessGroup, progress: Progress): StateTransfer<StateHead, Float32Array<ArrayBuffer>, DdpState> {
    const { rank, ranks } = group;
    return {
      digest: () => this.#digest(progress),
      head: () => {
        const { name, scalars } = this.#optimizer.state();
        return { order: this.#ddp.parameterOrder, name, scalars, learningRate: this.#optimizer.learningRate };
      },
      broadcastGradient: async (gradientSource) => {
        const gradient = rank === gradientSource ? this.#lastGradient! : new Float32Array(this.size);
        await group.broadcast(gradient, ranks[gradientSource]!);
        return gradient;
      },
      catchUp: (gradient, { learningRate }) => this.#catchUp(gradient, learningRate),
      distrust: () => (this.#isFresh = true),
      gather: async (head, sources) => gatherState(group, await this.#state(), head, sources),
      load: (state) => this.load(state),
    };
  }

  /** Applies the one missing step as the other ranks did. */
  #catchUp(gradient: Float32Array<ArrayBuffer>, learningRate: number): void {
    this.drop();
    // The averaged gradient of the other ranks already includes this rank's residual.
    this.#ddp.resetErrorFeedback();
    this.#optimizer.learningRate = learningRate;
    this.#optimizer.apply(this.#ddp.parameters, gradient);
    this.#ddp.writeParameters();
    this.#lastGradient = gradient;
    this.#keepsGradient = true;
  }
}

/**
 * Gathers the state that the ranks `sources` have. The head is already known; the arrays arrive in
 * slices from all sources.
 *
 * @param mine this rank's state, whose arrays have the same sizes.
 */
async function gatherState(
  group: ProcessGroup,
  mine: DdpState,
  { order, name, scalars }: Pick<DdpState, 'order'> & Pick<OptimizerState, 'name' | 'scalars'>,
  sources: readonly number[],
): Promise<DdpState> {
  const parameters = await gatherSlices(group, mine.parameters, sources);
  const slots = [];
  for (const slot of mine.optimizer.slots) slots.push(await gatherSlices(group, slot, sources));
  const buffers = await gatherSlices(group, mine.buffers, sources);
  return { order, parameters, optimizer: { name, scalars, slots }, buffers };
}
