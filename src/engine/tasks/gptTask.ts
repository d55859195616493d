/**
 * The job `gpt` as a {@link TrainingTask}. Its samples are windows of a text, and its loss measures
 * how well the model predicts the next token.
 */
import * as tf from '@tensorflow/tfjs';
import {
  extraClassificationMetrics,
  gptDropoutPlaceCount,
  GptNetwork,
  gptNetworkSize,
  type Corpus,
} from '../../jobs/index.ts';
import { crossEntropySum } from '../../gpu/kernels/crossEntropy.ts';
import type { JobSpec } from '../../spec/job.ts';
import { declarePassInputs } from '../../parallel/backward/passCaptures.ts';
import { TextGenerator } from './textGenerator.ts';
import { dropoutMask, withDropoutMasks } from './dropout.ts';
import { evaluateGptLogits } from './gptScores.ts';
import { comparedTaskFields, type JobTask, type ShardTaskOptions } from './jobTask.ts';
import type { TaskDataFacts } from './task.ts';
import { hashTokenWindows, TokenWindowBatch } from './windowBatch.ts';

/** The largest number of held-out windows in one forward pass. */
const EVALUATION_BATCH = 64;
/**
 * Builds `job`'s model for a text. Losses are in nats per character, even if tokens are longer. The
 * loss of a sample is the mean over its positions.
 *
 * @param shard must be passed if every rank has a text of its own.
 */
export function createGptTask(
  job: JobSpec,
  { tokenizer, train, test, bigramLoss }: Corpus,
  shard?: ShardTaskOptions,
): JobTask {
  const { dropout } = job.gpt;
  const network = new GptNetwork(gptNetworkSize(job.gpt, tokenizer.size), job.seed);
  const author = new TextGenerator(network, tokenizer, { prompt: job.gpt.prompt, seed: job.seed, bigramLoss });
  const score = extraClassificationMetrics(job);
  const testBatch = new TokenWindowBatch(test, Math.min(EVALUATION_BATCH, test.size));
  return {
    queryModel: author,
    model: network.variables,
    ...gptTaskDataFactsOf({ train, test }, score, shard),
    takesAnySize: true,
    testBatch: testBatch.size,
    withBatch: (indices, use, { step }, size) =>
      new TokenWindowBatch(train, size).with(indices, (batch) =>
        withDropoutMasks(
          dropout === 0 ? [] : gptDropoutMasks(job.gpt, shard?.seed ?? job.seed, indices, size, step),
          (masks) => {
            const { tokens, next, weights } = batch;
            const loss = (): tf.Scalar =>
              crossEntropySum(network.logits(tokens, masks.length === 0 ? null : masks), next, weights);
            return use(declarePassInputs([tokens, next, weights, ...masks], loss));
          },
        ),
      ),
    isLanguageModel: true,
    evaluate: (indices) =>
      testBatch.with(indices, async (batch) => {
        const logits = network.logits(batch.tokens);
        try {
          return await evaluateGptLogits(logits, batch, score, test.tokensPerCharacter);
        } finally {
          logits.dispose();
        }
      }),
    dispose: () => author.dispose(),
  };
}

/** The fields of a task that follow from its text, however its model is divided over ranks. */
export function gptTaskDataFactsOf(
  { train, test }: Pick<Corpus, 'train' | 'test'>,
  score: TaskDataFacts['score'],
  shard?: ShardTaskOptions,
): TaskDataFacts {
  return {
    ...comparedTaskFields({ train, test }, shard, {
      hash: () => Promise.resolve(hashTokenWindows([train, test])),
      advice: 'give every tab the same text, or let the server serve it (--data)',
    }),
    classifies: true,
    score,
  };
}

/**
 * Returns dropout masks that drop the same channels at all positions of a sample (Gal and
 * Ghahramani, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks",
 * 2016).
 */
export function gptDropoutMasks(
  gpt: JobSpec['gpt'],
  seed: number,
  indices: Uint32Array,
  size: number,
  step: number,
): tf.Tensor[] {
  const { width, dropout: rate } = gpt;
  return Array.from({ length: gptDropoutPlaceCount(gpt) }, (_, place) =>
    tf.tensor3d(dropoutMask(indices, { seed, step, place, rate, length: width, size }), [size, 1, width]),
  );
}
