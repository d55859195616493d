/** The layers of the language model. */
import * as tf from '@tensorflow/tfjs';
import { causalAttention, causalMask } from '../../gpu/kernels/attention/causalAttention.ts';
import { embedTokens } from '../../gpu/kernels/embedding.ts';
import { linear } from '../../gpu/kernels/linear.ts';
import { rmsNorm, rmsNormResidual } from '../../gpu/kernels/rmsNorm.ts';
import { createRng, mixSeed } from '../../util/rng.ts';
import { elementCountOf } from '../../util/shape.ts';
import type { DropoutMaskOfPlace, ModelLayer } from '../models/modelLayer.ts';
import type { TensorEntry } from '../../formats/weights/namedTensor.ts';
import {
  gptInitialDeviations,
  BLOCK_WEIGHT_NAMES,
  gptWeightNames,
  RMS_NORM_EPSILON,
  gptWeightShapes,
  type GptNetworkSize,
} from './shapes.ts';

/**
 * A layer of the network. The input of the first layer is int32 [batch, context]. Dropout masks are
 * float32 [batch, 1, width].
 */
export interface GptNetworkLayer extends ModelLayer {
  /** The variables. There are none before `build` and after `dispose`. */
  readonly weights: readonly tf.Variable[];
}

/** Computes a layer from its built variables. */
type Compute = (x: tf.Tensor, weights: readonly tf.Variable[], masks: DropoutMaskOfPlace) => tf.Tensor;

/**
 * Returns the layers of a network: the embedding, an attention layer and a feed-forward layer for
 * each block, and the last normalization. {@link logitsOfHidden} computes the logits from the
 * output of the last layer and the embedding's matrix.
 */
export function gptNetworkLayers(size: GptNetworkSize, seed: number): GptNetworkLayer[] {
  const mask = new SharedMask(size.context);
  const perBlock = BLOCK_WEIGHT_NAMES.length / 2;
  const blocks = Array.from({ length: size.layers }, (_, block) => {
    const first = 2 + 2 * perBlock * block;
    const place = 1 + 2 * block;
    const attention: Compute = (x, [norm, attend, project], masks) => {
      const [normed, passed] = rmsNormResidual(x, norm!, RMS_NORM_EPSILON);
      const qkv = linear(normed, attend!);
      const attended = causalAttention(qkv as tf.Tensor3D, size.heads, mask.tensor);
      return linear(attended, project!, { mask: masks?.(place), residual: passed });
    };
    const feedForward: Compute = (x, [norm, expand, contract], masks) => {
      const [normed, passed] = rmsNormResidual(x, norm!, RMS_NORM_EPSILON);
      const inner = linear(normed, expand!, { activation: 'relu' });
      return linear(inner, contract!, { mask: masks?.(place + 1), residual: passed });
    };
    return [
      new Layer(`layer${block + 1}.attention`, size, seed, first, perBlock, attention, mask),
      new Layer(`layer${block + 1}.feedForward`, size, seed, first + perBlock, perBlock, feedForward),
    ];
  });
  const last = gptWeightNames(size).length - 1;
  return [
    new Layer('embedding', size, seed, 0, 2, embedding),
    ...blocks.flat(),
    new Layer('norm', size, seed, last, 1, norm),
  ];
}

/**
 * Returns float32 [batch * context, vocabulary]: for each token, the logits of the token that
 * follows it.
 *
 * @param hidden output of the last layer, float32 [batch, context, width]
 * @param embedding float32 [vocabulary, width]
 */
export function logitsOfHidden(hidden: tf.Tensor, embedding: tf.Variable): tf.Tensor2D {
  return linear(hidden, embedding, { transposeWeights: true }).reshape([-1, embedding.shape[0] ?? 1]);
}

const embedding: Compute = (tokens, [table, positions], masks) =>
  embedTokens(tokens as tf.Tensor2D, table!, positions!, masks?.(0));

const norm: Compute = (x, [weights]) => rmsNorm(x, weights!, RMS_NORM_EPSILON);

class Layer implements GptNetworkLayer {
  readonly name: string;
  readonly outputShape: readonly number[];
  readonly size: number;
  readonly entries: readonly TensorEntry[];
  readonly #create: () => tf.Variable[];
  readonly #compute: Compute;
  readonly #mask: SharedMask | null;
  weights: readonly tf.Variable[] = [];

  /** @param first index of the layer's first variable in the network. */
  constructor(
    name: string,
    size: GptNetworkSize,
    seed: number,
    first: number,
    count: number,
    compute: Compute,
    mask: SharedMask | null = null,
  ) {
    const shapes = gptWeightShapes(size).slice(first, first + count);
    const deviations = gptInitialDeviations(size).slice(first, first + count);
    this.name = name;
    this.outputShape = [size.context, size.width];
    const names = gptWeightNames(size).slice(first, first + count);
    this.entries = shapes.map((shape, i) => ({ name: names[i]!, shape }));
    this.size = shapes.reduce((sum, shape) => sum + elementCountOf(shape), 0);
    this.#create = () => shapes.map((shape, i) => createVariable(shape, deviations[i]!, mixSeed(seed, first + i)));
    this.#compute = compute;
    this.#mask = mask;
  }

  build(): readonly tf.Variable[] {
    this.weights = this.#create();
    this.#mask?.acquire();
    return this.weights;
  }

  apply(x: tf.Tensor, { mask }: { mask: DropoutMaskOfPlace }): tf.Tensor {
    return this.#compute(x, this.weights, mask);
  }

  dispose(): void {
    if (this.weights.length === 0) return;
    tf.dispose([...this.weights]);
    this.weights = [];
    this.#mask?.release();
  }
}

/** The mask of all attention layers; see {@link causalMask}. */
class SharedMask {
  readonly #context: number;
  #tensor: tf.Tensor | null = null;
  #users = 0;

  constructor(context: number) {
    this.#context = context;
  }

  get tensor(): tf.Tensor {
    return this.#tensor!;
  }

  acquire(): void {
    this.#users += 1;
    this.#tensor ??= causalMask(this.#context);
  }

  release(): void {
    this.#users -= 1;
    if (this.#users > 0) return;
    this.#tensor?.dispose();
    this.#tensor = null;
  }
}

function createVariable(shape: number[], deviation: number | null, seed: number): tf.Variable {
  const rng = createRng(seed);
  // The standard deviation of a uniform distribution from -limit to limit is limit / sqrt(3).
  const limit = Math.sqrt(3) * (deviation ?? 0);
  const values = new Float32Array(elementCountOf(shape));
  for (let i = 0; i < values.length; i++) values[i] = deviation === null ? 1 : (2 * rng.next() - 1) * limit;
  return tf.tidy(() => tf.variable(tf.tensor(values, shape)));
}
