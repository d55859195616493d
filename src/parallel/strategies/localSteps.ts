/**
 * Strategies whose ranks train alone for some steps and then exchange what they have learned. All
 * ranks have the same shared parameters. An exchange averages the outer gradients of all ranks
 * (`outerMean.ts`), and an outer optimizer applies the mean to the shared parameters, from which
 * every rank continues. Ranks are weighted by their samples since the last exchange, because a rank
 * without samples has learned nothing (McMahan et al., "Communication-Efficient Learning of Deep
 * Networks from Decentralized Data", AISTATS 2017).
 *
 * - `local-sgd`: the outer optimizer applies the whole mean, so that parameters are averaged.
 *   Stich, "Local SGD Converges Fast and Communicates Little" (ICLR 2019).
 * - `diloco`: Nesterov momentum. Douillard et al., "DiLoCo: Distributed Low-Communication Training
 *   of Language Models" (2023), algorithm 1.
 * - `streaming-diloco`: fragments of the parameters are exchanged in turn, while training
 *   continues. Douillard et al., "Streaming DiLoCo with overlapping communication" (2025,
 *   https://arxiv.org/abs/2501.18512), algorithm 2.
 * - `sparseloco`: the largest entries of the outer gradients; see `./sparseMean.ts`.
 *
 * These strategies are elastic. An exchange commits the steps before it. If ranks join or leave,
 * all ranks return to the latest exchange, and repeat the steps after it. The inner optimizer's
 * averages are a rank's own. They are not rolled back, and a rank that joins begins with zero.
 */
