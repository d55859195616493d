/** Runs with a pipeline against runs of one rank that holds the whole model. */
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { createSamplesPipelineTask } from '../../../src/engine/pipeline/pipelineTask.ts';
import { createJobTask } from '../../../src/engine/tasks/jobTask.ts';
import { createCorpus, gptNetworkMemory, gptNetworkSize, type Dataset } from '../../../src/jobs/index.ts';
import { GlobalCursor } from '../../../src/parallel/data/cursor.ts';
import { oneForwardOneBackward } from '../../../src/parallel/pipeline/schedules.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import type { RunResult } from '../../../src/protocol/runResult.ts';
import { DEFAULT_JOB, parseJob } from '../../../src/spec/job.ts';
import { isPipelineJob } from '../../../src/spec/pipeline.ts';
import { ThreadActivity } from '../../../src/util/activity.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { TEXT, trainStage, trainWhole, wholeTask } from './runPipeline.ts';

/** Trains on `n` ranks; each with the whole model or with a stage. */
async function run(
  n: number,
  fields: Record<string, unknown>,
  emit: (rank: number, event: EngineEvent) => void = () => {},
): Promise<RunResult[]> {
  const job = parseJob(fields);
  const tensors = tf.memory().numTensors;
  const results = await runWorld(n, async (group) => {
    if (isPipelineJob(job)) {
      const { result, outputs } = await trainStage(group, job, { onevent: (event) => emit(group.rank, event) });
      outputs.dispose();
      return result;
    }
    const task = await wholeTask(job);
    const result = await trainWhole(group, job, task);
    task.dispose();
    return result;
  });
  expect(tf.memory().numTensors).toBe(tensors);
  return results;
}

function expectEqualLosses(results: readonly RunResult[], [expected]: readonly RunResult[]): void {
  for (const { losses, stateHash, valLoss, accuracy } of results) {
    expect(losses).toHaveLength(expected!.losses.length);
    for (const [step, loss] of losses.entries()) {
      expect(Math.abs(loss / expected!.losses[step]! - 1)).toBeLessThanOrEqual(1e-5);
    }
    expect(new Set(stateHash).size).toBe(1);
    expect(valLoss).toBeCloseTo(expected!.valLoss!, 4);
    expect(accuracy).toBeCloseTo(expected!.accuracy!, 4);
  }
}

const gpt = { ...DEFAULT_JOB.gpt, layers: 2, heads: 2, width: 16, context: 8 };

test.each([
  ['gpt', 2, '1f1b', { job: 'gpt', gpt }],
  ['gpt in 4 stages', 4, 'gpipe', { job: 'gpt', gpt }],
  ['gpt with dropout', 3, '1f1b', { job: 'gpt', gpt: { ...gpt, dropout: 0.2 }, recompute: true }],
  ['digits with an mlp', 2, 'gpipe', { job: 'digits', hidden: 16, optimizer: 'sgd', clipNorm: 0.5 }],
  ['changed digits', 2, '1f1b', { job: 'digits', hidden: 16, optimizer: 'sgd', augment: ['shift', 'colour'] }],
] as const)('%s on %i ranks learns the same as on one rank', async (_name, n, pipelineSchedule, fields) => {
  const plan = { maxSteps: 6, epochs: 1, schedule: 'cosine' };
  const results = await run(n, {
    ...fields,
    ...plan,
    batchSize: 4,
    strategy: 'pipeline',
    stages: n,
    microBatches: 4,
    pipelineSchedule,
  });
  const { recompute: _, ...without } = { recompute: false, ...fields };
  expectEqualLosses(results, await run(1, { ...without, ...plan, batchSize: 4 * n }));
  expect(results[0]!.pipeline).toMatchObject({ stages: n, replicas: 1, microBatches: 4 });
  expect(results[0]!.pipeline!.layers.every((layers) => layers.length > 0)).toBe(true);
});

test('a rank names its step as its activity during each forward or backward pass, and has no activity between passes', async () => {
  const job = parseJob({
    job: 'digits',
    hidden: 8,
    strategy: 'pipeline',
    stages: 2,
    batchSize: 4,
    microBatches: 3,
    maxSteps: 2,
  });
  const tasks = await runWorld(2, async (group) => {
    const activity = new ThreadActivity(systemClock);
    const seen: string[] = [];
    activity.listeners.add(({ task }) => seen.push(task));
    (await trainStage(group, job, { activity })).outputs.dispose();
    return seen.filter((task, i) => task !== '' || seen[i - 1]?.startsWith('step')).slice(-24);
  });
  const passes = [0, 1].flatMap((step) => Array.from({ length: 6 }, () => [`step ${step}`, '']).flat());
  expect(tasks).toEqual([passes, passes]);
});

