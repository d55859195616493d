/** Windows of a text as tensors. */
import * as tf from '@tensorflow/tfjs';
import type { TokenWindows } from '../../jobs/index.ts';
import { hashOfArrays } from '../../util/hash.ts';

export interface TokenWindowTensors {
  /** int32 [size, context] */
  tokens: tf.Tensor2D;
  /** The token that follows each token: int32 [size * context] */
  next: tf.Tensor1D;
  /**
   * The factor that converts a position's loss per token to its part of the window's loss per
   * character; 0 in padding. float32 [size * context]
   */
  weights: tf.Tensor1D;
}

/**
 * Windows of a text in tensors of fixed shape. A batch with fewer windows is padded with positions
 * of weight 0.
 */
export class TokenWindowBatch {
  readonly size: number;
  readonly #windows: TokenWindows;

  constructor(windows: TokenWindows, size: number) {
    this.#windows = windows;
    this.size = size;
  }

  /**
   * Passes windows `indices` (at most `size`) to `use` as tensors. The tensors exist until the
   * promise of `use` resolves.
   */
  async with<T>(indices: Uint32Array, use: (tensors: TokenWindowTensors) => Promise<T>): Promise<T> {
    const tensors = this.load(indices);
    try {
      return await use(tensors);
    } finally {
      tf.dispose([tensors.tokens, tensors.next, tensors.weights]);
    }
  }

  /** Returns windows `indices` (at most `size`). The caller disposes of the tensors. */
  load(indices: Uint32Array): TokenWindowTensors {
    const { context, tokensPerCharacter } = this.#windows;
    // Creates new arrays for each call, because a tensor shares memory with its array until it is
    // uploaded.
    const tokens = new Int32Array(this.size * context);
    const next = new Int32Array(this.size * context);
    this.#windows.read(indices, tokens, next);
    const weights = new Float32Array(this.size * context);
    weights.fill(tokensPerCharacter / context, 0, indices.length * context);
    return {
      tokens: tf.tensor2d(tokens, [this.size, context], 'int32'),
      next: tf.tensor1d(next, 'int32'),
      weights: tf.tensor1d(weights),
    };
  }
}

/** Returns a hash of all tokens of the texts and of the division into windows. */
export function hashTokenWindows(texts: readonly TokenWindows[]): string {
  return hashOfArrays(texts.flatMap(({ size, context, tokens }) => [Int32Array.of(size, context), tokens]));
}
