/** Steps whose samples cannot be used, such as broken pictures. Memory links, the CPU backend. */
import { describe, expect, test } from 'vitest';
import { createSamplesPipelineTask } from '../../../src/engine/pipeline/pipelineTask.ts';
import { createJobTask } from '../../../src/engine/tasks/jobTask.ts';
import type { Dataset } from '../../../src/jobs/index.ts';
import type { RunResult } from '../../../src/protocol/runResult.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { isPipelineJob } from '../../../src/spec/pipeline.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { trainStage, trainWhole } from '../pipeline/runPipeline.ts';

/** Returns 24 samples. If they are broken, none of them can be used. */
function filesOf(areBroken: boolean): Dataset {
  return {
    ...{ size: 24, inputShape: [2, 2, 1] as const, classes: 2, digest: 'files' },
    read: (indices, inputs, labels) => {
      const leftOut: number[] = [];
      for (const [row, index] of Array.from(indices).entries()) {
        labels[row] = index % 2;
        inputs.fill(0, 4 * row, 4 * row + 4);
        if (areBroken) leftOut.push(row);
        else inputs.set([index / 24, (index % 5) - 2, (index % 3) - 1, 1], 4 * row);
      }
      return Promise.resolve(leftOut);
    },
  };
}

/** Trains two ranks. Those in `broken` cannot use any sample. */
async function train(fields: Record<string, unknown>, broken: readonly number[]): Promise<RunResult[]> {
  const job = parseJob({ job: 'digits', model: 'mlp', hidden: 8, batchSize: 3, epochs: 1, ...fields });
  return runWorld(2, async (group) => {
    const files = filesOf(broken.includes(group.rank));
    if (isPipelineJob(job)) {
      const task = createSamplesPipelineTask(job, { train: files, test: files });
      const { result, outputs } = await trainStage(group, job, { task });
      outputs.dispose();
      return result;
    }
    const task = await createJobTask(job, { train: files, test: files }, 2);
    const result = await trainWhole(group, job, task);
    task.dispose();
    return result;
  });
}

const METHODS = [
  { strategy: 'ddp', optimizer: 'adam' },
  { strategy: 'ddp', optimizer: 'adamw', clipNorm: 1, shardOptimizer: true },
  { strategy: 'ddp', optimizer: 'momentum', codec: 'int8' },
  { strategy: 'ddp', optimizer: 'sgd', codec: 'powersgd' },
  { strategy: 'ddp', optimizer: 'sgd', codec: 'fp16', model: 'cnn' },
  { strategy: 'parameter-server', optimizer: 'nesterov' },
  { strategy: 'async-parameter-server', optimizer: 'adam' },
  { strategy: 'local-sgd', optimizer: 'adam', syncEvery: 2 },
  { strategy: 'diloco', optimizer: 'adam', syncEvery: 2 },
  { strategy: 'streaming-diloco', optimizer: 'adam', syncEvery: 2 },
  { strategy: 'sparseloco', optimizer: 'adam', syncEvery: 2 },
  { strategy: 'pipeline', optimizer: 'adam', stages: 2, microBatches: 2, clipNorm: 1 },
];

describe.each(METHODS.map((fields) => [Object.values(fields).slice(0, 3).join(', '), fields] as const))(
  'with %s',
  (_, fields) => {
    test.each([
      ['all ranks', [0, 1]],
      ['one rank', [1]],
    ])('a run in which %s cannot use any sample takes all steps, with finite numbers', async (_name, broken) => {
      const results = await train(fields, broken);
      const usesSome = !broken.includes(0) && fields.strategy !== 'pipeline';
      for (const { steps, losses, stateHash, valLoss } of results) {
        expect([steps, new Set(stateHash).size]).toEqual([4, 1]);
        expect(losses.map((loss) => (usesSome ? loss > 0 && loss < 10 : loss === 0))).toEqual(Array(4).fill(true));
        expect(valLoss === null ? null : valLoss > 0 && valLoss < 10).toBe(usesSome || null);
      }
      expect(results[1]!.losses).toEqual(results[0]!.losses);
    });
  },
);
