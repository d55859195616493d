/**
 * The job `gpt` as a {@link Task}: windows of a text, and the loss of predicting the next token.
 */
import * as tf from '@tensorflow/tfjs';
import {
  classMetrics,
  dropoutPlaces,
  FIRST_CLASSES,
  Network,
  rowsFor,
  type Corpus,
  type Windows,
} from '../../jobs/index.ts';
import type { JobSpec } from '../../spec/job.ts';
import { hashState } from '../../util/hash.ts';
import { TextGenerator } from '../inference/textGenerator.ts';
import { dropoutMask } from './dropout.ts';
import { UNAGREED, type JobTask, type ShardTask } from './jobTask.ts';

/** Most held-out windows per forward pass. */
const EVALUATION_BATCH = 64;

/**
 * Builds `job`'s model for a text. Losses are in nats per character, whatever the tokens; the loss
 * of a sample is the mean over its positions.
 *
 * @param shard given if every rank has a text of its own.
 */
export function createGptTask(
  job: JobSpec,
  { tokenizer, train, test, bigramLoss }: Corpus,
  shard?: ShardTask,
): JobTask {
  const { layers, heads, width, context, dropout } = job.gpt;
  const network = new Network({ layers, heads, width, context, vocabulary: rowsFor(tokenizer.size) }, job.seed);
  const author = new TextGenerator(network, tokenizer, { prompt: job.gpt.prompt, seed: job.seed, bigramLoss });
  const score = classMetrics(job);
  const trainBatch = new WindowBatch(train, job.batchSize);
  const testBatch = new WindowBatch(test, Math.min(EVALUATION_BATCH, test.size));
  return {
    queryModel: author,
    model: network.variables,
    trainSamples: train.size,
    testSamples: test.size,
    testBatch: testBatch.size,
    isShard: shard !== undefined,
    dataHash: () => Promise.resolve(shard?.digest ?? hashState([train, test].flatMap(describe))),
    dataAdvice: shard === undefined ? 'give every tab the same text, or let the server serve it (--data)' : UNAGREED,
    withBatch: (indices, use, step) =>
      trainBatch.with(indices, (batch) =>
        use(() => {
          const masks =
            dropout === 0 ? null : dropoutMasks(job.gpt, shard?.seed ?? job.seed, indices, trainBatch.size, step);
          return lossSum(network.logits(batch.tokens, masks), batch);
        }),
      ),
    classifies: true,
    score,
    evaluate: (indices) =>
      testBatch.with(indices, async (batch) => {
        const sums = tf.tidy(() => {
          const logits = network.logits(batch.tokens);
          const isRight = tf.argMax(logits, 1).equal(batch.next).cast('float32');
          const both = [lossSum(logits, batch), tf.sum(isRight.mul(batch.counts))];
          return tf.stack(score.sums > 0 ? [...both, tf.sum(isAmongFirst(logits, batch).mul(batch.counts))] : both);
        });
        try {
          const [loss, correct, ...others] = await sums.data();
          return { lossSum: loss!, correct: correct!, sums: others };
        } finally {
          sums.dispose();
        }
      }),
    dispose: () => author.dispose(),
  };
}

interface WindowTensors {
  /** int32 [size, context] */
  tokens: tf.Tensor2D;
  /** The next tokens: int32 [size * context] */
  next: tf.Tensor1D;
  /** float32 [size * context]: weight of a position in its window, 0 in padding. */
  counts: tf.Tensor1D;
  /** Factor that turns a loss per token into one per character. */
  tokensPerCharacter: number;
}

/** Windows in tensors of fixed shape: short batches are padded with positions of weight 0. */
class WindowBatch {
  readonly size: number;
  readonly #windows: Windows;

  constructor(windows: Windows, size: number) {
    this.#windows = windows;
    this.size = size;
  }

  /** Passes windows `indices`, at most `size`, to `use` as tensors that live until it resolves. */
  async with<T>(indices: Uint32Array, use: (tensors: WindowTensors) => Promise<T>): Promise<T> {
    const { context, tokensPerCharacter } = this.#windows;
    // New arrays each time: a tensor aliases its array until it is uploaded.
    const tokens = new Int32Array(this.size * context);
    const next = new Int32Array(this.size * context);
    this.#windows.read(indices, tokens, next);
    const counts = new Float32Array(this.size * context).fill(1 / context, 0, indices.length * context);
    const tensors = {
      tokens: tf.tensor2d(tokens, [this.size, context], 'int32'),
      next: tf.tensor1d(next, 'int32'),
      counts: tf.tensor1d(counts),
    };
    try {
      return await use({ ...tensors, tokensPerCharacter });
    } finally {
      tf.dispose(tensors);
    }
  }
}

/** @param logits float32 [size * context, vocabulary] */
function lossSum(logits: tf.Tensor2D, { next, counts, tokensPerCharacter }: WindowTensors): tf.Scalar {
  const targets = tf.cast(tf.oneHot(next, logits.shape[1]), 'float32');
  const chosen = tf.sum(tf.mul(tf.logSoftmax(logits), targets), 1);
  return tf.sum<tf.Scalar>(tf.mul(chosen, counts)).mul<tf.Scalar>(-tokensPerCharacter);
}

/**
 * 1 if the next token is among the most probable, else 0. Ties are ordered as in `countAmongFirst`.
 * Float32 [size * context]
 */
function isAmongFirst(logits: tf.Tensor2D, { next }: WindowTensors): tf.Tensor {
  const [, rows] = logits.shape;
  const own = tf.oneHot(next, rows).cast('float32').mul(logits).sum(1, true);
  const isLater = tf.range(0, rows, 1, 'int32').greater(next.expandDims(1));
  // Tokens ranked below are counted, so that NaN logits give 0: every comparison with NaN is false.
  const behind = own.greater(logits).logicalOr(own.equal(logits).logicalAnd(isLater)).cast('float32').sum(1);
  return behind.greaterEqual(rows - FIRST_CLASSES).cast('float32');
}

/**
 * Dropout masks that leave out the same channels at all positions of a sample (Gal and Ghahramani,
 * "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks", 2016).
 */
function dropoutMasks(
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

/** The whole text: one that differs in one character is another. */
function describe(windows: Windows): ArrayBufferView[] {
  return [Int32Array.of(windows.size, windows.context), windows.tokens];
}
