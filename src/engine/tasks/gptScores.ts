/** Loss and measures of the language model, from its logits or its last layer's output. */
import * as tf from '@tensorflow/tfjs';
import { TOP_CLASS_COUNT, logitsOfHidden, type HeldOutMetrics } from '../../jobs/index.ts';
import { crossEntropySum } from '../../gpu/kernels/crossEntropy.ts';
import type { EvaluatedBatch } from './task.ts';
import type { TokenWindowTensors } from './windowBatch.ts';

/**
 * The largest number of logits that exist at a time: 32 MiB. With tens of thousands of tokens, the
 * logits of all positions would need more memory than the rest of the model. Smaller parts would be
 * slow: for each part, a gradient of the whole embedding matrix is added, and these additions would
 * take longer than the matrix products.
 */
const MOST_LOGITS = 8 * 2 ** 20;

/**
 * Returns what `TrainingTask.evaluate` returns, for the logits of a batch of windows.
 *
 * @param logits float32 [positions, vocabulary]
 */
export async function evaluateGptLogits(
  logits: tf.Tensor2D,
  batch: Pick<TokenWindowTensors, 'next' | 'weights'>,
  score: HeldOutMetrics,
  tokensPerCharacter: number,
): Promise<EvaluatedBatch> {
  const sums = tf.tidy(() => {
    const isRight = tf.argMax(logits, 1).equal(batch.next).cast('float32');
    const both = [crossEntropySum(logits, batch.next, batch.weights), tf.sum(isRight.mul(batch.weights))];
    return tf.stack(score.sums > 0 ? [...both, tf.sum(isAmongFirst(logits, batch).mul(batch.weights))] : both);
  });
  try {
    const [lossSum, ...counts] = await sums.data();
    const [correct, ...others] = counts.map((count) => count / tokensPerCharacter);
    return { lossSum: lossSum!, correct: correct!, sums: others };
  } finally {
    sums.dispose();
  }
}

/**
 * Returns what `TrainingTask.evaluate` returns, from the output of the network's last layer. Only
 * the logits of some positions exist at a time.
 *
 * @param hidden float32 [size, context, width]
 * @param embedding float32 [vocabulary, width]
 */
export async function evaluateGptHiddenOutput(
  hidden: tf.Tensor,
  embedding: tf.Variable,
  batch: Pick<TokenWindowTensors, 'next' | 'weights'>,
  score: HeldOutMetrics,
  tokensPerCharacter: number,
): Promise<EvaluatedBatch> {
  const all = { lossSum: 0, correct: 0, sums: Array.from({ length: score.sums }, () => 0) };
  for (const { from, count } of partsOf(embedding, batch)) {
    const [logits, next, weights] = tf.tidy(() => {
      const part = rowsOf(hidden).slice(from, count);
      return [logitsOfHidden(part, embedding), batch.next.slice(from, count), batch.weights.slice(from, count)];
    }) as [tf.Tensor2D, tf.Tensor1D, tf.Tensor1D];
    try {
      const {
        lossSum,
        correct,
        sums = [],
      } = await evaluateGptLogits(logits, { next, weights }, score, tokensPerCharacter);
      all.lossSum += lossSum;
      all.correct += correct;
      for (const [i, sum] of sums.entries()) all.sums[i]! += sum;
    } finally {
      tf.dispose([logits, next, weights]);
    }
  }
  return all;
}

/**
 * Returns the parts of the summed loss of a batch, as functions of the output of the network's last
 * layer. Each part has the logits of some positions.
 */
export function gptLossParts(
  embedding: tf.Variable,
  batch: Pick<TokenWindowTensors, 'next' | 'weights'>,
): ((hidden: tf.Tensor) => tf.Scalar)[] {
  return partsOf(embedding, batch).map(({ from, count }) => (hidden) => {
    const logits = logitsOfHidden(rowsOf(hidden).slice(from, count), embedding);
    return crossEntropySum(logits, batch.next.slice(from, count), batch.weights.slice(from, count));
  });
}

/** Divides the positions of a batch into parts of at most {@link MOST_LOGITS} logits. */
function partsOf(
  { shape }: tf.Variable,
  { next }: Pick<TokenWindowTensors, 'next'>,
): { from: number; count: number }[] {
  const [positions] = next.shape;
  const step = Math.max(1, Math.floor(MOST_LOGITS / shape[0]));
  return Array.from({ length: Math.ceil(positions / step) }, (_, i) => ({
    from: i * step,
    count: Math.min(step, positions - i * step),
  }));
}

/** Reshapes float32 [batch, context, width] to [batch * context, width]. */
function rowsOf(hidden: tf.Tensor): tf.Tensor2D {
  return hidden.reshape([-1, hidden.shape.at(-1)!]);
}

/**
 * Returns 1 for each position whose next token is among the most probable tokens, else 0. Equal
 * logits are ordered as in `countLabelsInTopK`. Float32 [size * context]
 */
function isAmongFirst(logits: tf.Tensor2D, { next }: Pick<TokenWindowTensors, 'next'>): tf.Tensor {
  const [, rows] = logits.shape;
  const own = tf.oneHot(next, rows).cast('float32').mul(logits).sum(1, true);
  const isLater = tf.range(0, rows, 1, 'int32').greater(next.expandDims(1));
  // Counts the tokens that are ranked below the next token. With NaN logits the count is 0, because
  // every comparison with NaN is false.
  const behind = own.greater(logits).logicalOr(own.equal(logits).logicalAnd(isLater)).cast('float32').sum(1);
  return behind.greaterEqual(rows - TOP_CLASS_COUNT).cast('float32');
}
