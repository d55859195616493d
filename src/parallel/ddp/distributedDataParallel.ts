/**
 * `DistributedDataParallel`: one model with a replica on every rank; averaged gradients keep the
 * replicas equal. It works as torch.nn.parallel.DistributedDataParallel, with these differences
 * (https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html):
 *
 * - gradients are averaged over samples by default, not over ranks, so N ranks train like one rank,
 *   whatever their batch sizes are;
 * - the optimizer runs on the CPU on one flat array, so that replicas stay equal bit for bit on any
 *   mix of GPUs;
 * - a change of the model's weights after `create` is an error in the next `backward` or `step`
 *   (see `broadcastParameters`);
 * - every `backward` outside `noSync` starts a new gradient: there is no `zeroGrad`;
 * - buckets are rebuilt in the first backward, not after the first step (see `agreeOnFlatOrder`);
 * - buffers are broadcast after the gradients, not before the next forward pass: replicas are equal
 *   after every step, not only after every forward pass.
 */
import { checkAlgorithm } from '../../collectives/argumentChecks.ts';
import { codecByName } from '../../collectives/codecs.ts';
import type { CollectiveCodecName } from '../../spec/codecs.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import type { Clock } from '../../util/clock.ts';
import { UsageError } from '../../util/errors.ts';
import type { ElementRange } from '../../util/range.ts';
import { moveOptimizerAveragesToLayout } from '../flat/optimizerLayout.ts';
import { toFlatOptimizer, type TensorflowOptimizer } from '../flat/optimizerOf.ts';
import { runAndAbortGroupOnSignal } from '../groups/abortGroupOnSignal.ts';
import { WeightChangeDetector } from '../backward/weightChangeDetector.ts';
import type { BucketShards } from './bucketShards.ts';
import {
  agreeOnFlatOrder,
  createFlatLayout,
  rearrangeParameters,
  type BucketCaps,
  type FlatLayout,
} from '../flat/buckets.ts';
import { clipGradNorm } from '../flat/clip.ts';
import type { CommHook } from './commHooks.ts';
import { resolveDdpOptions, type DistributedDataParallelOptions, type SharedDdpOptions } from './options.ts';
import {
  readVariables,
  variablesOf,
  writeVariables,
  type Model,
  type ModelVariables,
  type Tensor,
  type Variable,
} from '../backward/flatten.ts';
import { DdpJoinContext, type JoinOptions, type JoinStatus } from './join.ts';
import { ModelBuffers } from './modelBuffers.ts';
import { checkMetrics, differentiatePass, passWithoutSamples, type Pass, type PassOptions } from '../backward/pass.ts';
import { Reducer } from './reducer.ts';
import type { LocalPass, UntimedReducedPass, ReducedPass } from './reduction.ts';
import { StaticGraph } from './staticGraph.ts';
import { verifyModel } from './verifyModel.ts';

/**
 * Averages the gradients of a model over all ranks (torch: `DistributedDataParallel`).
 *
 * @example
 * ```ts
 * const ddp = await DistributedDataParallel.create(model, group);
 * const optimizer = tf.train.adam(0.01); // the same object in every step
 * const loss = () => tf.losses.meanSquaredError(ys, model.apply(xs) as tf.Tensor).asScalar();
 * await ddp.backward(loss, { samples: xs.shape[0] }); // averaged over the samples of all ranks
 * ddp.step(optimizer);
 * ```
 */
export class DistributedDataParallel {
  /**
   * All parameters, flat, in the order of {@link layout}; equal on all ranks. {@link step} changes
   * this array and copies it to the model. There are three ways to set weights: before
   * {@link create}; on one rank's model, followed by {@link broadcastParameters}; or by the same
   * change to this array on every rank, followed by {@link writeParameters}.
   */
  readonly parameters: Float32Array<ArrayBuffer>;
  readonly #variables: ModelVariables;
  readonly #buffers: ModelBuffers;
  readonly #options: SharedDdpOptions;
  readonly #clock: Clock;
  readonly #reducer: Reducer;
  readonly #graph: StaticGraph | null;
  readonly #watch: WeightChangeDetector;
  #group: ProcessGroup;
  #isOrdered = false;
  #isLocal = false;
  #join: DdpJoinContext | null = null;

