/**
 * The language model: a decoder-only transformer like GPT-2 (Radford et al., "Language Models are
 * Unsupervised Multitask Learners", 2019), with simplifications of later models: RMS normalization
 * (Zhang and Sennrich, 2019) before each sublayer, and linear layers without biases. The embedding
 * and the output layer share one matrix (Press and Wolf, "Using the Output Embedding to Improve
 * Language Models", 2017).
 *
 * Its layers are ops of `src/gpu/kernels`. On WebGPU, these are kernels of this project. Elsewhere,
 * they are composed of ops of TensorFlow.js that have gradients on every backend. With
 * TensorFlow.js's kernels on WebGPU, tokens are embedded by a matrix product with one-hot rows,
 * because the gradient of `gather` adds floats in an undefined order there. This product costs as
 * much as the output layer.
 */
import * as tf from '@tensorflow/tfjs';
import { logitsOfHidden, gptNetworkLayers, type GptNetworkLayer } from './layers.ts';
import { gptWeightNames, type GptNetworkSize } from './shapes.ts';

/**
 * Returns the number of positions in the network at which dropout is applied: one after the
 * embedding, and one after each of the two sublayers of each layer.
 */
export function gptDropoutPlaceCount({ layers }: Pick<GptNetworkSize, 'layers'>): number {
  return 1 + 2 * layers;
}

export class GptNetwork {
  readonly size: GptNetworkSize;
  /** Name of each variable: `layer/weight`. */
  readonly names: readonly string[];
  /**
   * Variables in the order in which the forward pass uses them. For their shapes, see
   * {@link gptWeightShapes}.
   */
  readonly variables: readonly tf.Variable[];
  readonly #layers: readonly GptNetworkLayer[];

  /**
   * Creates the network. The initial weights of normalizations are 1. All other weights are
   * uniformly distributed and depend only on the seed and the index of the variable, so they are
   * the same on every machine.
   */
  constructor(size: GptNetworkSize, seed: number) {
    this.size = size;
    this.names = gptWeightNames(size);
    this.#layers = gptNetworkLayers(size, seed);
    this.variables = this.#layers.flatMap((layer) => layer.build());
  }

  /**
   * Returns the logits of the next token for each token. They are computed from this token and all
   * earlier tokens. The function is differentiable. The caller must dispose the result or call this
   * in a tidy.
   *
   * @param tokens int32 [batch, context]
   * @param masks one dropout mask for each of the {@link gptDropoutPlaceCount}: float32 [batch, 1,
   *   width], with elements 0 or 1 / (1 - dropout). If `null`, nothing is dropped.
   * @returns float32 [batch * context, vocabulary]
   */
  logits(tokens: tf.Tensor2D, masks: readonly tf.Tensor[] | null = null): tf.Tensor2D {
    const mask = masks && ((place: number): tf.Tensor | undefined => masks[place]);
    return tf.tidy(() => {
      let x: tf.Tensor = tokens;
      for (const layer of this.#layers) x = layer.apply(x, { mask });
      return logitsOfHidden(x, this.variables[0]!);
    });
  }

  dispose(): void {
    for (const layer of this.#layers) layer.dispose();
  }
}
