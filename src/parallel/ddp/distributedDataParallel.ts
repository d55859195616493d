/**
 * `DistributedDataParallel`: one model, a replica on every rank, kept equal by averaging gradients.
 * As torch.nn.parallel.DistributedDataParallel
 * (https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html), with
 * these differences:
 *
 * - gradients are averaged over samples, not over ranks, unless told otherwise: N ranks equal one
 *   whatever the batch sizes;
 * - the optimizer runs on the CPU on one flat array, so that replicas stay equal bit for bit on any
 *   mix of GPUs;
 * - what is given to the model's weights after `create` is lost with the next `step` (see
 *   `parameters`);
 * - every `backward` outside `noSync` starts a gradient of its own: there is no `zeroGrad` to
 *   forget;
 * - buckets are rebuilt in the first backward, not after the first step (see `#orderBuckets`);
 * - buffers are broadcast behind the gradients, not before the next forward pass: the same values
 *   in every pass, and replicas are equal after every step, not only after every forward.
 */
import type { CodecName } from '../../collectives/codecs.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import type { Clock } from '../../util/clock.ts';
import { asError, UsageError } from '../../util/errors.ts';
import { createLayout, rearrange, type FlatLayout } from './buckets.ts';
import { clipGradNorm } from './clip.ts';
import type { CommHook } from './commHooks.ts';
import { resolveOptions, type DistributedDataParallelOptions, type SharedOptions } from './options.ts';
import {
  readVariables,
  variablesOf,
  writeVariables,
  type Gradients,
  type Model,
  type ModelVariables,
  type Tensor,
  type Variable,
} from './flatten.ts';
import { JoinContext, type JoinOptions, type Roll } from './join.ts';
import { ModelBuffers } from './modelBuffers.ts';
import { attendPass, differentiate, type Pass, type PassOptions } from './pass.ts';
import { Reducer, type LocalPass, type OpenReduction, type Reduction } from './reducer.ts';
import { StaticGraph } from './staticGraph.ts';
import { verifyModel } from './verifyModel.ts';

export class DistributedDataParallel {
  /**
   * All parameters, flat, as {@link layout} says. Equal on all ranks. Steps are taken here and the
   * model's weights follow: what is given to the model itself after {@link create}, as by
   * `setWeights`, is lost with the next {@link step}. Give it to the model before, or change these
   * on every rank alike and call {@link writeParameters}.
   */
  readonly parameters: Float32Array<ArrayBuffer>;
  readonly #variables: ModelVariables;
  readonly #buffers: ModelBuffers;
  readonly #options: SharedOptions;
  readonly #clock: Clock;
  readonly #reducer: Reducer;
  readonly #graph: StaticGraph | null;
  #group: ProcessGroup;
  #isOrdered = false;
  #isLocal = false;
  #join: JoinContext | null = null;

