/**
 * Gradients of a model with SyncBatchNormalization layers. A layer's `call` and the backward pass
 * of TensorFlow.js are synchronous, but statistics cross the network. Therefore the model runs in
 * stages (`stages.ts`). Each stage is recorded on its own tape (`tape.ts`). Between two stages
 * there is one collective in the forward pass and one in the backward pass.
 *
 * In the forward pass the ranks gather mean, variance and count per channel. For the backward pass,
 * let L be the sum over ranks of their scaled losses, y = gamma (x - m) / s + beta, s =
 * sqrt(variance + epsilon), and N the elements of a channel on all ranks (Ioffe and Szegedy, Batch
 * Normalization, 2015, section 3):
 *
 * dL/dx = gamma / s (dy - sum(dy) / N - (x - m) / s^2 sum(dy (x - m)) / N)
 *
 * The gradient of L with respect to a rank's y is the gradient of that rank's own scaled loss. So
 * only the two sums cross the network. The gradients of the variables are this rank's part: their
 * sum over all ranks is the gradient of L.
 */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { UsageError } from '../../util/errors.ts';
import { createFlatLayout } from '../flat/buckets.ts';
import {
  readVariables,
  TensorReader,
  writeVariables,
  type ComputedGradients,
  type Model,
  type Scalar,
  type Tensor,
  type Variable,
} from './flatten.ts';
import { mergeChannelMoments, type ChannelMoments } from './moments.ts';
import {
  cutAtSyncBatchNorm,
  type SyncBatchNormStage,
  type SyncBatchNormModel,
  type SyncBatchNormCall,
} from './stages.ts';
import { differentiateTape, disposeTape, recordTape, type Tape } from './tape.ts';

/**
 * Differentiates a pass through a model with SyncBatchNormalization layers. Every rank of the group
 * must call it; all ranks issue the same collectives, two for each stage except the last.
 *
 * @param inputs one tensor for each input of the model. On a rank without samples, the first
 *   dimension is 0.
 * @throws (rejects) UsageError for masks; errors of {@link cutAtSyncBatchNorm} and of collectives.
 */
export async function stagedGradientsOf(
  model: Model,
  { inputs, loss }: { inputs: readonly Tensor[]; loss: LossOf },
  variables: readonly Variable[],
  scale: number,
  group: ProcessGroup,
): Promise<ComputedGradients> {
  const pass = new StagedPass(cutAtSyncBatchNorm(model), group, inputs);
  try {
    return await pass.run(loss, variables, scale);
  } finally {
    pass.dispose();
  }
}

type LossOf = (outputs: tf.Tensor[]) => Scalar;

class StagedPass {
  readonly #staged: SyncBatchNormModel;
  readonly #group: ProcessGroup;
  /**
   * Whether this rank has no samples. It then runs no kernel, because backends differ on empty
   * tensors, and only takes part in the collectives.
   */
  readonly #isEmpty: boolean;
  /**
   * Tensors that outlive their stage. The key is the number of the value (see `GraphLayerCall`).
   */
  readonly #values = new Map<number, tf.Tensor>();
  readonly #tapes = new Map<SyncBatchNormStage, Tape>();
  /** For each layer call: the moments of all ranks' samples. */
  readonly #moments = new Map<SyncBatchNormCall, ChannelMoments>();
  /**
   * For each tensor id of a value or variable, the sum of the gradients found so far. The entries
   * are in the order of their last addition.
   */
  readonly #gradients = new Map<number, tf.Tensor>();
  readonly #reader = new TensorReader();
  /** The scaled loss, until it is part of the result. `null` on a rank without samples. */
  #loss: Scalar | null = null;

