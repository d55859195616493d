/**
 * The task of a pipeline: layers that are built on the rank that holds them, micro-batches of
 * samples, and scores of held-out samples.
 */
import * as tf from '@tensorflow/tfjs';
import {
  createAugmentation,
  extraClassificationMetrics,
  loadCorpus,
  layersOfChainModel,
  loadData,
  gptMultiplicationCounts,
  gptNetworkLayers,
  gptNetworkSize,
  type Corpus,
  type Dataset,
  type Tokenizer,
} from '../../jobs/index.ts';
import type { LoadDataOptions } from '../../jobs/fileSource.ts';
import type { GptNetworkSize } from '../../jobs/gpt/shapes.ts';
import type { ModelLayer } from '../../jobs/models/modelLayer.ts';
import type { LayerPass } from '../../parallel/pipeline/pipelineLayer.ts';
import type { LayerChain } from '../../parallel/pipeline/pipelineStage.ts';
import type { StageLoss } from '../../parallel/pipeline/stageLayers.ts';
import type { SampleFacts } from '../../spec/dataFacts.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { SampleBatch } from '../tasks/batch.ts';
import { evaluateGptHiddenOutput, gptLossParts } from '../tasks/gptScores.ts';
import { gptDropoutMasks, gptTaskDataFactsOf } from '../tasks/gptTask.ts';
import { createJobScores } from '../tasks/jobScores.ts';
import { layerDropoutMasks, sampleTaskFields } from '../tasks/jobTask.ts';
import type { EvaluatedBatch, StepOfEpoch, TaskDataFacts } from '../tasks/task.ts';
import { TokenWindowBatch } from '../tasks/windowBatch.ts';

export interface PipelineModel extends LayerChain {
  layers: readonly ModelLayer[];
  /**
   * The number of multiplications for one sample: of each layer, and of the logits. `null` if they
   * are not known; the layers are then measured.
   */
  cost: { layers: readonly number[]; logits: number } | null;
  /**
   * The weights of the first layer, if the output layer uses them, too. They exist on rank 0 once
   * the first layer is built.
   */
  readonly outputWeights: tf.Variable | null;
}

/** Samples of one micro-batch on this rank. */
export interface MicroBatch {
  /** The input of the first layer. */
  inputs: tf.Tensor;
  mask: LayerPass['mask'];
  /**
   * Returns the parts of the summed loss. Each part is a function of the last layer's output.
   *
   * @param weights see {@link PipelineModel.outputWeights}.
   */
  losses(weights: tf.Variable | null): StageLoss[];
  /** Rows whose samples this rank cannot use. Missing if `PipelineTask.contents` is `null`. */
  readonly leftOut?: readonly number[];
  /** Gives weight 0 to the samples in `rows`, which a rank of this replica cannot use. */
  leaveOut?(rows: readonly number[]): void;
  /** See `TrainingTask.evaluate`. */
  evaluate(output: tf.Tensor, weights: tf.Variable | null): Promise<EvaluatedBatch>;
  /** Frees everything except the inputs. */
  dispose(): void;
}

export interface PipelineTask extends TaskDataFacts {
  /** The data with which a language model writes texts; `null` for other models. */
  text: { tokenizer: Tokenizer; size: GptNetworkSize; bigramLoss: number } | null;
  /** The meaning of inputs and outputs, if the job does not define it. */
  facts: SampleFacts | null;
  /** Returns the model. No layer is built. */
  createModel(): PipelineModel;
  /**
   * Loads samples `indices` (at most `size`) as tensors of a fixed shape.
   *
   * @param at the step that learns from the samples; `null`: the samples are held-out samples.
   * @param usesSamples whether this rank uses inputs or losses. If not, samples in files are not
   *   read.
   */
  load(indices: Uint32Array, size: number, at: StepOfEpoch | null, usesSamples: boolean): Promise<MicroBatch>;
}

/**
 * @param vocabulary see `createCorpus`.
 * @throws (rejects) DataError if data are missing or invalid.
 */
