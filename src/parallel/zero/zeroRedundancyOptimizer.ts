/**
 * `ZeroRedundancyOptimizer`: each rank has the optimizer's averages only for its own shard of the
 * parameters (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 * Models", 2020, stage 1; torch.distributed.optim.ZeroRedundancyOptimizer,
 * https://docs.pytorch.org/docs/stable/distributed.optim.html).
 *
 * For parameters of K bytes on n ranks, Adam's averages need 2K/n bytes on each rank instead of 2K.
 * A step of the optimizer takes 1/n of the time. Gradients are reduce-scattered and parameters
 * all-gathered, so a rank sends 2K(n-1)/n bytes, as many as in a ring all-reduce. Parameters have
 * the same bits as with DistributedDataParallel and the algorithm `ring`.
 */
import { checkSameOptimizer, type Optimizer, type OptimizerState } from '../../optim/optimizer.ts';
import { UsageError } from '../../util/errors.ts';
import type { ElementRange } from '../../util/range.ts';
import { optimizerOf, type TensorflowOptimizer } from '../flat/optimizerOf.ts';
import { createFlatLayout, rearrangeParameters, type FlatLayout } from '../flat/buckets.ts';
import type { DistributedDataParallel } from '../ddp/distributedDataParallel.ts';
import { clipShards } from './clipShards.ts';
import { intersectRanges, packRanges, totalRangeLength, rangesWithinShard } from '../ddp/ranges.ts';

/**
 * Divides the optimizer's averages among ranks (torch: `ZeroRedundancyOptimizer`).
 *
 * @example
 * ```ts
 * const ddp = await DistributedDataParallel.create(model, group);
 * const zero = new ZeroRedundancyOptimizer(ddp, tf.train.adam(0.01));
 * const loss = () => tf.losses.meanSquaredError(ys, model.apply(xs) as tf.Tensor).asScalar();
 * await ddp.backward(loss, { samples: xs.shape[0] });
 * await zero.step(); // instead of ddp.step
 * ```
 */
export class ZeroRedundancyOptimizer {
  readonly #ddp: DistributedDataParallel;
  readonly #create: (size: number) => Optimizer;
  /**
   * The optimizer of this rank's shard, with the layout and the shard for which it was created;
   * `null` before the first step.
   */
  #own: { optimizer: Optimizer; layout: FlatLayout; shard: readonly ElementRange[]; isOrdered: boolean } | null = null;
  #consolidated: OptimizerState | null = null;
  /** A state that was loaded before ranks agreed on the order of the parameters. */
  #loaded: OptimizerState | null = null;

  /**
   * From now on, `ddp.backward` reduces shards. Call it on every rank, with the same optimizer.
   *
   * @param optimizer an optimizer of TensorFlow.js, such as `tf.train.adam(1e-3)`, or a function
   *   that creates an optimizer for a number of elements.
   * @throws UsageError if `ddp` has a hook.
   */
  constructor(ddp: DistributedDataParallel, optimizer: TensorflowOptimizer | ((size: number) => Optimizer)) {
    ddp.shardGradients();
    this.#ddp = ddp;
    this.#create = typeof optimizer === 'function' ? optimizer : (size) => optimizerOf(optimizer, size);
  }

