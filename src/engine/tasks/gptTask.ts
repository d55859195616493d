/**
 * The job `gpt` as a {@link Task}. Its samples are windows of a text, and its loss measures how
 * well the model predicts the next token.
 */
import * as tf from '@tensorflow/tfjs';
import {
  classMetrics,
  dropoutPlaces,
  FIRST_CLASSES,
  logitsOf,
  Network,
  networkSize,
  type Corpus,
  type HeldOutMetrics,
  type Windows,
} from '../../jobs/index.ts';
import { crossEntropySum } from '../../kernels/crossEntropy.ts';
import type { JobSpec } from '../../spec/job.ts';
import { declareInputs } from '../../parallel/passCaptures.ts';
import { hashState } from '../../util/hash.ts';
import { TextGenerator } from '../inference/textGenerator.ts';
import { dropoutMask, withMasks } from './dropout.ts';
import { UNAGREED, type JobTask, type ShardTask } from './jobTask.ts';
import type { Evaluated } from './task.ts';

/** The largest number of held-out windows in one forward pass. */
const EVALUATION_BATCH = 64;
/**
 * The largest number of logits that exist at a time: 32 MiB. With tens of thousands of tokens, the
 * logits of all positions would need more memory than the rest of the model. With smaller parts,
 * the gradients of the matrix that the parts add take longer than the products.
 */
const MOST_LOGITS = 8 * 2 ** 20;

/**
 * Builds `job`'s model for a text. Losses are in nats per character, even if tokens are longer. The
 * loss of a sample is the mean over its positions.
 *
 * @param shard must be passed if every rank has a text of its own.
 */
export function createGptTask(
  job: JobSpec,
  { tokenizer, train, test, bigramLoss }: Corpus,
  shard?: ShardTask,
): JobTask {
  const { dropout } = job.gpt;
  const network = new Network(networkSize(job.gpt, tokenizer.size), job.seed);
  const author = new TextGenerator(network, tokenizer, { prompt: job.gpt.prompt, seed: job.seed, bigramLoss });
  const score = classMetrics(job);
  const testBatch = new WindowBatch(test, Math.min(EVALUATION_BATCH, test.size));
  return {
    queryModel: author,
    model: network.variables,
    trainSamples: train.size,
    testSamples: test.size,
    testBatch: testBatch.size,
    isShard: shard !== undefined,
    dataHash: () => Promise.resolve(shard?.digest ?? hashState([train, test].flatMap(describeWindows))),
    dataAdvice: shard === undefined ? 'give every tab the same text, or let the server serve it (--data)' : UNAGREED,
    withBatch: (indices, use, step, size) =>
      new WindowBatch(train, size).with(indices, (batch) =>
        withMasks(dropout === 0 ? [] : gptMasks(job.gpt, shard?.seed ?? job.seed, indices, size, step), (masks) => {
          const { tokens, next, weights } = batch;
          const loss = (): tf.Scalar =>
            crossEntropySum(network.logits(tokens, masks.length === 0 ? null : masks), next, weights);
          return use(declareInputs([tokens, next, weights, ...masks], loss));
        }),
      ),
    classifies: true,
    score,
    evaluate: (indices) =>
      testBatch.with(indices, async (batch) => {
        const logits = network.logits(batch.tokens);
        try {
          return await evaluateLogits(logits, batch, score, test.tokensPerCharacter);
        } finally {
          logits.dispose();
        }
      }),
    dispose: () => author.dispose(),
  };
}

/**
 * Returns what `Task.evaluate` returns, for the logits of a batch of windows.
 *
 * @param logits float32 [positions, vocabulary]
 */
