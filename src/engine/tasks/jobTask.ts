/**
 * Turns a job of samples and labels into a {@link TrainingTask}. The model is built-in or the job's
 * own. The data set is built-in or consists of the user's files.
 */
import * as tf from '@tensorflow/tfjs';
import { createAugmentation, buildJobModel, sampleLength, type Dataset, type JobModel } from '../../jobs/index.ts';
import type { JobSpec } from '../../spec/job.ts';
import { declarePassInputs } from '../../parallel/backward/passCaptures.ts';
import { hashOfArrays } from '../../util/hash.ts';
import { elementCountOf } from '../../util/shape.ts';
import type { TextGenerator } from './textGenerator.ts';
import { SampleBatch } from './batch.ts';
import { dropoutMask, withDropoutMasks } from './dropout.ts';
import { INTERMEDIATE_EVALUATION_SAMPLES } from './evaluation.ts';
import { InspectedModel } from './inspection.ts';
import { createJobScores, type JobScores } from './jobScores.ts';
import type { TrainingTask, TaskDataFacts } from './task.ts';

/**
 * The largest number of held-out samples in one forward pass. It is larger than usual training
 * batches, because evaluation stores no activations for gradients.
 */
const EVALUATION_BATCH = 256;
/**
 * The largest number of bytes of the inputs of such a pass. Its activations need several times as
 * much.
 */
const EVALUATION_BYTES = 16 * 2 ** 20;

/** Returns the number of held-out samples in one forward pass, for a rank with `share` samples. */
export function evaluationBatchSize(data: Pick<Dataset, 'inputShape'>, share: number): number {
  const inMemory = Math.floor(EVALUATION_BYTES / (sampleLength(data) * Float32Array.BYTES_PER_ELEMENT));
  return Math.max(1, Math.min(EVALUATION_BATCH, share, inMemory));
}

/**
 * Advice for ranks that have data of their own and have agreed on different facts about the data.
 */
const UNAGREED = 'its columns, classes or characters are not those on which all ranks have agreed; reload that tab';

/** Options of a task whose data only this rank has. */
export interface ShardTaskOptions {
  /** Hash of the facts on which ranks have agreed. */
  digest: string;
  /**
   * Seed of the random numbers per sample. It differs by rank, because every rank numbers its
   * samples from 0.
   */
  seed: number;
}

export interface JobTask extends TrainingTask {
  /**
   * The model that answers queries. It is disposed of together with the task, unless it is still
   * needed after the run.
   */
  readonly queryModel: InspectedModel | TextGenerator;
}

/**
 * Builds `job`'s model. Batches for evaluation have a size that lets `worldSize` ranks share the
 * held-out samples evenly.
 *
 * @param shard must be passed if every rank has data of its own.
 */
export async function createJobTask(
  job: JobSpec,
  { train, test }: { train: Dataset; test: Dataset },
  worldSize: number,
  shard?: ShardTaskOptions,
): Promise<JobTask> {
  const model = buildJobModel(job, train);
  const queryModel = await InspectedModel.create(model, test, job);
  const scores = createJobScores(job, test);
  const trainBatches = new Map<number, SampleBatch>();
  const trainBatchOf = (size: number): SampleBatch => {
    const batch = trainBatches.get(size) ?? new SampleBatch(train, size);
    trainBatches.set(size, batch);
    return batch;
  };
  const seed = shard?.seed ?? job.seed;
  const augment = createAugmentation(job.augment, train.inputShape, seed);
  // This rank's share of the samples in an evaluation within an epoch. A batch is at most as large
  // as the share, because a larger batch could consist mainly of padding.
  const share = Math.ceil(Math.min(INTERMEDIATE_EVALUATION_SAMPLES, test.size) / worldSize);
  const testBatch = new SampleBatch(test, evaluationBatchSize(test, share));
  return {
    queryModel,
    model: model.variables,
    ...sampleTaskFields({ train, test }, scores, shard),
    takesAnySize: true,
    testBatch: testBatch.size,
    withBatch: (indices, use, { step, epoch }, size) =>
      trainBatchOf(size).with(
        indices,
        ({ inputs, labels, weights }) =>
          withDropoutMasks(layerDropoutMasks(model, seed, indices, size, step), (masks) =>
            use(
              declarePassInputs([inputs, labels, weights, ...masks], () =>
                scores.loss(model.logits(inputs, masks), { labels, weights }),
              ),
            ),
          ),
        (inputs) => augment(inputs, indices, epoch),
      ),
    evaluate: (indices) =>
      testBatch.with(indices, async (tensors) => {
        const logits = model.logits(tensors.inputs);
        try {
          const used = testBatch.weights.reduce((sum, weight) => sum + weight, 0);
          return { ...(await scores.evaluate(logits, tensors, testBatch)), leftOut: indices.length - used };
        } finally {
          logits.dispose();
        }
      }),
    dispose: () => queryModel.dispose(),
  };
}

/**
 * The fields of a task by which ranks compare their samples.
 *
 * @param advice what to do if samples that all ranks should have differ.
 */
export function comparedTaskFields(
  { train, test }: { train: { size: number }; test: { size: number } },
  shard: ShardTaskOptions | undefined,
  { hash, advice }: { hash: () => Promise<string>; advice: string },
): Pick<TaskDataFacts, 'isShard' | 'trainSamples' | 'testSamples' | 'dataHash' | 'dataAdvice'> {
  return {
    isShard: shard !== undefined,
    trainSamples: train.size,
    testSamples: test.size,
    dataHash: async () => shard?.digest ?? hash(),
    dataAdvice: shard === undefined ? advice : UNAGREED,
  };
}

/** The fields of a task that follow from its samples, however its model is divided over ranks. */
export function sampleTaskFields(
  { train, test }: { train: Dataset; test: Dataset },
  scores: JobScores,
  shard?: ShardTaskOptions,
): TaskDataFacts {
  return {
    ...comparedTaskFields({ train, test }, shard, {
      hash: () => hashSamples(train, test),
      advice: 'give every tab the same files, or let the server serve them (--data)',
    }),
    contents: shard === undefined ? (train.contents ?? null) : null,
    ahead: train.ahead,
    expect: (next) => train.expect?.(next),
    expectHeldOut: (next) => test.expect?.(next),
    classifies: scores.classifies,
    classes: scores.classes,
    score: scores.metrics,
  };
}

export function layerDropoutMasks(
  { dropout }: Pick<JobModel, 'dropout'>,
  seed: number,
  indices: Uint32Array,
  size: number,
  step: number,
): tf.Tensor[] {
  return dropout.map(({ rate, shape }, place) => {
    const length = elementCountOf(shape);
    return tf.tensor(dropoutMask(indices, { seed, step, place, rate, length, size }), [size, ...shape]);
  });
}

/** Returns a hash of all samples, or of the parts that distinguish data sets. */
async function hashSamples(train: Dataset, test: Dataset): Promise<string> {
  return hashOfArrays((await Promise.all([train, test].map(fingerprintOf))).flat());
}

/**
 * Returns enough about the data to distinguish data sets: the sizes, and the digest of the data. If
 * the data have no digest, returns the first and the last sample instead of it.
 */
async function fingerprintOf(data: Dataset): Promise<ArrayBufferView[]> {
  const sizes = Int32Array.of(data.size, data.classes, ...data.inputShape);
  if (data.digest !== undefined) return [sizes, new TextEncoder().encode(data.digest)];
  const inputs = new Float32Array(2 * sampleLength(data));
  const labels = new Int32Array(2);
  await data.read(Uint32Array.of(0, data.size - 1), inputs, labels);
  return [sizes, inputs, labels];
}
