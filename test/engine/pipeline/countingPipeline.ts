/** Members of runs with a pipeline whose layers count samples, for `runGeneration`. */
import type { LazyFileContents } from '../../../src/jobs/index.ts';
import * as tf from '@tensorflow/tfjs';
import { StageStep } from '../../../src/engine/pipeline/stageStep.ts';
import { TrainingLoop } from '../../../src/engine/training/trainingLoop.ts';
import type { PipelineModel, PipelineTask } from '../../../src/engine/pipeline/pipelineTask.ts';
import { extraClassificationMetrics } from '../../../src/jobs/index.ts';
import type { ModelLayer } from '../../../src/jobs/models/modelLayer.ts';
import { openStageMirrorInMemory } from '../../../src/parallel/pipeline/mirrorStorage.ts';
import type { LayerPass } from '../../../src/parallel/pipeline/pipelineLayer.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { systemClock } from '../../../src/util/clock.ts';
import type { Member } from '../worlds.ts';
import { ThreadActivity } from '../../../src/util/activity.ts';

export const LAYERS = 5;

/** The environment of a run on TensorFlow.js's CPU backend, in tabs with enough memory. */
export const ENVIRONMENT = {
  clock: systemClock,
  device: { backend: 'cpu', adapter: 'test' },
  checkDevice: () => {},
  isHidden: () => false,
  activity: new ThreadActivity(systemClock),
  openMirrorStorage: openStageMirrorInMemory,
  /** Writes no files and texts. */
  outputs: {
    waiting: 0,
    initialize: () => Promise.resolve(false),
    enter: () => {},
    applied: () => Promise.resolve(),
    finish: () => Promise.resolve({}),
  },
  tabBytes: Infinity,
} as const;

/** The layer with a buffer, which counts forward passes. */
const WITH_BUFFER = 2;

/** The variables of the layers that a rank has built. */
type BuiltLayers = Map<number, { counts: tf.Variable; passes: tf.Variable | null }>;

export interface CountingMember extends Member<StageStep, PipelineTask> {
  /** Returns the counts, and the passes if it has a buffer, of each layer that this rank has. */
  layers(): Map<number, { counts: number[]; passes: number | null }>;
}

/**
 * A model whose layers have a weight for each sample. A sample's loss is minus the sum of its
 * weights. So with plain SGD and a learning rate of 1, a step adds 1 / (samples of its window) to
 * the weights of its samples in every layer.
 */
function createModel(samples: number, ring: boolean, built: BuiltLayers): PipelineModel {
  const layers = Array.from({ length: LAYERS }, (_, index): ModelLayer => {
    let own: { counts: tf.Variable; passes: tf.Variable | null } | null = null;
    return {
      name: `count${index}`,
      outputShape: [samples + 1],
      size: samples,
      entries: [],
      build: () => {
        const counts = tf.tidy(() => tf.variable(tf.zeros([samples])));
        const passes = index === WITH_BUFFER ? tf.tidy(() => tf.variable(tf.scalar(0), false)) : null;
        own = { counts, passes };
        built.set(index, own);
        return passes ? [counts, passes] : [counts];
      },
      // The input has a one-hot row for each sample, and the sum of the weights so far.
      apply: (x, pass) => {
        const { counts, passes } = own!;
        if (passes && (pass as LayerPass).training) passes.assign(passes.add(1));
        const oneHot = x.slice([0, 0], [-1, samples]);
        const sum = x.slice([0, samples], [-1, 1]);
        return tf.concat([oneHot, sum.add(tf.matMul(oneHot as tf.Tensor2D, counts.reshape([samples, 1])))], 1);
      },
      dispose: () => {
        if (built.get(index) === own) built.delete(index);
        tf.dispose([own!.counts, ...(own!.passes ? [own!.passes] : [])]);
      },
    };
  });
  return { layers, ring, cost: { layers: layers.map(() => 1), logits: 0 }, outputWeights: null };
}

function createTask(
  samples: number,
  ring: boolean,
  built: BuiltLayers,
  contents: LazyFileContents | null,
): PipelineTask {
  return {
    contents,
    ...{ trainSamples: samples, testSamples: 3, classifies: true, classes: undefined },
    ...{ score: extraClassificationMetrics(parseJob({})), text: null, facts: null },
    dataHash: () => Promise.resolve('00'.repeat(8)),
    dataAdvice: 'count again',
    createModel: () => createModel(samples, ring, built),
    load: (indices, size) => {
      const inputs = tf.tidy(() => {
        const rows = new Float32Array(size * (samples + 1));
        for (const [row, index] of indices.entries()) rows[row * (samples + 1) + index] = 1;
        return tf.tensor2d(rows, [size, samples + 1]);
      });
      return Promise.resolve({
        inputs,
        mask: () => undefined,
        losses: () => [(output: tf.Tensor) => output.slice([0, samples], [-1, 1]).sum().neg().asScalar()],
        evaluate: () => Promise.resolve({ lossSum: indices.length, correct: indices.length }),
        dispose: () => {},
      });
    },
  };
}

export async function createCounter(
  name: string,
  {
    samples,
    ring = false,
    tabBytes = Infinity,
    contents = null,
    ...fields
  }: {
    samples: number;
    ring?: boolean;
    tabBytes?: number;
    contents?: LazyFileContents | null;
    stages: number;
    epochs?: number;
  },
): Promise<CountingMember> {
  const built: BuiltLayers = new Map();
  const events: EngineEvent[] = [];
  let heard: ((event: EngineEvent) => void) | null = null;
  const task = createTask(samples, ring, built, contents);
  const plan = parseJob({
    job: 'digits',
    strategy: 'pipeline',
    optimizer: 'sgd',
    learningRate: 1,
    schedule: 'constant',
    batchSize: 2,
    microBatches: 2,
    hashEvery: 2,
    ...fields,
  });
  const options = {
    ...ENVIRONMENT,
    plan,
    emit: (event: EngineEvent) => {
      events.push(event);
      heard?.(event);
    },
  };
  const rank = await StageStep.prepare({ ...options, task, tabBytes });
  const run = new TrainingLoop(rank, options);
  const layers: CountingMember['layers'] = () =>
    new Map(
      [...built].map(([index, { counts, passes }]) => [
        index,
        { counts: Array.from(counts.dataSync()), passes: passes && passes.dataSync()[0]! },
      ]),
    );
  return {
    ...{ name, task, rank, run, events, layers },
    listen: (hear) => (heard = hear),
    values: () => [...layers().values()].flatMap(({ counts }) => counts),
    dispose: () => rank.dispose(),
  };
}
