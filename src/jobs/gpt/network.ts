/**
 * The language model: a decoder-only transformer like GPT-2 (Radford et al., "Language Models are
 * Unsupervised Multitask Learners", 2019), with simplifications of later models: RMS normalization
 * (Zhang and Sennrich, 2019) before each sublayer, and linear layers without biases. The embedding
 * and the output layer share one matrix (Press and Wolf, "Using the Output Embedding to Improve
 * Language Models", 2017).
 *
 * It only uses ops that have gradients on WebGPU (matMul, slices by `split`, relu, reductions).
 * Tokens are embedded by a matrix product with one-hot rows, which costs as much as the output
 * layer. `gather` is not used, because its gradient does not exist on wasm and adds floats in an
 * undefined order.
 */
import * as tf from '@tensorflow/tfjs';
import { createRng, mixSeed } from '../../util/rng.ts';
import { EXPANSION, shapesOf, type NetworkSize } from './shapes.ts';

/** Added to mean squares to avoid a division by zero. */
export const NORM_EPSILON = 1e-5;
/**
 * Initial standard deviation of the shared matrix and of the position embeddings. It is small, so
 * that at first all tokens are about equally likely.
 */
const EMBEDDING_DEVIATION = 0.02;
/** Score of masked positions. -Infinity would become NaN when it is subtracted from itself. */
const MASKED = -1e9;

/** Names of a layer's variables, in the order of their use. */
const LAYER_WEIGHTS = ['norm1', 'attend', 'project', 'norm2', 'expand', 'contract'] as const;
type LayerWeights = Record<(typeof LAYER_WEIGHTS)[number], tf.Variable>;

/**
 * Dropout masks of a forward pass, one for each position in the network at which dropout is
 * applied. A mask is float32 [batch, 1, width]; its elements are 0 or 1 / (1 - dropout).
 */
type DropoutMasks = readonly tf.Tensor[];

/**
 * Returns the number of positions in the network at which dropout is applied: after the embedding,
 * and after both sublayers of each layer.
 */
export function dropoutPlaces({ layers }: Pick<NetworkSize, 'layers'>): number {
  return 1 + 2 * layers;
}

export class Network {
  readonly size: NetworkSize;
  /** Name of each variable: `layer/weight`. */
  readonly names: readonly string[];
  /**
   * Variables in the order in which the forward pass uses them. For their shapes, see
   * {@link shapesOf}.
   */
  readonly variables: readonly tf.Variable[];
  readonly #embedding: tf.Variable;
  readonly #positions: tf.Variable;
  readonly #layers: readonly LayerWeights[];
  readonly #norm: tf.Variable;
  /** [context, context]: 0 for visible positions, otherwise {@link MASKED}. */
  readonly #mask: tf.Tensor;