export async function loadPipelineTask(
  job: JobSpec,
  options: LoadDataOptions,
  vocabulary: Vocabulary | null = null,
): Promise<PipelineTask> {
  if (job.job === 'gpt') {
    return createGptPipelineTask(job, await loadCorpus(job, options, vocabulary));
  }
  return createSamplesPipelineTask(job, await loadData(job, options));
}

export function createSamplesPipelineTask(
  job: JobSpec,
  { train, test }: { train: Dataset; test: Dataset },
): PipelineTask {
  const scores = createJobScores(job, test);
  const { dropout } = layersOfChainModel(job, train);
  const augment = createAugmentation(job.augment, train.inputShape, job.seed);
  return {
    ...sampleTaskFields({ train, test }, scores),
    text: null,
    facts: test.facts ?? null,
    createModel: () => ({
      ...layersOfChainModel(job, train),
      ring: false,
      cost: null,
      outputWeights: null,
    }),
    load: async (indices, size, at, usesSamples) => {
      const batch = new SampleBatch(at === null ? test : train, size);
      const read = usesSamples ? indices : new Uint32Array();
      const loaded = await batch.load(read, (pixels) => at && augment(pixels, read, at.epoch));
      const { inputs, labels } = loaded;
      let { weights } = loaded;
      const masks = at && layerDropoutMasks({ dropout }, job.seed, indices, size, at.step);
      return {
        inputs,
        mask: maskOf(masks),
        losses: () => [(logits) => scores.loss(logits as tf.Tensor2D, { labels, weights })],
        leftOut: [...read.keys()].filter((row) => batch.weights[row] === 0),
        leaveOut: (rows) => {
          for (const row of rows) batch.weights[row] = 0;
          weights.dispose();
          weights = tf.tensor1d(batch.weights.slice());
        },
        evaluate: async (logits) => {
          const used = batch.weights.reduce((sum, weight) => sum + weight, 0);
          const evaluated = await scores.evaluate(logits as tf.Tensor2D, { labels, weights }, batch);
          return { ...evaluated, leftOut: indices.length - used };
        },
        dispose: () => tf.dispose([labels, weights, ...(masks ?? [])]),
      };
    },
  };
}

export function createGptPipelineTask(job: JobSpec, { tokenizer, train, test, bigramLoss }: Corpus): PipelineTask {
  const { dropout } = job.gpt;
  const size = gptNetworkSize(job.gpt, tokenizer.size);
  const score = extraClassificationMetrics(job);
  return {
    ...gptTaskDataFactsOf({ train, test }, score),
    text: { tokenizer, size, bigramLoss },
    facts: null,
    createModel: () => {
      const chain = gptNetworkLayers(size, job.seed);
      return {
        layers: chain,
        ring: true,
        cost: gptMultiplicationCounts(size),
        get outputWeights() {
          return chain[0]!.weights[0]!;
        },
      };
    },
    load: (indices, rows, at) => {
      const windows = at === null ? test : train;
      const { tokens, next, weights } = new TokenWindowBatch(windows, rows).load(indices);
      const masks = at === null || dropout === 0 ? null : gptDropoutMasks(job.gpt, job.seed, indices, rows, at.step);
      return Promise.resolve({
        inputs: tokens,
        mask: maskOf(masks),
        losses: (matrix: tf.Variable | null) => gptLossParts(matrix!, { next, weights }),
        evaluate: (output: tf.Tensor, matrix: tf.Variable | null) =>
          evaluateGptHiddenOutput(output, matrix!, { next, weights }, score, windows.tokensPerCharacter),
        dispose: () => tf.dispose([next, weights, ...(masks ?? [])]),
      });
    },
  };
}

/**
 * Returns a function that returns the dropout mask of a place in the network. If `masks` is `null`,
 * no values are dropped.
 */
function maskOf(masks: readonly tf.Tensor[] | null): LayerPass['mask'] {
  return (place) => masks?.[place];
}