  private constructor(
    variables: ModelVariables,
    group: ProcessGroup,
    { clock, checkGradients, keepGradients, shared }: ReturnType<typeof resolveOptions>,
  ) {
    const { broadcastBuffers, findUnusedParameters, staticGraph, codec, errorFeedback } = shared;
    const { parameters, buffers } = variables;
    this.#group = group;
    this.#variables = variables;
    this.#buffers = new ModelBuffers(buffers, group);
    this.#options = shared;
    this.#clock = clock;
    const layout = this.#createLayout();
    this.parameters = new Float32Array(layout.size);
    this.#reducer = new Reducer(layout, {
      ...{ group, clock, checkGradients, keepsLocal: keepGradients, codec, errorFeedback },
      shapes: parameters.map(({ shape }) => shape),
      tracksUsage: findUnusedParameters || staticGraph,
      flags: broadcastBuffers ? buffers.length : 0,
    });
    this.#graph = staticGraph ? new StaticGraph() : null;
  }

  /**
   * Wraps a model: checks that every rank holds the same shapes, then gives all of them rank 0's
   * parameters and buffers.
   *
   * @param model a LayersModel; or variables, of which those that are trainable are parameters, in
   *   forward order, and the others buffers. All float32.
   * @throws (rejects) MismatchError on every rank where models or options differ, UsageError where
   *   there is nothing to train or a variable is not float32.
   */
  static async create(
    model: Model | readonly Variable[],
    group: ProcessGroup,
    options: DistributedDataParallelOptions = {},
  ): Promise<DistributedDataParallel> {
    const variables = variablesOf(model);
    const resolved = resolveOptions(options);
    await verifyModel(group, variables, resolved.shared);
    const ddp = new DistributedDataParallel(variables, group, resolved);
    if (group.rank === 0) await readVariables(variables.parameters, ddp.layout.slots, ddp.parameters);
    await ddp.#broadcastModel(0);
    return ddp;
  }

  get group(): ProcessGroup {
    return this.#group;
  }

  /**
   * Where each parameter lies in the flat arrays. Another one after the first backward that
   * reduces.
   */
  get layout(): FlatLayout {
    return this.#reducer.layout;
  }

  /** After {@link backward}: the gradient averaged over all ranks, flat. */
  get gradient(): Float32Array<ArrayBuffer> {
    return this.#reducer.gradient;
  }

  /**
   * Bytes of what goes round the ring in a step, without a hook: the gradient, and a few numbers
   * behind it.
   */
  get gradientBytes(): number {
    return this.#reducer.bytes;
  }

  /** The same by bucket. */
  get bucketBytes(): number[] {
    return this.#reducer.bucketBytes;
  }

  /** Samples whose gradients wait for the next {@link backward} outside {@link noSync}. */
  get pendingSamples(): number {
    return this.#reducer.pendingSamples;
  }

  /** Forgets the gradients that wait. */
  dropPending(): void {
    this.#reducer.drop();
  }

  /**
   * Forgets what a codec or hook has kept of earlier gradients to add it to the next: where another
   * rank's gradient, in which it is already, takes the place of this one's.
   */
  forgetLosses(): void {
    this.#reducer.forgetLosses();
  }

  /**
   * How gradients travel from the next {@link backward} on, on every rank the same: by a codec, or
   * by a hook in its place. What codec or hook before kept of earlier gradients is forgotten.
   *
   * @param isWhole all in one bucket, for a hook that waits several times for each; otherwise in
   *   buckets as the options have them.
   */
  carryBy(codec: CodecName, hook: CommHook | null, isWhole = false): void {
    const sizes = this.#variables.parameters.map(({ size }) => size);
    const order = this.layout.slots.map(({ parameter }) => parameter);
    const caps = isWhole ? { firstBucketBytes: Infinity, bucketCapBytes: Infinity } : this.#options;
    // No parameter moves.
    this.#reducer.relayout(createLayout(sizes, { ...caps, order }));
    this.#reducer.useCodec(codec);
    this.#reducer.hook = hook;
  }

  /**
   * Cuts buckets anew, on every rank the same, before a {@link backward}; by default as the options
   * have them. No parameter moves.
   */
  cut(bucketCapBytes: number = this.#options.bucketCapBytes): void {
    const sizes = this.#variables.parameters.map(({ size }) => size);
    const order = this.layout.slots.map(({ parameter }) => parameter);
    this.#reducer.cut(createLayout(sizes, { ...this.#options, bucketCapBytes, order }));
  }

  /**
   * Goes on in another group, all of whose ranks hold the same parameters in the same layout, which
   * stays, and the same buffers.
   */
  regroup(group: ProcessGroup): void {
    this.#group = group;
    this.#isOrdered = true;
    this.#reducer.regroup(group);
    this.#buffers.regroup(group);
  }

  /**
   * Lays parameters out in another rank's order, indices in forward order: fill {@link parameters}
   * anew afterwards. Gradients are dropped, and what a codec or hook has kept of earlier ones.
   */
  relayout(order: readonly number[]): void {
    this.#isOrdered = true;
    this.#reducer.drop();
    this.#reducer.relayout(this.#createLayout(order));
  }

  /**
   * Computes this rank's gradients and averages them with all other ranks': the all-reduce of one
   * bucket runs while the next is read back. Every rank must call it, with as many samples as it
   * has. Inside {@link noSync} it only adds to what the next one outside averages: one
   * communication for several passes, the same gradient as one pass over all their samples (with
   * `average: 'ranks'`, as in PyTorch, the sum of the passes' averages).
   *
   * @param pass the forward pass: a function that gives a scalar of this rank's samples, or, for a
   *   LayersModel, inputs to apply it to in training mode and the loss of its outputs. Not run
   *   where there are no samples, but for what SyncBatchNormalization layers send, which only the
   *   second form does.
   * @throws (rejects) DeviceError; MismatchError on every rank, with `staticGraph`, where the pass
   *   uses other parameters than the first one; MismatchError where samples do not add up to
   *   `totalSamples`, which ends the group; EarlyTerminationError, see {@link join}; what the hook
   *   and {@link ProcessGroup.allReduce} reject with.
   */
  async backward<Outputs extends Tensor | Tensor[] = Tensor>(
    pass: Pass<Outputs>,
    options: PassOptions,
  ): Promise<Reduction> {
    const startedAt = this.#clock.now();
    const sentBefore = this.group.bytesSent;
    const roll = await this.#callRoll(true);
    const wanted = this.#options.average === 'ranks' ? 'mean' : 'sum';
    // In the first pass parameters have no place yet.
    const listener = this.#isOrdered ? this.#reducer.listen() : undefined;
    const computed = await differentiate(pass, options, this.#variables, this.group, wanted, listener);
    // A rank without samples has nothing to compute: it contributes zeros.
    const local = computed && { samples: options.samples, computed };
    try {
      if (local) this.#checkGraph(local.computed);
      const { computedAt, ...reduced } = this.#isLocal
        ? await this.#accumulate(local)
        : await this.#synchronise(local, roll, options.totalSamples);
      return { ...reduced, compute: computedAt - startedAt, bytesSent: this.group.bytesSent - sentBefore };
    } finally {
      local?.computed.dispose();
    }
  }

  /**
   * Every {@link backward} that `main` calls keeps its gradients for the first one after it.
   * (torch: `no_sync`)
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
   * Lets ranks train on unequal numbers of batches: `main` is this rank's loop of {@link backward}
   * and {@link step}, and once it ends, the rank takes part in the others' communication with zeros
   * (and with what {@link noSync} has kept) until theirs have ended too. Then all ranks are given
   * the parameters and buffers of the highest one among the last. Every rank must call it, even if
   * it has nothing to train on. Inside, `backward` costs one tiny all-gather more.
   *
   * An optimizer's averages stay those of the rank's own last step, as in PyTorch: ranks that ran
   * dry need the last one's state, or a new optimizer, before they go on.
   *
   * @returns what `main` returns.
   * @throws (rejects) EarlyTerminationError on every rank, if asked for, as soon as one has run dry
   *   while others have not; what `main` rejects with.
   */
  async join<T>(main: () => Promise<T>, options: JoinOptions = {}): Promise<T> {
    if (this.#join) throw new UsageError('join was called inside join: give it one loop over all of the inputs.');
    const join = new JoinContext(this.group, options);
    this.#join = join;
    let result: T;
    try {
      result = await main();
      for (;;) {
        const roll = await this.#callRoll(false);
        if (!roll?.active.length) break;
        await attendPass(this.#variables, this.group);
        if (roll.synchronises) await this.#synchronise(null, roll);
      }
    } finally {
      this.#join = null;
    }
    await this.#broadcastModel(join.lastJoiner);
    return result;
  }

  /**
   * Has `hook` carry every bucket from the next {@link backward} on, on every rank the same.
   * (torch: `register_comm_hook`)
   *
   * @throws UsageError where there is one already: errors and states that a hook keeps would be
   *   lost. Or where there is a codec, which a hook would take the place of.
   */
  registerCommHook(hook: CommHook): void {
    if (this.#options.codec !== 'fp32') {
      throw new UsageError(
        `A hook carries buckets in place of the codec ${this.#options.codec}: choose one of the two.`,
      );
    }
    if (this.#reducer.hook) throw new UsageError('A communication hook is registered already: DDP takes one, once.');
    this.#reducer.hook = hook;
  }

  /**
   * Scales the averaged gradient down to an L2 norm of at most `maxNorm`; see `clip.ts`. The same
   * on every rank. Gradients of parameters that no rank used do not count.
   *
   * @returns the norm before.
   * @throws UsageError for a `maxNorm` below 0, or where gradients are not reduced yet.
   */
  clipGradNorm(maxNorm: number): number {
    this.#checkReduced('clipGradNorm');
    return clipGradNorm(this.gradient, this.#reducer.usedRanges, maxNorm);
  }

  /**
   * Applies the averaged gradient with `optimizer` and gives the model its new parameters. Unused
   * parameters are left out.
   *
   * @param optimizer must change parameters by the same bits on every machine.
   * @throws UsageError where {@link noSync} has kept gradients that are not reduced yet: replicas
   *   would drift apart.
   */
  step(optimizer: Pick<Optimizer, 'apply'>): void {
    this.#checkReduced('step');
    const { usedRanges } = this.#reducer;
    if (usedRanges.length === 0) return;
    optimizer.apply(this.parameters, this.gradient, usedRanges);
    this.writeParameters();
  }

  /**
   * Gives the model {@link parameters}, after something other than {@link step} has changed them,
   * such as a model averager.
   */
  writeParameters(): void {
    writeVariables(this.#variables.parameters, this.layout.slots, this.parameters);
  }

  dispose(): void {
    this.#reducer.dispose();
    this.#buffers.dispose();
  }

  #createLayout(order?: readonly number[]): FlatLayout {
    const sizes = this.#variables.parameters.map(({ size }) => size);
    return createLayout(sizes, { ...this.#options, order });
  }

  /** Inside {@link join}: hears whether the others go on. */
  async #callRoll(active: boolean): Promise<Roll | null> {
    if (!this.#join) return null;
    const contributes = active || this.#reducer.hasPending;
    return this.#join.callRoll({ active, contributes, synchronises: !this.#isLocal });
  }

  #checkGraph({ used }: Gradients): void {
    if (!this.#graph) return;
    try {
      this.#graph.check(used, this.#variables.parameters, this.group.rank);
    } catch (error) {
      // The others would wait for this rank's gradients, which will not come.
      this.group.abort(asError(error));
      throw error;
    }
  }

  async #accumulate(local: LocalPass | null): Promise<OpenReduction> {
    const none = { traces: [], communicate: 0, exposed: 0 };
    if (!local) return { ...none, loss: 0, samples: 0, readback: 0, computedAt: this.#clock.now() };
    const { loss, computedAt } = await this.#reducer.accumulate(local);
    const { samples } = local;
    const mean = this.#options.average === 'ranks' ? loss : loss / samples;
    return { ...none, loss: mean, samples, readback: this.#clock.now() - computedAt, computedAt };
  }

  /** What all ranks do together in a step; one that has run dry, without a pass of its own. */
  async #synchronise(local: LocalPass | null, roll: Roll | null, totalSamples?: number): Promise<OpenReduction> {
    const { average, broadcastBuffers } = this.#options;
    const { worldSize } = this.group;
    const ranks = this.#join?.divideByInitialWorldSize === false ? (roll?.contributors ?? worldSize) : worldSize;
    // A rank that has run dry inside `join` knows no total.
    const total = this.#join ? undefined : totalSamples;
    if (!this.#isOrdered) await this.#orderBuckets(local?.computed.readyOrder);
    const { flags, ...reduced } = await this.#reducer.reduce(local, broadcastBuffers ? this.#buffers.changes() : [], {
      ...(average === 'ranks' && { ranks }),
      ...(total !== undefined && { totalSamples: total }),
    });
    // As in PyTorch, rank 0's, or inside `join`, where it may have run dry, those of the highest
    // rank that has not.
    if (flags.some((changes) => changes > 0)) await this.#buffers.broadcast(roll?.active.at(-1) ?? 0, flags);
    this.#reducer.commit();
    return reduced;
  }

  /**
   * Lays parameters out in the order in which the first rank's gradients became ready, so that each
   * bucket is complete as early as can be. PyTorch does this after the first step, as its autograd
   * hooks tell the order while gradients are on their way already. TensorFlow.js's tape tells it
   * before anything is sent; and nothing has been applied yet, so the optimizer's averages are
   * still zero and need not be moved.
   */
  async #orderBuckets(order: readonly number[] | undefined): Promise<void> {
    this.#isOrdered = true;
    const all = await this.group.allGather(Float32Array.from(this.#variables.parameters, (_, i) => order?.[i] ?? -1));
    // A rank without samples has no order.
    const first = all.find(([parameter]) => parameter !== -1);
    if (!first) return;
    const before = this.layout;
    this.#reducer.relayout(this.#createLayout(Array.from(first)));
    rearrange(this.parameters, before, this.layout);
  }

  /** Gives all ranks the parameters and buffers of rank `src` of the group. */
  async #broadcastModel(src: number): Promise<void> {
    await this.group.broadcast(this.parameters, this.group.ranks[src]!);
    if (this.group.rank !== src) this.writeParameters();
    await this.#buffers.broadcast(src);
  }

  #checkReduced(what: string): void {
    if (!this.#reducer.hasPending) return;
    throw new UsageError(
      `${what} was called while gradients of noSync wait for the other ranks': call backward outside noSync first.`,
    );
  }
}