/** Returns 24 samples, which are read from files. Those in `broken` cannot be used. */
function filesOf(broken: readonly number[], expected: number[][] = []): Dataset {
  return {
    ...{ size: 24, inputShape: [1, 1, 2] as const, classes: 2, digest: 'files', ahead: 10 },
    contents: { stated: null, crcs: new Map(), nameOf: (file) => `${file}.png` },
    expect: (next) => void expected.push([...next]),
    read: (indices, inputs, labels) => {
      const leftOut = Array.from(indices, (index, row) => (broken.includes(index) ? row : -1)).filter(
        (row) => row >= 0,
      );
      for (const [row, index] of Array.from(indices).entries()) {
        if (!leftOut.includes(row)) inputs.set([index / 24, (index % 5) - 2], 2 * row);
        labels[row] = index % 2;
      }
      return Promise.resolve(leftOut);
    },
  };
}

const FILES_JOB = { job: 'digits', hidden: 8, optimizer: 'sgd', epochs: 2, batchSize: 3 };

test('a sample that a stage cannot use is left out by all stages, as by a rank with the whole model', async () => {
  const job = parseJob({ ...FILES_JOB, strategy: 'pipeline', stages: 2, microBatches: 2 });
  // Two browsers decode different pictures.
  const broken = [[3, 8], [3, 17]]; // prettier-ignore
  const results = await runWorld(2, async (group) => {
    const files = filesOf(broken[group.rank]!);
    const task = createSamplesPipelineTask(job, { train: files, test: files });
    const { result, outputs } = await trainStage(group, job, { task });
    outputs.dispose();
    return result;
  });
  const whole = parseJob({ ...FILES_JOB, batchSize: 6 });
  const expected = await runWorld(1, async (group) => {
    const files = filesOf(broken.flat());
    const task = await createJobTask(whole, { train: files, test: files }, 1);
    const result = await trainWhole(group, whole, task);
    task.dispose();
    return result;
  });
  expectEqualLosses(results, expected);
  expect(expected[0]!.confusion!.counts.flat().reduce((sum, count) => sum + count, 0)).toBe(21);
  expect(results.map(({ confusion }) => confusion)).toEqual([expected[0]!.confusion, expected[0]!.confusion]);
});

test('all stages are told the samples of their next steps, and report how long they wait for these samples', async () => {
  const job = parseJob({ ...FILES_JOB, strategy: 'pipeline', stages: 2, microBatches: 2 });
  const told: number[][][] = [[], []];
  const events: EngineEvent[] = [];
  await runWorld(2, async (group) => {
    const train = filesOf([], told[group.rank]);
    const slow: Dataset = {
      ...train,
      read: async (...args) => {
        await new Promise((done) => setTimeout(done, 20));
        return train.read(...args);
      },
    };
    const task = createSamplesPipelineTask(job, { train: slow, test: filesOf([]) });
    (await trainStage(group, job, { task, onevent: (event) => void events.push(event) })).outputs.dispose();
  });
  const cursor = new GlobalCursor({ datasetSize: 24, seed: job.seed });
  const all = [0, 1].flatMap((epoch) =>
    [0, 6, 12, 18].map((offset) => [...cursor.windowAt({ epoch, offset }, 6).indices]),
  );
  const expected = all.map((window, i) => [...window, ...all.slice(i + 1).flat().slice(0, 10)]); // prettier-ignore
  expect(told).toEqual([expected, expected]);
  const waits = events.flatMap((event) => (event.type === 'step' ? [event.ms.data] : []));
  expect(waits).toHaveLength(16);
  expect(Math.min(...waits)).toBeGreaterThan(10);
});

