/**
 * `ring`: DistributedDataParallel. Each step costs 2K(n-1)/n bytes per rank, and 2(n-1) hops.
 *
 * It is elastic: a step that ends early with its group changes nothing but what the rank holds, and
 * in the next group {@link Ddp.attach} makes all ranks' states one. As an update needs everyone's
 * gradient, ranks of one group are one step apart at most, so what a rank has to keep for the
 * others is its last averaged gradient.
 */
import { codecOf } from '../../collectives/codecs.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Optimizer, OptimizerState } from '../../optim/optimizer.ts';
import type { JobCodec, PlannedCodec } from '../../spec/names.ts';
import { MismatchError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';
import { CommittedBuffers } from '../ddp/committedBuffers.ts';
import { DistributedDataParallel } from '../ddp/distributedDataParallel.ts';
import { variablesOf, type ModelVariables } from '../ddp/flatten.ts';
import type { Pass, PassOptions } from '../ddp/pass.ts';
import { compressedSize, createPowerSgdHook } from '../ddp/powerSgd.ts';
import type { Progress } from '../recovery/progress.ts';
import { recover, type StateTransfer } from '../recovery/recover.ts';
import { gatherSlices } from '../recovery/gatherSlices.ts';
import { divergentRanks, rejectDivergentRanks, type PeerState } from '../recovery/stateElection.ts';
import { describeModel, differenceBetween, type ModelDescription } from '../ddp/verifyModel.ts';
import { AutoBuckets } from './autoBuckets.ts';
import { AutoCodec } from './autoCodec.ts';
import type { Applied, StepReport, Strategy, StrategyOptions } from './strategy.ts';

/**
 * Columns of PowerSGD's matrices: of the paper's ranks, the least that learns as fp32 does in the
 * end.
 */
const POWER_SGD_RANK = 2;
/**
 * The same where ranks choose it by themselves, who were asked for as many bytes as do no harm, not
 * for the fewest. An mlp with 256 hidden units on MNIST, 4 ranks of 256, is 90 % right after 12
 * steps with fp32, after 24 at rank 2, 16 at 4, 12 at 8 and at 16, which send a 71st, a 37th, an
 * 18th and a 10th of the bytes.
 */
const CHOSEN_POWER_SGD_RANK = 8;
/**
 * Its plain steps first (none where some were taken to choose it), which have to be few, or they
 * outweigh all others in bytes. With 4 in place of 2, an mlp on MNIST sent 37 in place of 48 times
 * fewer bytes than with fp32, and was no more accurate.
 */
const POWER_SGD_START = 2;

interface DdpOptions extends StrategyOptions {
  codec: PlannedCodec;
  errorFeedback: boolean;
}

/** What is the same on all ranks after a step, beside the run's {@link Progress}. */
export interface DdpState {
  /** Parameters, indices in forward order, as they lie in the flat arrays. */
  order: number[];
  parameters: Float32Array<ArrayBuffer>;
  optimizer: OptimizerState;
  /** The model's buffers, flat. */
  buffers: Float32Array<ArrayBuffer>;
}

/** What one rank sends of a state, for all that have it. */
type RingHead = Pick<DdpState, 'order'> & Pick<OptimizerState, 'name' | 'scalars'> & { learningRate: number };

/** A rank as it came to a group. */
export interface Arrival<Note> extends PeerState {
  /** Whether it had the state that all have now. */
  isCurrent: boolean;
  note: Note;
}

/** The ability to continue in another group, with ranks that have come or gone. */
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
  readonly #buffers: CommittedBuffers;
  readonly #optimizer: Optimizer;
  readonly #options: DdpOptions;
  #isFresh = true;
  /** The averaged gradient of the last step, for a rank that did not get as far. */
  #kept: Float32Array<ArrayBuffer> | null = null;
  #keepsGradient = false;
  /** In use now. */
  #codec: JobCodec;
  #auto: AutoCodec | null = null;
  /** Once a codec is chosen. */
  #autoBuckets: AutoBuckets | null = null;

  private constructor(ddp: DistributedDataParallel, options: DdpOptions) {
    this.#ddp = ddp;
    this.#options = options;
    this.#variables = variablesOf(options.model);
    this.#buffers = new CommittedBuffers(this.#variables.buffers);
    this.#optimizer = options.createOptimizer(ddp.layout.size);
    this.#codec = options.codec === 'auto' ? 'fp32' : options.codec;
    this.#carryBy(this.#codec, POWER_SGD_START);
  }

  static async create(options: DdpOptions): Promise<Ddp> {
    const { model, group, clock, checkGradients, errorFeedback } = options;
    const ddp = await DistributedDataParallel.create(model, group, {
      ...{ clock, checkGradients, keepGradients: true, errorFeedback },
    });
    return new Ddp(ddp, options);
  }

  get size(): number {
    return this.#ddp.layout.size;
  }

  /** How gradients travel now. */
  get codec(): JobCodec {
    return this.#codec;
  }

  get gradientBytes(): number {
    if (this.#codec !== 'powersgd') return this.#ddp.gradientBytes;
    const tallyBytes = this.#ddp.gradientBytes - this.size * Float32Array.BYTES_PER_ELEMENT;
    return this.bucketBytes.reduce((sum, bytes) => sum + bytes, tallyBytes);
  }

  get bucketBytes(): readonly number[] {
    if (this.#codec !== 'powersgd') return this.#ddp.bucketBytes;
    const { parameters } = this.#variables;
    return this.#ddp.layout.buckets.map(({ slots }) => {
      const sizes = slots.map(({ parameter }) => compressedSize(parameters[parameter]!.shape, this.#powerSgdRank));
      return sizes.reduce((sum, size) => sum + size, 0) * Float32Array.BYTES_PER_ELEMENT;
    });
  }

  /** Whether it has never shared a state with others, nor loaded one. */
  get isFresh(): boolean {
    return this.#isFresh;
  }

  /**
   * Samples whose gradients this rank holds for the next step: those of {@link accumulate}, and of
   * a step that failed.
   */
  get heldSamples(): number {
    return this.#ddp.pendingSamples;
  }

  /** Forgets them. */
  drop(): void {
    this.#ddp.dropPending();
  }

  /**
   * Undoes what a step that was not applied did to the model's buffers. Its gradients are dropped
   * with that: computed anew, they do it again.
   */
  rollBack(): void {
    if (this.#buffers.rollBack()) this.drop();
  }

  /**
   * Adds this rank's samples to those of the next {@link step}: where there are more than fit one
   * batch.
   */
  async accumulate(pass: Pass, options: PassOptions): Promise<void> {
    await this.#ddp.noSync(() => this.#ddp.backward(pass, options));
  }

  async step(pass: Pass, options: PassOptions, onapplied: Applied): Promise<StepReport> {
    const { clock } = this.#options;
    const choice = (await this.#auto?.choose()) ?? null;
    if (choice) {
      this.#carryBy(choice.codec, 0);
      // Of what a hook carries there are no times.
      const hasTimes = choice.codec !== 'powersgd';
      this.#autoBuckets = hasTimes ? new AutoBuckets(this.#ddp.group, this.#ddp.layout) : null;
    }
    const bucketChoice = (await this.#autoBuckets?.choose(this.#ddp.layout)) ?? null;
    if (bucketChoice) this.#ddp.cut(bucketChoice.capBytes);
    const reduction = await this.#ddp.backward(pass, options);
    const reducedAt = clock.now();
    this.#ddp.step(this.#optimizer);
    this.#kept ??= new Float32Array(this.size);
    this.#kept.set(this.#ddp.gradient);
    // Buffers follow from no gradient.
    this.#keepsGradient = !this.#buffers.commit();
    onapplied(reduction);
    const report = { ...reduction, update: clock.now() - reducedAt, choice, bucketChoice };
    this.#auto?.took(report);
    this.#autoBuckets?.took(report);
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

  /** Copies, of when it is called. */
  async snapshot(): Promise<DdpState> {
    const { name, scalars, slots } = this.#optimizer.state();
    return {
      order: this.#order,
      parameters: this.#ddp.parameters.slice(),
      optimizer: { name, scalars: scalars.slice(), slots: slots.map((slot) => slot.slice()) },
      buffers: await this.#buffers.read(),
    };
  }

  /** Copies nothing that the CPU has. */
  async #state(): Promise<DdpState> {
    const optimizer = this.#optimizer.state();
    return { order: this.#order, parameters: this.#ddp.parameters, optimizer, buffers: await this.#buffers.read() };
  }

  /**
   * Copies a state in. What is held of a step is dropped.
   *
   * @throws MismatchError where it is of another model or optimizer; nothing was changed.
   */
  load({ order, parameters, optimizer, buffers }: DdpState): void {
    const { length } = this.#variables.parameters;
    const bufferSize = this.#variables.buffers.reduce((sum, { size }) => sum + size, 0);
    if (order.length !== length || parameters.length !== this.size || buffers.length !== bufferSize) {
      throw new MismatchError(
        `The state has ${parameters.length} parameters in ${order.length} variables and ${buffers.length} buffers, and this ` +
          `model ${this.size} in ${length} and ${bufferSize}: load a state of the same model.`,
      );
    }
    this.#optimizer.load(optimizer);
    this.#ddp.relayout(order);
    this.#ddp.parameters.set(parameters);
    this.#ddp.writeParameters();
    this.#buffers.write(buffers);
    this.#keepsGradient = false;
    this.#isFresh = false;
  }

  /**
   * Goes on in `group`, whose ranks need not have come equally far: all get the state with the most
   * steps (for ties see `electState`), as {@link recover} says. Every rank must call it. Whatever
   * it is interrupted by, a rank has one whole state, and the progress that belongs to it.
   *
   * @param progress this rank's; becomes that of the state.
   * @param note anything that the other ranks are to know.
   * @returns all ranks as they came.
   * @throws (rejects) where models differ from that of most, MismatchError on the ranks that do,
   *   PeergradError on the others, with `context.odd`; MismatchError where states differ in the
   *   end; what collectives reject with.
   */
  async attach<Note>(group: ProcessGroup, progress: Progress, note: Note): Promise<Arrival<Note>[]> {
    const { step, appliedIn, previousAppliedIn, verdicts } = progress;
    const mine = {
      ...{ isFresh: this.#isFresh, step, appliedIn, previousAppliedIn, verdicts },
      ...{ digest: await this.#digest(progress), keepsGradient: this.#keepsGradient },
      ...{ model: describeModel(this.#variables, {}), note },
    };
    const states = await group.allGatherObject(mine);
    this.#verifyModels(group, states);
    const arrivals = await recover(group, states, this.#replicaIn(group, progress), progress);
    this.#isFresh = false;
    this.#ddp.regroup(group);
    // Other ranks, other links.
    if (this.#options.codec === 'auto') {
      this.#carryBy('fp32', 0);
      this.#auto = new AutoCodec(group, this.#bytesByCodec());
      // Ranks that have cut theirs in the world before, and newcomers, begin alike.
      this.#ddp.cut();
      this.#autoBuckets = null;
    }
    return arrivals;
  }

  /**
   * Gives all ranks of the group a state that some of them have kept; none where nobody has. Every
   * rank must call it. What it is interrupted by may leave ranks with different states after the
   * same step, of which {@link attach} makes one.
   *
   * @param kept the same on each rank that has it.
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

  /** @param plainSteps of PowerSGD's, before it compresses. */
  #carryBy(codec: JobCodec, plainSteps: number): void {
    this.#codec = codec;
    const useErrorFeedback = this.#options.errorFeedback;
    const rank = { matrixApproximationRank: this.#powerSgdRank, startPowerSgdIter: plainSteps };
    if (codec !== 'powersgd') return this.#ddp.carryBy(codec, null);
    // Chosen for a slow line, it is to wait for as few hops as can be.
    this.#ddp.carryBy('fp32', createPowerSgdHook({ ...rank, useErrorFeedback }), this.#auto !== null);
  }

  get #powerSgdRank(): number {
    return this.#options.codec === 'auto' ? CHOSEN_POWER_SGD_RANK : POWER_SGD_RANK;
  }

  #bytesByCodec(): Record<JobCodec, number> {
    const elements = this.size;
    const thin = this.#variables.parameters.reduce(
      (sum, { shape }) => sum + compressedSize(shape, this.#powerSgdRank),
      0,
    );
    const plain = elements * Float32Array.BYTES_PER_ELEMENT;
    return {
      ...{ fp32: plain, fp16: codecOf('fp16')!.bytesOf(elements), int8: codecOf('int8')!.bytesOf(elements) },
      powersgd: thin * Float32Array.BYTES_PER_ELEMENT,
    };
  }

  get #order(): number[] {
    return this.#ddp.layout.slots.map(({ parameter }) => parameter);
  }

  /** Of everything that makes two ranks go on alike. */
  async #digest({ step, appliedIn, position, evaluateEvery, trainedMs }: Progress): Promise<string> {
    const order = Int32Array.from(this.#order);
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

  #replicaIn(group: ProcessGroup, progress: Progress): StateTransfer<RingHead, Float32Array<ArrayBuffer>, DdpState> {
    const { rank, ranks } = group;
    return {
      digest: () => this.#digest(progress),
      head: () => {
        const { name, scalars } = this.#optimizer.state();
        return { order: this.#order, name, scalars, learningRate: this.#optimizer.learningRate };
      },
      broadcastGradient: async (keeper) => {
        const gradient = rank === keeper ? this.#kept! : new Float32Array(this.size);
        await group.broadcast(gradient, ranks[keeper]!);
        return gradient;
      },
      catchUp: (gradient, { learningRate }) => this.#catchUp(gradient, learningRate),
      distrust: () => (this.#isFresh = true),
      gather: async (head, sources) => gatherState(group, await this.#state(), head, sources),
      load: (state) => this.load(state),
    };
  }

  /** Takes the one step that is missing, as the others did. */
  #catchUp(gradient: Float32Array<ArrayBuffer>, learningRate: number): void {
    this.drop();
    // The others' sum has it already.
    this.#ddp.forgetLosses();
    this.#optimizer.learningRate = learningRate;
    this.#optimizer.apply(this.#ddp.parameters, gradient);
    this.#ddp.writeParameters();
    this.#kept = gradient;
    this.#keepsGradient = true;
  }
}

/**
 * A state of the sizes of `mine`, which `sources` have: the small parts as `theirs`, the rest in
 * slices from all of them.
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
