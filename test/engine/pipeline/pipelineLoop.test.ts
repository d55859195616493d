/** Runs with a pipeline against runs of one rank that holds the whole model. */
import * as tf from '@tensorflow/tfjs';
import { beforeAll, expect, test } from 'vitest';
import type { RunResult } from '../../../src/protocol/runResult.ts';
import { DEFAULT_JOB, parseJob } from '../../../src/spec/job.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { trainStage, trainWhole, wholeTask } from './runPipeline.ts';

beforeAll(() => tf.setBackend('cpu'));

/** Trains on `n` ranks; with pipeline 1 as always. */
async function run(n: number, fields: Record<string, unknown>): Promise<RunResult[]> {
  const job = parseJob(fields);
  const tensors = tf.memory().numTensors;
  const results = await runWorld(n, async (group) => {
    if (job.pipeline > 1) {
      const { result, outputs } = await trainStage(group, job);
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
] as const)('%s on %i ranks learns what one rank learns', async (_name, n, pipelineSchedule, fields) => {
  const plan = { maxSteps: 6, epochs: 1, schedule: 'cosine' };
  const results = await run(n, { ...fields, ...plan, batchSize: 4, pipeline: n, microBatches: 4, pipelineSchedule });
  const { recompute: _, ...without } = { recompute: false, ...fields };
  expectEqualLosses(results, await run(1, { ...without, ...plan, batchSize: 4 * n }));
  expect(results[0]!.pipeline).toMatchObject({ stages: n, replicas: 1, microBatches: 4 });
  expect(results[0]!.pipeline!.layers.every((layers) => layers.length > 0)).toBe(true);
});

test('two replicas of two stages learn what one rank learns, and a rank that is left over waits', async () => {
  const plan = { job: 'gpt', gpt, maxSteps: 4 };
  const results = await run(5, { ...plan, batchSize: 2, pipeline: 2, microBatches: 3 });
  expectEqualLosses(results, await run(1, { ...plan, batchSize: 8 }));
  expect(results[4]!.pipeline).toMatchObject({ stages: 2, replicas: 2 });
  expect(results[4]!.pipeline!.layers[4]).toEqual([]);
});

test('more stages than layers become as many stages as layers', async () => {
  const results = await run(4, { job: 'digits', hidden: 8, pipeline: 4, batchSize: 4, maxSteps: 2 });
  expect(results[0]!.pipeline).toMatchObject({ stages: 3, replicas: 1 });
});