import type { CollectiveCodecName } from '../../spec/codecs.ts';
import type { FragmentExchangeFacts } from '../../spec/strategies.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { checkSameOptimizer, type Optimizer } from '../../optim/optimizer.ts';
import { MismatchError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';
import { CommittedVariables } from '../backward/committedVariables.ts';
import { gatherSlices, type ReceivedStateSlices, type StateParts } from '../recovery/gatherSlices.ts';
import { initialTrainingProgress, type TrainingProgress } from '../recovery/progress.ts';
import { exchangeStates, recoverElectedState, type StateTransfer } from '../recovery/recover.ts';
import { ddpStateFromParts, ddpStateToParts, type DdpState, type DdpStateHead } from '../recovery/ddpState.ts';
import type { EnteredRankState, ElasticStrategy } from './elasticStrategy.ts';
import { UNFRAGMENTED_STREAMING, createParameterFragments, type ParameterFragment } from './fragments.ts';
import type { OuterStepMean } from './outerMean.ts';
import { ModelReplica, type LocalPassReport } from './replica.ts';
import { ReplicaStrategy, type ReplicaUpdateResult } from './replicaStrategy.ts';
import type { Strategy, StrategyOptions } from './strategy.ts';

export interface LocalStepsOptions extends StrategyOptions {
  /** Number of steps between two exchanges of the same parameter. */
  syncEvery: number;
  codec: CollectiveCodecName;
  createOuterOptimizer: (size: number) => Optimizer;
  createMean: (size: number) => OuterStepMean;
  streaming?: FragmentExchangeFacts;
}

/** An exchange that has begun. */
interface Exchange {
  fragment: ParameterFragment;
  /** This rank's samples since the last exchange of the fragment. */
  samples: number;
  /**
   * Resolves with the sums over all ranks: the samples since the last exchange, and for each step
   * whose loss is not known yet, the loss of its samples and their number.
   */
  sums: Promise<Float64Array>;
}

/** The state to which a rank returns if its group ends. */
interface Committed {
  progress: TrainingProgress;
  /** This rank's own parameters. */
  parameters: Float32Array;
  /** {@link ParameterFragment.samples} of each fragment. */
  samples: number[];
}

export class LocalSteps extends ReplicaStrategy<LocalStepsOptions> implements Strategy, ElasticStrategy {
  readonly elastic = this;
  readonly reportsAllRanks = false;
  readonly isWhole = true;
  readonly repeater = null;
  /** Gradients are applied immediately, so none is kept. */
  readonly heldSamples = 0;
  readonly #optimizer: Optimizer;
  readonly #outer: Optimizer;
  readonly #mean: OuterStepMean;
  readonly #streaming: FragmentExchangeFacts;
  readonly #fragments: readonly ParameterFragment[];
  /** Parameters after the latest exchange of each fragment; equal on all ranks. */
  readonly #shared: Float32Array<ArrayBuffer>;
  readonly #outerGradient: Float32Array;
  readonly #buffers: CommittedVariables;
  readonly #received: ReceivedStateSlices = [];
  #group: ProcessGroup;
  #progress = initialTrainingProgress();
  /** Number of steps, and number of steps since the latest commit. */
  #step = 0;
  #uncommitted = 0;
  /** Losses and numbers of this rank's samples in the steps whose losses are not known yet. */
  #losses: { sum: number; samples: number }[] = [];
  #exchange: Exchange | null = null;
  #committed: Committed | null = null;
  #isFresh = true;

  private constructor(replica: ModelReplica, options: LocalStepsOptions) {
    super(replica, options);
    const {
      createOptimizer,
      createOuterOptimizer,
      createMean,
      syncEvery,
      streaming = UNFRAGMENTED_STREAMING,
      group,
    } = options;
    const { size } = replica;
    this.#optimizer = createOptimizer(size);
    this.#outer = createOuterOptimizer(size);
    this.#mean = createMean(size);
    this.#streaming = streaming;
    this.#fragments = createParameterFragments(size, syncEvery, streaming);
    this.#shared = replica.parameters.slice();
    this.#outerGradient = new Float32Array(size);
    this.#buffers = new CommittedVariables(replica.variables.buffers);
    this.#group = group;
  }

  static async create(options: LocalStepsOptions): Promise<LocalSteps> {
    return new LocalSteps(await ModelReplica.create(options), options);
  }

  get codec(): CollectiveCodecName {
    return this.options.codec;
  }

  get isFresh(): boolean {
    return this.#isFresh;
  }

  /**
   * Whether the latest step ended with an exchange. With fragments or a sparse mean, only the
   * {@link state} is then equal on all ranks, because each rank has learned more than it has sent.
   */
  get isSynchronized(): boolean {
    return this.#uncommitted === 0;
  }

  state(): readonly ArrayBufferView[] {
    const { scalars, slots } = this.#outer.state();
    return [this.#shared, scalars, ...slots];
  }

  protected override stepped(): void {
    if (this.isSynchronized) this.#commit();
  }

  /**
   * Exchanges what ranks have learned since the latest exchanges, so that all have the same
   * parameters. If this fails, the state of this rank is unchanged.
   */
  async synchronize(): Promise<void> {
    const shared = this.#shared.slice();
    const outer = structuredClone(this.#outer.state());
    const losses = [...this.#losses];
    try {
      await this.#exchangeAll();
    } catch (error) {
      this.#shared.set(shared);
      this.#outer.load(outer);
      this.#losses = losses;
      // Some residuals belong to exchanges that are undone, so all residuals are dropped.
      this.#mean.reset();
      throw error;
    }
    this.#commit();
  }

  async #exchangeAll(): Promise<void> {
    const begun = this.#exchange?.fragment;
    if (begun) await this.#apply(begun);
    for (const fragment of this.#fragments) {
      const isExchanged = this.#step % this.options.syncEvery === fragment.remainder && this.#streaming.mixing === 0;
      if (!isExchanged) await this.#apply(fragment);
    }
    this.replica.parameters.set(this.#shared);
    this.replica.write();
  }

  protected async update({ loss, samples }: LocalPassReport, learningRate?: number): Promise<ReplicaUpdateResult> {
    const { clock, syncEvery } = this.options;
    const { replica } = this;
    const { delay } = this.#streaming;
    replica.learn(this.#optimizer, learningRate);
    this.#step += 1;
    this.#uncommitted += 1;
    this.#losses.push({ sum: loss * samples, samples });
    for (const fragment of this.#fragments) fragment.samples += samples;
    const updatedAt = clock.now();
    const exchangedAfter = (steps: number) =>
      this.#fragments.find(({ remainder }) => (this.#step + steps) % syncEvery === remainder);
    const next = exchangedAfter(delay);
    if (next) this.#begin(next);
    const due = exchangedAfter(0);
    if (due) await this.#apply(due);
    return { loss, samples, communicate: clock.now() - updatedAt };
  }

  /** Begins to average what ranks have learned in a fragment. */
  #begin(fragment: ParameterFragment): Exchange {
    const { parameters } = this.replica;
    const { start, end, samples } = fragment;
    const values = this.#outerGradient.subarray(start, end);
    for (let i = start; i < end; i++) this.#outerGradient[i] = this.#shared[i]! - parameters[i]!;
    fragment.samples = 0;
    const sums = this.#average(values, start, samples);
    // An error is reported when the exchange is awaited. Until then it must not count as unhandled.
    sums.catch(() => {});
    this.#exchange = { fragment, samples, sums };
    return this.#exchange;
  }

  async #average(values: Float32Array, start: number, samples: number): Promise<Float64Array> {
    const losses = this.#losses.flatMap((loss) => [loss.sum, loss.samples]);
    const sums = await this.#group.allReduce(Float64Array.from([samples, ...losses]));
    const total = sums[0]!;
    if (total > 0) await this.#mean.average(this.#group, values, start, samples / total);
    return sums;
  }

  /** Ends the exchange of a fragment. */
  async #apply(fragment: ParameterFragment): Promise<void> {
    const exchange = this.#exchange ?? this.#begin(fragment);
    const [samples, ...losses] = await exchange.sums;
    await this.replica.shareBuffers(exchange.samples > 0);
    // From here to the commit nothing is awaited, so that after an interruption a rank has applied
    // the whole exchange or nothing of it.
    this.#exchange = null;
    if (samples! > 0) {
      this.#outer.apply(this.#shared, this.#outerGradient, [fragment]);
      this.#mean.commit(fragment);
      this.#continueFrom(fragment);
    }
    for (let i = 0; i < losses.length; i += 2) {
      // After a run was resumed, no rank knows the losses that had not been sent. The previous loss
      // replaces them.
      const before = this.#progress.losses.at(-1) ?? 0;
      this.#progress.losses.push(losses[i + 1]! > 0 ? losses[i]! / losses[i + 1]! : before);
    }
    this.#losses.splice(0, losses.length / 2);
    this.#uncommitted = 0;
  }

  /** Sets this rank's own parameters after an exchange. */
  #continueFrom({ start, end }: ParameterFragment): void {
    const { parameters } = this.replica;
    const { mixing } = this.#streaming;
    const { unsent } = this.#mean;
    for (let i = start; i < end; i++) {
      const shared = this.#shared[i]!;
      const own = mixing === 0 ? 0 : mixing * (parameters[i]! - shared);
      parameters[i] = shared + own - (unsent?.[i] ?? 0);
    }
  }

  #commit(): void {
    // After an exchange of all parameters together, a rank's own parameters are the shared
    // parameters.
    const isOwn = this.#streaming !== UNFRAGMENTED_STREAMING || this.#mean.unsent !== null;
    this.#buffers.commit();
    this.#committed = {
      progress: structuredClone(this.#progress),
      parameters: isOwn ? this.replica.parameters.slice() : this.#shared,
      samples: this.#fragments.map(({ samples }) => samples),
    };
  }

  drop(): void {}

  committed(progress: TrainingProgress): TrainingProgress {
    return this.#committed?.progress ?? progress;
  }

  /** Returns to the latest exchange. The samples of the steps after it are trained again. */
  rollBack(): void {
    this.#exchange = null;
    this.#buffers.rollBack();
    if (this.#committed === null) return;
    const { progress, parameters, samples } = this.#committed;
    Object.assign(this.#progress, structuredClone(progress));
    this.#setOwn(parameters, samples);
  }

  /** Sets this rank's own state after {@link #progress} was set. */
  #setOwn(parameters: Float32Array, samples: readonly number[]): void {
    this.#step = this.#progress.step;
    this.#uncommitted = 0;
    this.#losses.splice(this.#step - this.#progress.losses.length);
    for (const [i, fragment] of this.#fragments.entries()) fragment.samples = samples[i]!;
    this.replica.parameters.set(parameters);
    this.replica.write();
  }

  /**
   * Continues in `group`, whose ranks may have committed different numbers of exchanges. All ranks
   * receive the state with the most steps, as {@link recoverElectedState} describes. Every rank
   * must call it.
   *
   * @throws (rejects) as `Ddp.attach`.
   */
  async attach<Note>(group: ProcessGroup, progress: TrainingProgress, note: Note): Promise<EnteredRankState<Note>[]> {
    this.#progress = progress;
    const states = await exchangeStates(group, this.replica.variables, progress, {
      isFresh: this.#isFresh,
      digest: await this.#digest(),
      keepsGradient: false,
      note,
    });
    const attached = await recoverElectedState(group, states, this.#transferIn(group), progress);
    this.#received.length = 0;
    this.#isFresh = false;
    this.#group = group;
    this.replica.regroup(group);
    this.#step = progress.step;
    // Ranks that have joined know nothing about steps whose losses are still unknown.
    while (this.#losses.length < this.#step - progress.losses.length) this.#losses.push({ sum: 0, samples: 0 });
    this.#commit();
    return attached;
  }

  async snapshot(): Promise<DdpState> {
    const { name, scalars, slots } = this.#outer.state();
    return {
      order: this.replica.order,
      parameters: this.#shared.slice(),
      optimizer: { name, scalars: scalars.slice(), slots: slots.map((slot) => slot.slice()) },
      buffers: await this.#buffers.read(),
    };
  }

  load(state: DdpState): void {
    const { order, parameters, optimizer, buffers } = state;
    const bufferSize = this.replica.variables.buffers.reduce((sum, { size }) => sum + size, 0);
    if (
      parameters.length !== this.size ||
      buffers.length !== bufferSize ||
      JSON.stringify(order) !== JSON.stringify(this.replica.order)
    ) {
      throw new MismatchError(
        `The state has ${parameters.length} parameters in ${order.length} variables and ${buffers.length} buffer elements, but this ` +
          `model has ${this.size}, ${this.replica.order.length} and ${bufferSize}, or a different order of its variables. Load a state of the same model and strategy.`,
      );
    }
    checkSameOptimizer(this.#outer.state(), optimizer);
    this.#shared.set(parameters);
    this.#outer.load(optimizer);
    this.#buffers.write(buffers);
    this.#mean.reset();
    this.#losses = [];
    this.#isFresh = false;
    this.#committed = null;
    this.#setOwn(
      this.#shared,
      this.#fragments.map(() => 0),
    );
  }

  async gatherWhole(): Promise<void> {}

  release(): void {}

  override dispose(): void {
    super.dispose();
    this.#buffers.dispose();
  }

  /** Digest of all state that determines the following steps and is equal on all ranks. */
  async #digest(): Promise<string> {
    const { step, appliedIn, position, evaluateEvery, trainedMs } = this.#progress;
    const cursor = Float64Array.of(
      step,
      appliedIn,
      position.epoch,
      position.offset,
      position.parts ?? 0,
      evaluateEvery,
      trainedMs,
    );
    return hashOfArrays([cursor, ...this.state(), await this.#buffers.read()]);
  }

  #transferIn(group: ProcessGroup): StateTransfer<DdpStateHead, never, StateParts<DdpStateHead>> {
    return {
      digest: () => this.#digest(),
      head: () => {
        const { name, scalars } = this.#outer.state();
        return { order: this.replica.order, name, scalars };
      },
      repeat: null,
      gather: async (head, sources) => {
        const { arrays } = ddpStateToParts(await this.snapshot());
        const { onreceived } = this.options;
        return { head, arrays: await gatherSlices(group, arrays, sources, { received: this.#received, onreceived }) };
      },
      load: (state, progress) => {
        this.load(ddpStateFromParts(state));
        Object.assign(this.#progress, structuredClone(progress));
        // The loaded state is committed now, because the group may end before the next commit.
        this.#commit();
      },
    };
  }
}