  constructor(staged: SyncBatchNormModel, group: ProcessGroup, inputs: readonly tf.Tensor[]) {
    this.#staged = staged;
    this.#group = group;
    this.#isEmpty = isEmpty(inputs);
    if (this.#isEmpty) return;
    // `cast` returns another tensor of the same data even if the type stays the same. This tensor
    // is disposed of like other values; the caller's input is not.
    for (const [value, input] of inputs.entries()) this.#values.set(value, input.cast(staged.dtypes[value]!));
  }

  async run(loss: LossOf, variables: readonly Variable[], scale: number): Promise<ComputedGradients> {
    const { stages } = this.#staged;
    for (const stage of stages) {
      if (!this.#isEmpty) this.#compute(stage);
      if (stage.syncs.length > 0) await this.#normalize(stage.syncs);
    }
    if (!this.#isEmpty) this.#differentiateLoss(loss, variables, scale);
    for (const stage of stages.toReversed()) {
      if (stage.syncs.length > 0) await this.#differentiateNormalized(stage.syncs);
      if (!this.#isEmpty) this.#differentiateComputed(stage, variables);
    }
    await this.#updateMovingAverages();
    const result = takeGradients(this.#loss ?? tf.scalar(0), variables, this.#gradients);
    this.#loss = null;
    return result;
  }

  dispose(): void {
    for (const tape of this.#tapes.values()) disposeTape(tape);
    tf.dispose([...this.#values.values(), ...this.#gradients.values()]);
    this.#loss?.dispose();
    this.#reader.dispose();
  }

  #compute(stage: SyncBatchNormStage): void {
    const { result, tape } = recordTape(() => {
      const values = new Map(this.#values);
      for (const { layer, inputs, outputs } of stage.calls) {
        const results = applyLayer(
          layer,
          inputs.map((value) => values.get(value)!),
        );
        for (const [i, value] of outputs.entries()) {
          const output = results[i]!;
          const dtype = this.#staged.dtypes[value]!;
          values.set(value, output.dtype === dtype ? output : output.cast(dtype));
        }
      }
      return stage.keeps.map((value) => values.get(value)!);
    });
    this.#tapes.set(stage, tape);
    for (const [i, value] of stage.keeps.entries()) this.#values.set(value, result[i]!);
  }

  async #normalize(syncs: readonly SyncBatchNormCall[]): Promise<void> {
    // First the means and variances of each layer call; then, for each call, the number of elements
    // per channel.
    const size = pairsSize(syncs);
    const own = new Float32Array(size + syncs.length);
    if (!this.#isEmpty) {
      const moments = tf.tidy(() =>
        syncs.flatMap(({ layer, input }) => {
          const x = this.#values.get(input)!;
          const { mean, variance } = tf.moments(x, layer.reducedAxes(x));
          return [mean, variance];
        }),
      );
      await this.#read(moments, own.subarray(0, size));
      for (const [i, { layer, input }] of syncs.entries()) {
        own[size + i] = this.#values.get(input)!.size / layer.channels;
      }
    }
    const gathered = await this.#group.allGather(own);
    const byRank = gathered.map((all) => splitPairs(syncs, all));
    for (const [i, sync] of syncs.entries()) {
      const { layer, input, output } = sync;
      const { count, mean, variance } = mergeChannelMoments(
        byRank.map((pairs, rank) => ({
          count: gathered[rank]![size + i]!,
          mean: pairs[i]![0],
          variance: pairs[i]![1],
        })),
      );
      this.#moments.set(sync, { count, mean, variance });
      if (this.#isEmpty) continue;
      const x = this.#values.get(input)!;
      const y = tf.tidy(() => layer.normalize(x, tf.tensor1d(mean), tf.tensor1d(variance)));
      this.#values.set(output, y);
    }
  }

  #differentiateLoss(loss: LossOf, variables: readonly Variable[], scale: number): void {
    const outputs = this.#staged.outputs.map((value) => this.#values.get(value)!);
    const { result, tape } = recordTape(() => loss(outputs).mul<Scalar>(scale));
    this.#loss = result;
    this.#gradients.set(result.id, tf.scalar(1));
    this.#differentiate(tape, [result], [...new Set(outputs), ...variables]);
  }

  /**
   * Computes the gradients of the layers' inputs, and those of gamma and beta, from the gradients
   * of the layers' outputs.
   */
  async #differentiateNormalized(syncs: readonly SyncBatchNormCall[]): Promise<void> {
    // For each layer call, the two sums of the formula above: sum(dy) and sum(dy (x - m)).
    const sums = new Float32Array(pairsSize(syncs));
    if (!this.#isEmpty) {
      const own = tf.tidy(() =>
        syncs.flatMap((sync) => {
          const { dy, centred } = this.#termsOf(sync);
          const axes = sync.layer.reducedAxes(dy);
          return [dy.sum(axes), dy.mul(centred).sum(axes)];
        }),
      );
      await this.#read(own, sums);
    }
    const own = splitPairs(syncs, sums.slice());
    const all = splitPairs(syncs, await this.#group.allReduce(sums));
    if (this.#isEmpty) return;
    for (const [i, sync] of syncs.entries()) {
      const { layer, input, output } = sync;
      const { count, variance } = this.#moments.get(sync)!;
      const deviation = variance.map((value) => Math.sqrt(value + layer.epsilon));
      const [ownSum, ownProduct] = own[i]!;
      const [sum, product] = all[i]!;
      const gammaGradient = ownProduct.map((value, channel) => value / deviation[channel]!);
      if (layer.gamma) this.#addGradient(layer.gamma.read(), tf.tensor1d(gammaGradient));
      if (layer.beta) this.#addGradient(layer.beta.read(), tf.tensor1d(ownSum));
      const dx = tf.tidy(() => {
        const { dy, centred } = this.#termsOf(sync);
        const along = (perChannel: Float32Array): tf.Tensor => layer.alongAxis(dy, tf.tensor1d(perChannel));
        const mean = along(sum.map((value) => value / count));
        const slope = along(product.map((value, channel) => value / ((variance[channel]! + layer.epsilon) * count)));
        const unscaled = dy.sub(mean).sub(centred.mul(slope)).div(along(deviation));
        return layer.gamma ? unscaled.mul(layer.alongAxis(dy, layer.gamma.read())) : unscaled;
      });
      this.#dropGradient(this.#values.get(output)!);
      this.#addGradient(this.#values.get(input)!, dx);
    }
  }

  /** Returns dy and x - m of the formula above. Call it within a tidy. */
  #termsOf(sync: SyncBatchNormCall): { dy: tf.Tensor; centred: tf.Tensor } {
    const x = this.#values.get(sync.input)!;
    const y = this.#values.get(sync.output)!;
    const centred = x.sub(sync.layer.alongAxis(x, tf.tensor1d(this.#moments.get(sync)!.mean)));
    // If the loss does not depend on this layer, no gradient of its output was computed. Zeros
    // replace that gradient.
    return { dy: this.#gradients.get(y.id) ?? tf.zerosLike(y), centred };
  }

  #differentiateComputed(stage: SyncBatchNormStage, variables: readonly Variable[]): void {
    const outputs = stage.keeps.map((value) => this.#values.get(value)!);
    const reads = stage.reads.map((value) => this.#values.get(value)!);
    this.#differentiate(this.#tapes.get(stage)!, outputs, [...reads, ...variables]);
  }

  /**
   * Back-propagates the gradients of `outputs` through one tape, and adds the results to the
   * gradients of `xs`.
   */
  #differentiate(tape: Tape, outputs: readonly tf.Tensor[], xs: readonly tf.Tensor[]): void {
    const known = outputs.flatMap((tensor) => {
      const gradient = this.#gradients.get(tensor.id);
      return gradient ? [{ tensor, gradient }] : [];
    });
    for (const [i, gradient] of differentiateTape(tape, known, xs).entries()) {
      if (gradient) this.#addGradient(xs[i]!, gradient);
    }
    for (const { tensor } of known) this.#dropGradient(tensor);
  }

  #addGradient({ id }: tf.Tensor, part: tf.Tensor): void {
    const sum = this.#gradients.get(id);
    this.#gradients.delete(id);
    this.#gradients.set(id, sum ? sum.add(part) : part);
    if (sum) tf.dispose([sum, part]);
  }

  /** Disposes of the gradient of a value after its last use. */
  #dropGradient({ id }: tf.Tensor): void {
    this.#gradients.get(id)?.dispose();
    this.#gradients.delete(id);
  }

  /** Reads tensors and disposes of them. */
  async #read(tensors: tf.Tensor[], into: Float32Array): Promise<void> {
    try {
      await this.#reader.read(0, tensors, into);
    } finally {
      tf.dispose(tensors);
    }
  }

  /**
   * Updates the moving averages as TensorFlow.js's layer does: with the biased variance, and once
   * for each call of a shared layer.
   */
  async #updateMovingAverages(): Promise<void> {
    const calls = this.#staged.syncs;
    // One call for each layer, even if the layer is shared.
    const layers = Array.from(new Map(calls.map((call) => [call.layer, call])).values());
    const averages = layers.flatMap(({ layer }) => [layer.movingMean, layer.movingVariance]);
    const variables = averages.map((average) => average.read() as Variable);
    const { slots } = createFlatLayout(
      variables.map(({ size }) => size),
      { order: [...variables.keys()] },
    );
    const flat = new Float32Array(pairsSize(layers));
    await readVariables(variables, slots, flat);
    const pairs = new Map(splitPairs(layers, flat).map((pair, i) => [layers[i]!.layer, pair]));
    for (const call of calls) {
      const { count, mean, variance } = this.#moments.get(call)!;
      if (count === 0) continue;
      const [movingMean, movingVariance] = pairs.get(call.layer)!;
      blend(movingMean, mean, call.layer.momentum);
      blend(movingVariance, variance, call.layer.momentum);
    }
    writeVariables(variables, slots, flat);
  }
}

function isEmpty(inputs: readonly tf.Tensor[]): boolean {
  return inputs[0]!.shape[0] === 0;
}

/**
 * Applies a layer as TensorFlow.js's executor does, but without masks, which would have to pass
 * from stage to stage.
 */
function applyLayer(layer: tf.layers.Layer, inputs: tf.Tensor[]): tf.Tensor[] {
  const outputs = [layer.apply(inputs, { training: true }) as tf.Tensor | tf.Tensor[]].flat();
  if (layer.supportsMasking && [layer.computeMask(inputs)].flat().some(Boolean)) {
    throw new UsageError(
      `The layer "${layer.name}" creates a mask, but a model with SyncBatchNormalization layers does not support masks. ` +
        'Use BatchNormalization, or train without the mask.',
    );
  }
  return outputs;
}

/**
 * Removes the gradients of `variables` from `all` and returns them. The entries of `all` are in the
 * order in which the gradients became ready.
 */
function takeGradients(loss: Scalar, variables: readonly Variable[], all: Map<number, tf.Tensor>): ComputedGradients {
  const used = variables.map(({ id }) => all.has(id));
  const indices = new Map(variables.map(({ id }, i) => [id, i]));
  const readyOrder = [
    ...Array.from(all.keys()).flatMap((id) => indices.get(id) ?? []),
    ...[...used.keys()].filter((i) => !used[i]),
  ];
  const gradients = variables.map((variable) => all.get(variable.id) ?? tf.zerosLike(variable));
  for (const { id } of variables) all.delete(id);
  return { value: loss, gradients, used, readyOrder, dispose: () => tf.dispose([loss, gradients]) };
}

type LayerOf = Pick<SyncBatchNormCall, 'layer'>;

/**
 * Returns the length of the array for {@link splitPairs}: two values per channel for each layer
 * call.
 */
function pairsSize(calls: readonly LayerOf[]): number {
  return calls.reduce((size, { layer }) => size + 2 * layer.channels, 0);
}

/** Returns two views of `flat` for each layer call. A view has one value per channel. */
function splitPairs(calls: readonly LayerOf[], flat: Float32Array): (readonly [Float32Array, Float32Array])[] {
  let at = 0;
  return calls.map(({ layer: { channels } }) => {
    at += 2 * channels;
    return [flat.subarray(at - 2 * channels, at - channels), flat.subarray(at - channels, at)] as const;
  });
}

function blend(average: Float32Array, value: Float32Array, momentum: number): void {
  for (let i = 0; i < average.length; i++) average[i]! -= (average[i]! - value[i]!) * (1 - momentum);
}
