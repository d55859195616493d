/**
 * The shapes of the language model's variables, without importing TensorFlow.js. The page estimates
 * from them how long all-reduces of the gradients take.
 */
import type { GptModel } from '../../spec/gpt.ts';
import { elementCountOf } from '../../util/shape.ts';

export type GptNetworkSize = Pick<GptModel, 'layers' | 'heads' | 'width' | 'context'> & {
  /** Number of rows of the shared matrix, see {@link paddedVocabularySize}. */
  vocabulary: number;
};

/**
 * Returns the number of matrix rows for `tokens` tokens. It is a multiple of 4, because with other
 * numbers the matrix products of WebGPU are half as fast. The additional rows do not correspond to
 * a token.
 */
export function paddedVocabularySize(tokens: number): number {
  return 4 * Math.ceil(tokens / 4);
}

/** Returns the size of a job's network for a text with `tokens` different tokens. */
export function gptNetworkSize(
  { layers, heads, width, context, tokens: kind, vocabulary }: Omit<GptModel, 'prompt' | 'dropout'>,
  tokens: number,
): GptNetworkSize {
  const rows = kind === 'byte-pairs' ? Math.max(tokens, vocabulary) : tokens;
  return { layers, heads, width, context, vocabulary: paddedVocabularySize(rows) };
}

/** RMS normalization adds this number to the mean square, to avoid a division by zero. */
export const RMS_NORM_EPSILON = 1e-5;

/** Width of the feed-forward sublayer's inner layer, divided by `width`. */
export const FEED_FORWARD_EXPANSION = 4;

export function gptWeightShapes({ layers, width, context, vocabulary }: GptNetworkSize): number[][] {
  const inner = FEED_FORWARD_EXPANSION * width;
  const layer = [[width], [width, 3 * width], [width, width], [width], [width, inner], [inner, width]];
  return [[vocabulary, width], [context, width], ...Array.from({ length: layers }, () => layer).flat(), [width]];
}

/**
 * Names of a block's variables in the order of their use: three for attention, three for the
 * feed-forward layer.
 */
export const BLOCK_WEIGHT_NAMES = ['norm1', 'attend', 'project', 'norm2', 'expand', 'contract'] as const;

/** Returns the name of each variable: `layer/weight`. */
export function gptWeightNames({ layers }: Pick<GptNetworkSize, 'layers'>): string[] {
  const blocks = Array.from({ length: layers }, (_, layer) =>
    BLOCK_WEIGHT_NAMES.map((name) => `layer${layer + 1}.${name}/weight`),
  );
  return ['embedding/weight', 'positions/weight', ...blocks.flat(), 'norm/weight'];
}

/**
 * Initial standard deviation of the shared matrix and of the position embeddings. It is small, so
 * that at first all tokens are about equally likely.
 */
const EMBEDDING_DEVIATION = 0.02;

/**
 * Returns the standard deviation of each variable's initial weights, or `null` if all its weights
 * are 1. In deeper networks, projections whose result is added to the residual stream start with
 * smaller weights.
 */
export function gptInitialDeviations({ layers, width }: Pick<GptNetworkSize, 'layers' | 'width'>): (number | null)[] {
  const into = 1 / Math.sqrt(width);
  const added = into / Math.sqrt(2 * layers);
  const layer = [null, into, added, null, into, added / Math.sqrt(FEED_FORWARD_EXPANSION)];
  return [EMBEDDING_DEVIATION, EMBEDDING_DEVIATION, ...Array.from({ length: layers }, () => layer).flat(), null];
}

/**
 * Returns the number of multiplications in a forward pass over one sample: for each layer of
 * `gptNetworkLayers`, and for the logits. A backward pass has twice as many.
 */
export function gptMultiplicationCounts({ layers, width, context, vocabulary }: GptNetworkSize): {
  layers: number[];
  logits: number;
} {
  // Attention multiplies queries with keys, and probabilities with values. Both products need only
  // half of the pairs of positions, because no token attends to later tokens.
  const pairs = context * context * width;
  const attention = 4 * context * width * width + pairs;
  const feedForward = 2 * FEED_FORWARD_EXPANSION * context * width * width;
  const blocks = Array.from({ length: layers }, () => [attention, feedForward]);
  const elements = context * width;
  return { layers: [elements, ...blocks.flat(), elements], logits: context * width * vocabulary };
}

/** Memory of a layer, in float32 elements. */
export interface LayerMemory {
  /** Name of the layer in `gptNetworkLayers`. */
  name: string;
  weights: number;
  /**
   * Elements that a forward pass over one sample keeps for the backward pass. The layer's output is
   * included, but its input is not.
   */
  activations: number;
  /**
   * Further elements that are kept if the kernels of `src/gpu/kernels` are not used: the
   * probabilities of attention and their logarithms, and a one-hot row for each token.
   */
  composed: number;
}

export function gptNetworkMemory(size: GptNetworkSize): LayerMemory[] {
  const { layers, heads, width, context, vocabulary } = size;
  const sizes = gptWeightShapes(size).map(elementCountOf);
  const weightsOf = (first: number, count: number): number =>
    sizes.slice(first, first + count).reduce((sum, one) => sum + one, 0);
  const elements = context * width;
  const perLayer = BLOCK_WEIGHT_NAMES.length / 2;
  const blocks = Array.from({ length: layers }, (_, block): LayerMemory[] => {
    const first = 2 + 2 * perLayer * block;
    return [
      {
        name: `layer${block + 1}.attention`,
        weights: weightsOf(first, perLayer),
        // These are kept: normalized input; queries, keys and values; attended values; output.
        activations: (1 + 3 + 1 + 1) * elements,
        composed: 2 * heads * context * context,
      },
      {
        name: `layer${block + 1}.feedForward`,
        weights: weightsOf(first + perLayer, perLayer),
        // These are kept: normalized input, inner layer, output.
        activations: (1 + FEED_FORWARD_EXPANSION + 1) * elements,
        composed: 0,
      },
    ];
  });
  return [
    { name: 'embedding', weights: weightsOf(0, 2), activations: elements, composed: context * vocabulary },
    ...blocks.flat(),
    { name: 'norm', weights: weightsOf(sizes.length - 1, 1), activations: elements, composed: 0 },
  ];
}