async function evaluateLogits(
  logits: tf.Tensor2D,
  batch: Pick<WindowTensors, 'next' | 'weights'>,
  score: HeldOutMetrics,
  tokensPerCharacter: number,
): Promise<Evaluated> {
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
 * Returns what `Task.evaluate` returns, from the output of the network's last layer. The logits of
 * some positions exist at a time.
 *
 * @param hidden float32 [size, context, width]
 * @param embedding float32 [vocabulary, width]
 */
export async function evaluateHidden(
  hidden: tf.Tensor,
  embedding: tf.Variable,
  batch: Pick<WindowTensors, 'next' | 'weights'>,
  score: HeldOutMetrics,
  tokensPerCharacter: number,
): Promise<Evaluated> {
  const all = { lossSum: 0, correct: 0, sums: Array.from({ length: score.sums }, () => 0) };
  for (const { from, count } of partsOf(embedding, batch)) {
    const [logits, next, weights] = tf.tidy(() => {
      const part = rowsOf(hidden).slice(from, count);
      return [logitsOf(part, embedding), batch.next.slice(from, count), batch.weights.slice(from, count)];
    }) as [tf.Tensor2D, tf.Tensor1D, tf.Tensor1D];
    try {
      const {
        lossSum,
        correct,
        sums = [],
      } = await evaluateLogits(logits, { next, weights }, score, tokensPerCharacter);
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
export function lossParts(
  embedding: tf.Variable,
  batch: Pick<WindowTensors, 'next' | 'weights'>,
): ((hidden: tf.Tensor) => tf.Scalar)[] {
  return partsOf(embedding, batch).map(({ from, count }) => (hidden) => {
    const logits = logitsOf(rowsOf(hidden).slice(from, count), embedding);
    return crossEntropySum(logits, batch.next.slice(from, count), batch.weights.slice(from, count));
  });
}

/** Divides the positions of a batch into parts of at most {@link MOST_LOGITS} logits. */
function partsOf({ shape }: tf.Variable, { next }: Pick<WindowTensors, 'next'>): { from: number; count: number }[] {
  const [positions] = next.shape;
  const step = Math.max(1, Math.floor(MOST_LOGITS / shape[0]));
  return Array.from({ length: Math.ceil(positions / step) }, (_, i) => ({
    from: i * step,
    count: Math.min(step, positions - i * step),
  }));
}

/** float32 [batch, context, width] as [positions, width] */
function rowsOf(hidden: tf.Tensor): tf.Tensor2D {
  return hidden.reshape([-1, hidden.shape.at(-1)!]);
}

export interface WindowTensors {
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
export class WindowBatch {
  readonly size: number;
  readonly #windows: Windows;

  constructor(windows: Windows, size: number) {
    this.#windows = windows;
    this.size = size;
  }

  /**
   * Passes windows `indices` (at most `size`) to `use` as tensors. The tensors exist until the
   * promise of `use` resolves.
   */
  async with<T>(indices: Uint32Array, use: (tensors: WindowTensors) => Promise<T>): Promise<T> {
    const tensors = this.load(indices);
    try {
      return await use(tensors);
    } finally {
      tf.dispose([tensors.tokens, tensors.next, tensors.weights]);
    }
  }

  /** Returns windows `indices` (at most `size`). The caller disposes of the tensors. */
  load(indices: Uint32Array): WindowTensors {
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

/**
 * Returns 1 for each position whose next token is among the most probable tokens, else 0. Equal
 * logits are ordered as in `countAmongFirst`. Float32 [size * context]
 */
function isAmongFirst(logits: tf.Tensor2D, { next }: Pick<WindowTensors, 'next'>): tf.Tensor {
  const [, rows] = logits.shape;
  const own = tf.oneHot(next, rows).cast('float32').mul(logits).sum(1, true);
  const isLater = tf.range(0, rows, 1, 'int32').greater(next.expandDims(1));
  // Counts the tokens that are ranked below the next token. With NaN logits the count is 0, because
  // every comparison with NaN is false.
  const behind = own.greater(logits).logicalOr(own.equal(logits).logicalAnd(isLater)).cast('float32').sum(1);
  return behind.greaterEqual(rows - FIRST_CLASSES).cast('float32');
}

/**
 * Returns dropout masks that drop the same channels at all positions of a sample (Gal and
 * Ghahramani, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks",
 * 2016).
 */
export function gptMasks(
  gpt: JobSpec['gpt'],
  seed: number,
  indices: Uint32Array,
  size: number,
  step: number,
): tf.Tensor[] {
  const { width, dropout: rate } = gpt;
  return Array.from({ length: dropoutPlaces(gpt) }, (_, place) =>
    tf.tensor3d(dropoutMask(indices, { seed, step, place, rate, length: width, size }), [size, 1, width]),
  );
}

/** Returns the whole text, so that texts that differ in one character have different hashes. */
export function describeWindows(windows: Windows): ArrayBufferView[] {
  return [Int32Array.of(windows.size, windows.context), windows.tokens];
}