test('a stage between the first and the last reads no samples, and is told of none', async () => {
  const job = parseJob({ ...FILES_JOB, strategy: 'pipeline', stages: 3, microBatches: 2, batchSize: 2 });
  const told: number[][][] = [[], [], []];
  const read = [0, 0, 0];
  const results = await runWorld(3, async (group) => {
    const files = filesOf([3], told[group.rank]);
    const counted: Dataset = {
      ...files,
      read: (indices, ...rest) => {
        read[group.rank]! += indices.length;
        return files.read(indices, ...rest);
      },
    };
    const task = createSamplesPipelineTask(job, { train: counted, test: counted });
    const { result, outputs } = await trainStage(group, job, { task });
    outputs.dispose();
    return result;
  });
  expect(results[0]!.pipeline!.layers.map((layers) => layers.length)).toEqual([1, 1, 1]);
  expect([read[1], told[1]]).toEqual([0, []]);
  expect(Math.min(read[0]!, read[2]!, told[0]!.length, told[2]!.length)).toBeGreaterThan(0);
  const whole = parseJob({ ...FILES_JOB, batchSize: 6 });
  const expected = await runWorld(1, async (group) => {
    const files = filesOf([3]);
    const task = await createJobTask(whole, { train: files, test: files }, 1);
    const result = await trainWhole(group, whole, task);
    task.dispose();
    return result;
  });
  expectEqualLosses(results, expected);
});

test('two replicas of two stages learn the same as one rank, and a fifth rank waits', async () => {
  const plan = { job: 'gpt', gpt, maxSteps: 4 };
  const results = await run(5, { ...plan, batchSize: 2, strategy: 'pipeline', stages: 2, microBatches: 3 });
  expectEqualLosses(results, await run(1, { ...plan, batchSize: 8 }));
  expect(results[4]!.pipeline).toMatchObject({ stages: 2, replicas: 2 });
  expect(results[4]!.pipeline!.layers[4]).toEqual([]);
});

test('a pipeline with more stages than layers gets one stage per layer', async () => {
  const events: { rank: number; event: EngineEvent }[] = [];
  const job = {
    job: 'digits',
    hidden: 8,
    strategy: 'pipeline',
    stages: 4,
    batchSize: 4,
    microBatches: 5,
    maxSteps: 2,
    hashEvery: 1,
  };
  const results = await run(4, job, (rank, event) => events.push({ rank, event }));
  const { layers } = results[0]!.pipeline!;
  expect(results[0]!.pipeline).toMatchObject({ stages: 3, replicas: 1 });

  const pipelines = events.flatMap(({ event }) => (event.type === 'pipeline' ? [event] : []));
  expect(new Set(pipelines.map((event) => JSON.stringify(event))).size).toBe(1);
  const [pipeline] = pipelines;
  expect(pipeline).toMatchObject({ ranks: 3, replicas: 1, microBatches: 5, schedule: '1f1b', ring: false });
  expect(pipeline!.layers.map(({ name }) => name)).toEqual(layers.flat());
  expect(pipeline!.cut).toEqual(layers.slice(0, 3).map(({ length }) => length));

  // Every rank knows all passes of all ranks, in the order of the plan.
  const plan = oneForwardOneBackward(3, 5);
  const told = events.flatMap(({ event }) => (event.type === 'telemetry' ? [event] : []));
  expect(told.length).toBeGreaterThan(0);
  for (const { ranks } of told) {
    for (const { rank, lanes } of ranks) {
      const passes = lanes.at(-1)!.segments.flatMap(({ kind, pass }) => (pass ? [{ kind, ...pass }] : []));
      expect(passes).toEqual(
        (plan.passes[rank] ?? []).map(({ kind, stage, microBatch }) => ({ kind, stage, microBatch })),
      );
    }
  }
});

test('the memory of a rank includes the activations that it keeps for backward passes', async () => {
  const rows = 8;
  const plan = { job: 'gpt', gpt, maxSteps: 1, batchSize: rows, strategy: 'pipeline', stages: 2, microBatches: 1 };
  // Other tests may have left tensors in this process.
  const { numBytes } = tf.memory();
  const [kept] = await run(1, plan);
  const [recomputed] = await run(1, { ...plan, recompute: true });
  const [keptBytes, recomputedBytes] = [kept, recomputed].map((result) => result!.memoryBytesPerRank[0]! - numBytes);
  const layers = gptNetworkMemory(gptNetworkSize(gpt, (await createCorpus(TEXT, gpt)).tokenizer.size));
  const weights = layers.reduce((sum, layer) => sum + layer.weights, 0);
  const activations = layers.reduce((sum, layer) => sum + layer.activations + layer.composed, 0);
  const outputs = layers.length * gpt.context * gpt.width;
  // Weights on the device and two averages on the CPU. The first forward pass has no gradients.
  const state = 3 * weights;
  expect(keptBytes).toBeGreaterThanOrEqual(4 * (state + rows * activations));
  expect(recomputedBytes).toBeGreaterThanOrEqual(4 * (state + rows * outputs));
  expect(recomputedBytes).toBeLessThan(4 * (state + rows * activations));
});
