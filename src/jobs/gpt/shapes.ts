/**
 * The shapes of the language model's variables, without TensorFlow.js. The page estimates from them
 * how gradients travel.
 */
import type { GptModel } from '../../spec/gpt.ts';

export type NetworkSize = Pick<GptModel, 'layers' | 'heads' | 'width' | 'context'> & {
  /** Number of rows of the shared matrix, see {@link rowsFor}. */
  vocabulary: number;
};

/**
 * Returns the number of matrix rows for `tokens` tokens. It is a multiple of 4, because with other
 * numbers the matrix products of WebGPU are half as fast. The additional rows do not correspond to
 * a token.
 */
export function rowsFor(tokens: number): number {
  return 4 * Math.ceil(tokens / 4);
}

/** Width of the feed-forward sublayer's inner layer, divided by `width`. */
export const EXPANSION = 4;

/** Returns the shape of each variable. */
export function shapesOf({ layers, width, context, vocabulary }: NetworkSize): number[][] {
  const inner = EXPANSION * width;
  const layer = [[width], [width, 3 * width], [width, width], [width], [width, inner], [inner, width]];
  return [[vocabulary, width], [context, width], ...Array.from({ length: layers }, () => layer).flat(), [width]];
}