  private constructor(
    variables: ModelVariables,
    group: ProcessGroup,
    { clock, checkGradients, keepGradients, shared }: ReturnType<typeof resolveDdpOptions>,
  ) {
    const { broadcastBuffers, findUnusedParameters, staticGraph, algorithm, codec, errorFeedback, metrics } = shared;
    const { parameters, buffers } = variables;
    this.#group = group;
    this.#variables = variables;
    this.#watch = new WeightChangeDetector(parameters);
    this.#buffers = new ModelBuffers(buffers, group);
    this.#options = shared;
    this.#clock = clock;
    const layout = this.#createLayout();
    this.parameters = new Float32Array(layout.size);
    this.#reducer = new Reducer(layout, {
      group,
      clock,
      checkGradients,
      keepsLocal: keepGradients,
      algorithm,
      codec,
      errorFeedback,
      shapes: parameters.map(({ shape }) => shape),
      tracksUsage: findUnusedParameters || staticGraph,
      flags: broadcastBuffers ? this.#buffers.flagCount : 0,
      metrics,
    });
    this.#graph = staticGraph ? new StaticGraph() : null;
  }

  /**
   * Wraps a model: checks that every rank has the same shapes and options, then broadcasts rank 0's
   * parameters and buffers.
   *
   * @param model a LayersModel, or a list of float32 variables in forward order. Trainable
   *   variables are parameters; the others are buffers.
   * @throws (rejects) MismatchError on every rank if models or options differ, UsageError if
   *   there is nothing to train, a variable is not float32, or the ranks cannot run the algorithm.
   */
  static async create(
    model: Model | readonly Variable[],
    group: ProcessGroup,
    options: DistributedDataParallelOptions = {},
  ): Promise<DistributedDataParallel> {
    return runAndAbortGroupOnSignal(group, options.signal, 'DistributedDataParallel.create', async () => {
      const variables = variablesOf(model);
      const resolved = resolveDdpOptions(options);
      await verifyModel(group, variables, resolved.shared);
      const { algorithm, codec } = resolved.shared;
      checkAlgorithm(algorithm ?? group.algorithm, group.worldSize, codecByName(codec));
      const ddp = new DistributedDataParallel(variables, group, resolved);
      const first = group.ranks[0]!;
      await ddp.broadcastParameters(first);
      await ddp.broadcastBuffers(first);
      return ddp;
    });
  }

  get group(): ProcessGroup {
    return this.#group;
  }

  /** The model (torch: `module`), its parameters in forward order, and its buffers. */
  get variables(): ModelVariables {
    return this.#variables;
  }

  /**
   * Offset of each parameter in the flat arrays. The offsets change in the first {@link backward}
   * outside {@link noSync}.
   */
  get layout(): FlatLayout {
    return this.#reducer.layout;
  }

  /** The flat gradient after {@link backward}, averaged over all ranks. */
  get gradient(): Float32Array<ArrayBuffer> {
    return this.#reducer.gradient;
  }

  /**
   * Returns the averaged gradient of one parameter after {@link backward}, in the order of the
   * parameter's values (torch: `parameter.grad`). The result is a view of {@link gradient}, so
   * {@link step} applies changes to it. Call `gradientOf` again after each `backward`, because the
   * first `backward` changes the layout.
   *
   * @param name the `name` of the variable, such as `dense_Dense1/kernel`. A LayersModel lists the
   *   names in `model.trainableWeights`.
   * @throws UsageError if no parameter has the name, or if gradients are not reduced yet.
   */
  gradientOf(name: string): Float32Array<ArrayBuffer> {
    this.#checkReduced('gradientOf');
    const { parameters } = this.#variables;
    const slot = this.layout.slots.find(({ parameter }) => parameters[parameter]!.name === name);
    if (slot) return this.gradient.subarray(slot.offset, slot.offset + slot.size);
    const names = parameters.map((parameter) => parameter.name).join(', ');
    throw new UsageError(`There is no parameter "${name}". The parameters are ${names}.`);
  }

  /** Number of bytes that ranks sum in a step without a hook: the gradient and a few numbers. */
  get gradientBytes(): number {
    return this.#reducer.bytes;
  }

  /** For each bucket: the number of bytes that ranks sum in a step without a hook. */
  get bucketBytes(): number[] {
    return this.#reducer.bucketBytes;
  }

  /**
   * Number of samples whose gradients are kept for the next {@link backward} outside
   * {@link noSync}.
   */
  get pendingSamples(): number {
    return this.#reducer.pendingSamples;
  }

  /** Drops the gradients that are kept for the next {@link backward}. */
  dropGradients(): void {
    this.#reducer.dropGradients();
  }

  /**
   * Sets the residuals of codec and hook to zero. Call it when this rank applies an averaged
   * gradient that another rank sent, because that average already includes this rank's residuals.
   */
  resetErrorFeedback(): void {
    this.#reducer.resetErrorFeedback();
  }

  /**
   * Sets how gradients are sent from the next {@link backward} on: with a codec, or with a hook
   * instead. Call it on every rank with the same arguments. Residuals are dropped.
   *
   * @param inOneBucket whether all gradients form one bucket. Use it for a hook that waits for
   *   several collectives per bucket.
   */
  setTransport(codec: CollectiveCodecName, hook: CommHook | null, inOneBucket = false): void {
    const caps = inOneBucket ? { firstBucketBytes: Infinity, bucketCapBytes: Infinity } : {};
    this.#reducer.setLayout(this.#createLayout(this.parameterOrder, caps));
    this.#reducer.useCodec(codec);
    this.#reducer.hook = hook;
  }

  /**
   * Reduces only this rank's shard of the gradient from the next {@link backward} on, for
   * `ZeroRedundancyOptimizer`. Call it on every rank.
   *
   * @throws UsageError with a hook, because a hook reduces whole buckets.
   */
  shardGradients(): void {
    if (this.#reducer.hook) {
      throw new UsageError(
        'A communication hook reduces whole buckets, so gradients cannot be sharded. Do not register a hook.',
      );
    }
    this.#reducer.isSharded = true;
  }

  /**
   * The shards of the flat arrays. After {@link shardGradients}, only the elements of this rank's
   * shard are averages in {@link gradient}.
   */
  get shards(): BucketShards {
    return this.#reducer.shards;
  }

  /** Ranges of the parameters that at least one rank used in the latest {@link backward}. */
  get usedRanges(): readonly ElementRange[] {
    this.#checkReduced('usedRanges');
    return this.#reducer.usedRanges;
  }

  /**
   * Sets {@link parameters} to the updated shards of all ranks, and copies them to the model.
   *
   * @param gathered the result of `shards.allGather`.
   */
  setShards(gathered: readonly (readonly Float32Array[])[]): void {
    this.shards.place(gathered, this.parameters);
    this.#reducer.commit();
    this.writeParameters();
  }

  /** Indices of the parameters in the order of the flat arrays. */
  get parameterOrder(): number[] {
    return this.layout.slots.map(({ parameter }) => parameter);
  }

  /** Whether ranks have agreed on the order of the flat arrays, as they do in {@link backward}. */
  get isOrdered(): boolean {
    return this.#isOrdered;
  }

  /** Continues in another group, whose ranks all have the same parameters, layout and buffers. */
  regroup(group: ProcessGroup): void {
    this.#group = group;
    this.#isOrdered = true;
    this.#reducer.regroup(group);
    this.#buffers.regroup(group);
  }

  /**
   * Changes the order of the flat arrays to that of another rank. Fill {@link parameters} again
   * afterwards. Kept gradients and residuals are dropped.
   *
   * @param order see {@link parameterOrder}; `null` for the order before ranks agreed on one.
   */
  reorder(order: readonly number[] | null): void {
    this.#isOrdered = order !== null;
    this.#reducer.dropGradients();
    this.#reducer.setLayout(this.#createLayout(order ?? undefined));
  }

  /**
   * Computes this rank's gradients and averages them over all ranks: the all-reduce of one bucket
   * runs while the next bucket is read from the GPU. Every rank must call it, even without samples.
   *
   * Inside {@link noSync}, `backward` only keeps the gradients. The next call outside `noSync` adds
   * them to its own gradients and averages the sum. The result is the gradient of a single pass
   * over the samples of all these calls. With `average: 'ranks'` the result is the sum of the
   * passes' averages, as in PyTorch.
   *
   * @param pass the forward pass: a function that returns the loss of this rank's samples. For a
   * LayersModel it can also be an object with the model's inputs and a function that returns the
   * loss of its outputs; the model then runs in training mode. Without samples no function is
   * called, but if the pass is an object, the rank still takes part in the collectives of the
   * model's SyncBatchNormalization layers.
   * @throws (rejects) UsageError if weights of the model were set, see
   *   {@link broadcastParameters}; DeviceError; with `staticGraph`, MismatchError on every rank if
   *   the pass uses other parameters than the first pass; MismatchError, which ends the group, if
   *   samples do not add up to `totalSamples`; EarlyTerminationError, see {@link join}; errors of
   *   the hook and of {@link ProcessGroup.allReduce}.
   */
  async backward<Outputs extends Tensor | Tensor[] = Tensor>(
    pass: Pass<Outputs>,
    options: PassOptions,
  ): Promise<ReducedPass> {
    // JavaScript may omit the options. NaN then leads to an error that names `samples`.
    const given: PassOptions = Object.assign({ samples: Number.NaN }, options);
    return runAndAbortGroupOnSignal(this.group, given.signal, 'backward', () => this.#backward(pass, given));
  }

  async #backward<Outputs extends Tensor | Tensor[]>(pass: Pass<Outputs>, options: PassOptions): Promise<ReducedPass> {
    const startedAt = this.#clock.now();
    const sentBefore = this.group.bytesSent;
    const status = await this.#exchangeStatus(true);
    const wanted = this.#options.average === 'ranks' ? 'mean' : 'sum';
    // Buckets can be read early only when the order of the parameters is known.
    const listener = this.#isOrdered ? this.#reducer.listen() : undefined;
    this.#watch.check(this.group.rank);
    const computed = await differentiatePass(pass, options, this.#variables, this.group, wanted, listener);
    checkMetrics(computed, this.#options.metrics);
    // A rank without samples contributes zeros.
    const { samples, oncomputed } = options;
    const local = computed && { samples, computed, oncomputed };
    if (!local) oncomputed?.();
    try {
      if (local) this.#graph?.check(local.computed.used, this.#variables.parameters, this.group);
      const { computedAt, ...reduced } = this.#isLocal
        ? await this.#accumulate(local)
        : await this.#synchronize(local, status, options.totalSamples);
      return { ...reduced, compute: computedAt - startedAt, bytesSent: this.group.bytesSent - sentBefore };
    } finally {
      local?.computed.dispose();
    }
  }

  /**
   * Runs `main`. Every {@link backward} inside `main` keeps its gradients for the first `backward`
   * after `main`. (torch: `no_sync`)
   */
  async noSync<T>(main: () => Promise<T>): Promise<T> {
    const outside = this.#isLocal;
    this.#isLocal = true;
    try {
      return await main();
    } finally {
      this.#isLocal = outside;
    }
  }

  /**
   * Trains on unequal numbers of batches. `main` is this rank's loop of {@link backward} and
   * {@link step}. When this loop ends, the rank still takes part in the communication of the other
   * ranks, until their loops have ended too. It contributes zeros, and gradients that
   * {@link noSync} kept. Then all ranks receive the parameters and buffers of the rank that
   * finished last. If several ranks finished last, the highest of these ranks is used. Every rank
   * must call it, even without data. Inside `join`, `backward` needs one more all-gather, of three
   * numbers.
   *
   * As in PyTorch, the optimizer state is not exchanged. Before they train again, ranks that ended
   * early need the optimizer state of the last rank, or a new optimizer.
   *
   * @returns the result of `main`.
   * @throws (rejects) with `throwOnEarlyTermination`, EarlyTerminationError on every rank as soon
   *   as one rank has no more inputs while others still have some; errors of `main`.
   */
  async join<T>(main: () => Promise<T>, options: JoinOptions = {}): Promise<T> {
    return runAndAbortGroupOnSignal(this.group, options.signal, 'join', () => this.#joinAll(main, options));
  }

  async #joinAll<T>(main: () => Promise<T>, options: JoinOptions): Promise<T> {
    if (this.#reducer.isSharded) {
      throw new UsageError(
        'join does not work with a ZeroRedundancyOptimizer: a rank without inputs would not update its shard. Call step of DDP with a ' +
          'whole optimizer, or give all ranks the same number of batches.',
      );
    }
    if (this.#join) throw new UsageError('join was called inside join. Call join once, with one loop over all inputs.');
    const join = new DdpJoinContext(this.group, options);
    this.#join = join;
    let result: T;
    try {
      result = await main();
      for (;;) {
        const status = await this.#exchangeStatus(false);
        if (!status?.active.length) break;
        await passWithoutSamples(this.#variables, this.group);
        if (status.synchronizes) await this.#synchronize(null, status);
      }
    } finally {
      this.#join = null;
    }
    const last = this.group.ranks[join.lastJoiner]!;
    await this.#shareParameters(last);
    await this.broadcastBuffers(last);
    return result;
  }

  /**
   * Sets the hook that reduces every bucket from the next {@link backward} on. Register it on every
   * rank. (torch: `register_comm_hook`)
   *
   * @throws UsageError if a hook is already registered, because its residuals would be lost; or if
   *   a codec is set, because the hook would replace it.
   */
  registerCommHook(hook: CommHook): void {
    if (this.#options.codec !== 'fp32') {
      throw new UsageError(
        `A communication hook would replace the codec ${this.#options.codec}. Set either the codec or the hook.`,
      );
    }
    if (this.#reducer.hook) throw new UsageError('A communication hook is already registered. Register only one.');
    this.#reducer.hook = hook;
  }

  /**
   * Scales the averaged gradient down to an L2 norm of at most `maxNorm`; see `flat/clip.ts`. Call
   * it on every rank with the same value. Parameters that no rank used are not included in the
   * norm.
   *
   * @returns the norm before clipping.
   * @throws UsageError for a `maxNorm` below 0, or if gradients are not reduced yet.
   */
  clipGradNorm(maxNorm: number): number {
    this.#checkReduced('clipGradNorm');
    return clipGradNorm(this.gradient, this.#reducer.usedRanges, maxNorm);
  }

  /**
   * Applies the averaged gradient with `optimizer` and copies the new parameters to the model. If
   * ranks exchange which parameters they used (see `findUnusedParameters`), unused parameters are
   * not changed.
   *
   * @param optimizer must compute the same bits on every machine. An optimizer of TensorFlow.js,
   *   such as `tf.train.adam(1e-3)`, is run on flat arrays; pass the same object in every step,
   *   because its averages belong to it. {@link optimizerOf} gives access to its state.
   * @throws UsageError if gradients of {@link noSync} are not reduced yet: replicas would drift
   *   apart; or for an optimizer that {@link optimizerOf} rejects.
   */
  step(optimizer: Pick<Optimizer, 'apply'> | TensorflowOptimizer): void {
    this.#checkReduced('step');
    if (this.#reducer.isSharded) {
      throw new UsageError(
        'Each rank has only its shard of the gradient. Call step of the ZeroRedundancyOptimizer instead.',
      );
    }
    this.#watch.check(this.group.rank);
    const flat = this.flatOptimizer(optimizer);
    const { usedRanges } = this.#reducer;
    if (usedRanges.length === 0) return;
    flat.apply(this.parameters, this.gradient, usedRanges);
    this.writeParameters();
  }

  /**
   * Returns the flat optimizer with which {@link step} applies `optimizer`. Use it to call
   * `state()` and `load()`. From then on its averages have the order of {@link layout}: `step`
   * moves them when the layout has changed.
   *
   * @throws UsageError for an optimizer that {@link optimizerOf} rejects.
   */
  flatOptimizer<Flat extends Pick<Optimizer, 'apply'>>(optimizer: Flat | TensorflowOptimizer): Flat | Optimizer {
    const flat = toFlatOptimizer(optimizer, this.#variables.parameters);
    moveOptimizerAveragesToLayout(flat, this.layout);
    return flat;
  }

  /** Copies {@link parameters} to the model after a change that {@link step} did not make. */
  writeParameters(): void {
    writeVariables(this.#variables.parameters, this.layout.slots, this.parameters);
    this.#watch.accept();
  }

  /**
   * Whether something other than DDP has changed this rank's model since DDP last wrote it, for
   * example with `setWeights`. The getter compares references and reads nothing from the GPU.
   */
  get isModelChanged(): boolean {
    return this.#watch.changed !== null || this.#buffers.changes().includes(1);
  }

  /**
   * Sets the parameters of all ranks to those of the model of rank `src` (Horovod:
   * `hvd.broadcast_parameters`). Call it on every rank after one rank has set weights: other calls
   * reject weights that DDP did not write, because a step would undo them. Keeps optimizer states.
   */
  async broadcastParameters(src: number): Promise<void> {
    const isSource = this.group.ranks[this.group.rank] === src;
    if (isSource) await readVariables(this.#variables.parameters, this.layout.slots, this.parameters);
    await this.#shareParameters(src);
  }

  /**
   * Sets the buffers of all ranks to those of the model of rank `src`. After {@link backward} this
   * call is needed only if the option `broadcastBuffers` is false.
   */
  async broadcastBuffers(src: number): Promise<void> {
    await this.#buffers.broadcast(this.group.ranks.indexOf(src));
  }

  dispose(): void {
    this.#reducer.dispose();
    this.#buffers.dispose();
  }

  #createLayout(order?: readonly number[], caps: Partial<BucketCaps> = {}): FlatLayout {
    const sizes = this.#variables.parameters.map(({ size }) => size);
    return createFlatLayout(sizes, { ...this.#options, ...caps, order });
  }

  /** Inside {@link join}, exchanges the status of all ranks; otherwise returns `null`. */
  async #exchangeStatus(isActive: boolean): Promise<JoinStatus | null> {
    if (!this.#join) return null;
    const contributes = isActive || this.#reducer.hasPending;
    return this.#join.exchangeStatus({ isActive, contributes, synchronizes: !this.#isLocal });
  }

  async #accumulate(local: LocalPass | null): Promise<UntimedReducedPass> {
    const none = { traces: [], metrics: [], communicate: 0, exposed: 0 };
    if (!local) return { ...none, loss: 0, samples: 0, readback: 0, computedAt: this.#clock.now() };
    const { loss, computedAt } = await this.#reducer.accumulate(local);
    const { samples } = local;
    const mean = this.#options.average === 'ranks' ? loss : loss / samples;
    return { ...none, loss: mean, samples, readback: this.#clock.now() - computedAt, computedAt };
  }

  /**
   * Reduces gradients and broadcasts buffers.
   *
   * @param local `null` on a rank without a pass of its own.
   */
  async #synchronize(
    local: LocalPass | null,
    status: JoinStatus | null,
    totalSamples?: number,
  ): Promise<UntimedReducedPass> {
    const { average, broadcastBuffers } = this.#options;
    const { worldSize } = this.group;
    const ranks = this.#join?.divideByInitialWorldSize === false ? (status?.contributors ?? worldSize) : worldSize;
    // Inside `join`, a rank without inputs does not know the total, so no rank uses it.
    const total = this.#join ? undefined : totalSamples;
    if (!this.#isOrdered) await this.#orderBuckets(local?.computed.readyOrder);
    const hasSamples = (local?.samples ?? 0) + this.pendingSamples > 0;
    const own = broadcastBuffers ? this.#buffers.flags(hasSamples) : [];
    const { flags, ...reduced } = await this.#reducer.reduce(local, own, {
      ...(average === 'ranks' && { ranks }),
      ...(total !== undefined && { totalSamples: total }),
    });
    await this.#buffers.share(flags);
    // With shards, the step can still fail while the shards are gathered, so it is committed later.
    if (!this.#reducer.isSharded) this.#reducer.commit();
    return reduced;
  }

  /** Orders the flat arrays by the order in which gradients became ready. */
  async #orderBuckets(ownOrder: readonly number[] | undefined): Promise<void> {
    this.#isOrdered = true;
    const order = await agreeOnFlatOrder(this.group, this.#variables.parameters.length, ownOrder);
    if (!order) return;
    const before = this.layout;
    this.#reducer.setLayout(this.#createLayout(order));
    rearrangeParameters(this.parameters, before, this.layout);
  }

  /** Broadcasts the flat parameters of rank `src` and writes them to the models of other ranks. */
  async #shareParameters(src: number): Promise<void> {
    await this.group.broadcast(this.parameters, src);
    if (this.group.ranks[this.group.rank] === src) this.#watch.accept();
    else this.writeParameters();
  }

  #checkReduced(what: string): void {
    if (!this.#reducer.hasPending) return;
    throw new UsageError(
      `${what} was called before the gradients of noSync were averaged over the ranks. Call backward outside noSync first.`,
    );
  }
}
