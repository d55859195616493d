/**
 * The language model: a decoder-only transformer like GPT-2 (Radford et al., "Language Models are
 * Unsupervised Multitask Learners", 2019), with simplifications of later models: RMS normalization
 * (Zhang and Sennrich, 2019) before each sublayer, and linear layers without biases. The embedding
 * and the output layer share one matrix (Press and Wolf, "Using the Output Embedding to Improve
 * Language Models", 2017).
 *
 * Its layers are ops of `src/kernels`: kernels of their own on WebGPU, otherwise composed of ops of
 * TensorFlow.js that have gradients on every backend. There, tokens are embedded by a matrix
 * product with one-hot rows, which costs as much as the output layer: the gradient of
 * TensorFlow.js's `gather` does not exist on wasm and adds floats in an undefined order.
 */
import * as tf from '@tensorflow/tfjs';
import { causalAttention, causalMask } from '../../kernels/attention/causalAttention.ts';
import { embed } from '../../kernels/embedding.ts';
import { linear } from '../../kernels/linear.ts';
import { rmsNorm } from '../../kernels/rmsNorm.ts';
import { createRng, mixSeed } from '../../util/rng.ts';
import { EXPANSION, shapesOf, type NetworkSize } from './shapes.ts';

/** Added to mean squares to avoid a division by zero. */
export const NORM_EPSILON = 1e-5;
/**
 * Initial standard deviation of the shared matrix and of the position embeddings. It is small, so
 * that at first all tokens are about equally likely.
 */
const EMBEDDING_DEVIATION = 0.02;
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
  /** See {@link causalMask}. */
  readonly #causalMask: tf.Tensor;

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
    this.#causalMask = causalMask(size.context);
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
    const { vocabulary, heads } = this.size;
    return tf.tidy(() => {
      let place = 0;
      const nextMask = (): tf.Tensor | undefined => masks?.[place++];
      let x: tf.Tensor = embed(tokens, this.#embedding, this.#positions, nextMask());
      for (const { norm1, attend, project, norm2, expand, contract } of this.#layers) {
        const qkv = linear(rmsNorm(x, norm1, NORM_EPSILON), attend);
        const attended = causalAttention(qkv as tf.Tensor3D, heads, this.#causalMask);
        x = linear(attended, project, { mask: nextMask(), residual: x });
        const inner = linear(rmsNorm(x, norm2, NORM_EPSILON), expand, { activation: 'relu' });
        x = linear(inner, contract, { mask: nextMask(), residual: x });
      }
      const logits = linear(rmsNorm(x, this.#norm, NORM_EPSILON), this.#embedding, { transposeWeights: true });
      return logits.reshape([-1, vocabulary]);
    });
  }

  dispose(): void {
    tf.dispose([...this.variables, this.#causalMask]);
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