  /**
   * Creates the network. The initial weights of normalizations are 1. All other weights are
   * uniformly distributed and depend only on the seed and the index of the variable, so they are
   * the same on every machine.
   */
  constructor(size: NetworkSize, seed: number) {
    this.size = size;
    this.names = namesOf(size);
    const shapes = shapesOf(size);
    const deviations = deviationsOf(size);
    this.variables = shapes.map((shape, i) => createVariable(shape, deviations[i]!, mixSeed(seed, i)));
    const [embedding, positions, ...rest] = this.variables;
    this.#embedding = embedding!;
    this.#positions = positions!;
    this.#layers = Array.from({ length: size.layers }, (_, layer) => {
      const own = rest.slice(layer * LAYER_WEIGHTS.length, (layer + 1) * LAYER_WEIGHTS.length);
      return Object.fromEntries(LAYER_WEIGHTS.map((name, i) => [name, own[i]])) as LayerWeights;
    });
    this.#norm = rest.at(-1)!;
    const { context } = size;
    const mask = Float32Array.from({ length: context * context }, (_, at) =>
      at % context > Math.floor(at / context) ? MASKED : 0,
    );
    this.#mask = tf.tensor2d(mask, [context, context]);
  }

  /**
   * Returns, for each token, the logits of the token that follows it, computed from this token and
   * all earlier tokens. The function is differentiable. The caller must dispose the result or call
   * this in a tidy.
   *
   * @param tokens int32 [batch, context]
   * @param masks one for each of the {@link dropoutPlaces}. If `null`, nothing is dropped.
   * @returns float32 [batch * context, vocabulary]
   */
  logits(tokens: tf.Tensor2D, masks: DropoutMasks | null = null): tf.Tensor2D {
    const { width, context, vocabulary } = this.size;
    return tf.tidy(() => {
      // On wasm, oneHot returns integers even if float32 is requested.
      const rows = tf.cast(tf.oneHot(tokens.flatten(), vocabulary), 'float32').as2D(-1, vocabulary);
      const looked = tf.matMul(rows, this.#embedding).reshape<tf.Tensor3D>([-1, context, width]);
      let place = 0;
      const drop = (x: tf.Tensor): tf.Tensor => (masks === null ? x : x.mul(masks[place++]!));
      let x = drop(looked.add(this.#positions));
      for (const layer of this.#layers) {
        x = x.add(drop(this.#attend(normalize(x, layer.norm1), layer)));
        x = x.add(drop(this.#feedForward(normalize(x, layer.norm2), layer)));
      }
      return tf.matMul(this.#flat(normalize(x, this.#norm)), this.#embedding, false, true);
    });
  }

  dispose(): void {
    tf.dispose([...this.variables, this.#mask]);
  }

  /** Causal self-attention. */
  #attend(x: tf.Tensor, { attend, project }: LayerWeights): tf.Tensor {
    const { width, heads, context } = this.size;
    const depth = width / heads;
    const all = tf.matMul(this.#flat(x), attend).reshape<tf.Tensor4D>([-1, context, 3 * heads, depth]);
    const [queries, keys, values] = tf.split(all.transpose([0, 2, 1, 3]), 3, 1);
    const scores = tf.matMul(queries!.mul(1 / Math.sqrt(depth)), keys!, false, true).add(this.#mask);
    // tf.softmax returns wrong results on WebGPU for more than 65 536 rows.
    const taken = tf.matMul(tf.exp(tf.logSoftmax(scores)), values!);
    const together = taken.transpose([0, 2, 1, 3]).reshape<tf.Tensor2D>([-1, width]);
    return tf.matMul(together, project).reshape(x.shape);
  }

  /** The feed-forward sublayer. */
  #feedForward(x: tf.Tensor, { expand, contract }: LayerWeights): tf.Tensor {
    const inner = tf.relu(tf.matMul(this.#flat(x), expand));
    return tf.matMul(inner, contract).reshape(x.shape);
  }

  #flat(x: tf.Tensor): tf.Tensor2D {
    return x.reshape([-1, this.size.width]);
  }
}

function namesOf({ layers }: NetworkSize): string[] {
  const blocks = Array.from({ length: layers }, (_, layer) =>
    LAYER_WEIGHTS.map((name) => `layer${layer + 1}.${name}/weight`),
  );
  return ['embedding/weight', 'positions/weight', ...blocks.flat(), 'norm/weight'];
}

/**
 * Returns the standard deviation of each variable's initial weights, or `null` if all its weights
 * are 1. In deeper networks, projections whose result is added to the residual stream start with
 * smaller weights.
 */
function deviationsOf({ layers, width }: NetworkSize): (number | null)[] {
  const into = 1 / Math.sqrt(width);
  const added = into / Math.sqrt(2 * layers);
  const layer = [null, into, added, null, into, added / Math.sqrt(EXPANSION)];
  return [EMBEDDING_DEVIATION, EMBEDDING_DEVIATION, ...Array.from({ length: layers }, () => layer).flat(), null];
}

function createVariable(shape: number[], deviation: number | null, seed: number): tf.Variable {
  const rng = createRng(seed);
  // The standard deviation of a uniform distribution from -limit to limit is limit / sqrt(3).
  const limit = Math.sqrt(3) * (deviation ?? 0);
  const length = shape.reduce((product, side) => product * side, 1);
  const values = Float32Array.from({ length }, () => (deviation === null ? 1 : (2 * rng.next() - 1) * limit));
  return tf.tidy(() => tf.variable(tf.tensor(values, shape)));
}

/**
 * RMS normalization: divides each position's channels by the root of their mean square, and scales
 * them.
 */
function normalize(x: tf.Tensor, scale: tf.Variable): tf.Tensor {
  const meanSquare = tf.mean(tf.square(x), -1, true);
  return x.mul(tf.rsqrt(meanSquare.add(NORM_EPSILON))).mul(scale);
}