  /** Number of elements of this rank's shard. */
  get shardSize(): number {
    return totalRangeLength(this.#ddp.shards.own);
  }

  /**
   * The optimizer of this rank's shard, for its learning rate. Read it after the first backward.
   */
  get localOptimizer(): Optimizer {
    return this.#shard().optimizer;
  }

  /**
   * Scales the averaged gradient of all ranks down to an L2 norm of at most `maxNorm`. Call it
   * between `backward` and {@link step}, on every rank.
   *
   * @returns the norm before clipping. It equals the norm of `ddp.clipGradNorm`, except for
   *   rounding in float64.
   */
  async clipGradNorm(maxNorm: number): Promise<number> {
    const { gradient, group, usedRanges } = this.#ddp;
    return clipShards(group, gradient, intersectRanges(this.#shard().shard, usedRanges), maxNorm);
  }

  /**
   * Updates this rank's shard and receives the shards of all other ranks. Every rank must call it
   * after `backward`.
   *
   * @throws (rejects) UsageError if gradients of `noSync` are not reduced yet; errors of
   *   collectives: the averages are then one step ahead of the parameters.
   */
  async step(): Promise<void> {
    const ddp = this.#ddp;
    const { usedRanges } = ddp;
    const { optimizer, shard } = this.#shard();
    const values = packRanges(ddp.parameters, shard);
    // If no parameter was used, the step does not count, as in `ddp.step`.
    if (usedRanges.length > 0)
      optimizer.apply(values, packRanges(ddp.gradient, shard), rangesWithinShard(shard, usedRanges));
    ddp.setShards(await ddp.shards.allGather(values));
  }

  /**
   * Gathers the averages of all shards on rank `to` of the group, for {@link stateDict}. Every rank
   * must call it (torch: `consolidate_state_dict`).
   */
  async consolidateStateDict(to = 0): Promise<void> {
    const { name, scalars, slots } = this.#shard().optimizer.state();
    const whole = await this.#ddp.shards.gather(slots, to);
    for (const slot of whole ?? []) rearrangeParameters(slot, this.#ddp.layout, this.#stateLayout);
    this.#consolidated = whole && { name, scalars: scalars.slice(), slots: whole };
  }

  /**
   * Returns the state of the whole optimizer, as it was when {@link consolidateStateDict} was
   * called. Its arrays follow the order of the model's trainable weights, from the last to the
   * first. The order of `ddp.layout` is different if a weight was not used in the first backward.
   *
   * @throws UsageError on ranks on which the state was not consolidated.
   */
  stateDict(): OptimizerState {
    if (this.#consolidated) return this.#consolidated;
    const { ranks, rank } = this.#ddp.group;
    throw new UsageError(
      `Rank ${ranks[rank]} has only its shard of the optimizer's averages. Call consolidateStateDict on every rank, and stateDict on the rank that it names.`,
    );
  }

  /**
   * Takes this rank's shard of the state of a whole optimizer, in the order of {@link stateDict}.
   * It may be called before the first backward. Every rank must call it.
   *
   * @throws MismatchError if the state belongs to a different optimizer or model.
   */
  loadStateDict(state: OptimizerState): void {
    const { optimizer, shard } = this.#shard();
    const own = optimizer.state();
    const { size } = this.#ddp.layout;
    checkSameOptimizer({ ...own, slots: own.slots.map(() => new Float32Array(size)) }, state);
    const { name, scalars, slots } = state;
    optimizer.load(this.#partOf(state, shard));
    // Until ranks agree on the order of the parameters, the state is kept. Their agreement changes
    // the shard, so the shard's averages are then taken from the state again.
    if (this.#ddp.isOrdered) this.#loaded = null;
    else this.#loaded = { name, scalars: scalars.slice(), slots: slots.map((slot) => slot.slice()) };
  }

  /** The layout before the first backward, whose order may differ from that of other runs. */
  get #stateLayout(): FlatLayout {
    return createFlatLayout(
      this.#ddp.layout.slots.toSorted((a, b) => a.parameter - b.parameter).map(({ size }) => size),
    );
  }

  /** Returns the part of a whole optimizer's state that belongs to a shard. */
  #partOf({ slots, ...head }: OptimizerState, shard: readonly ElementRange[]): OptimizerState {
    const whole = slots.map((slot) => slot.slice());
    for (const slot of whole) rearrangeParameters(slot, this.#stateLayout, this.#ddp.layout);
    return { ...head, slots: whole.map((slot) => packRanges(slot, shard)) };
  }

  /** Ranks agree on the layout in the first backward, so the shard is known only afterwards. */
  #shard(): { optimizer: Optimizer; shard: readonly ElementRange[] } {
    const { layout, shards, isOrdered } = this.#ddp;
    const { own: shard } = shards;
    let own = this.#own;
    if (!own || (own.layout !== layout && !own.isOrdered)) {
      const optimizer = this.#create(totalRangeLength(shard));
      const loaded = this.#loaded;
      if (loaded) optimizer.load(this.#partOf(loaded, shard));
      if (own) optimizer.learningRate = own.optimizer.learningRate;
      own = { optimizer, layout, shard, isOrdered };
      this.#own = own;
    }
    if (isOrdered) {
      own.isOrdered = true;
      this.#loaded = null;
    }
    if (own.layout === layout) return own;
    throw new UsageError(
      'The layout of the parameters has changed after the first step, so the averages belong to other elements. Create the ' +
        'ZeroRedundancyOptimizer again.',
    );
  }
}
