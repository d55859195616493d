/** Trains on digits in a world over memory links, with TensorFlow.js's current backend. */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createJobTask } from '../../src/engine/tasks/jobTask.ts';
import { ReplicaStep } from '../../src/engine/training/replicaStep.ts';
import { TrainingLoop } from '../../src/engine/training/trainingLoop.ts';
import { loadData, type Dataset } from '../../src/jobs/index.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import { parseJob } from '../../src/spec/job.ts';
import { runWorld } from '../../src/testing/index.ts';
import { systemClock } from '../../src/util/clock.ts';

type Fields = Parameters<typeof parseJob>[0];

/** Trains in a world of `n` ranks. Returns the results and events of each rank. */
export async function train(
  n: number,
  fields: Fields,
  {
    trainSize = 20_000,
    testSize = 40,
    signal = new AbortController().signal,
    spoil = (_inputs: Float32Array): unknown => null,
    onStep = (_rank: number, _step: number): unknown => null,
    onFailure = (_error: unknown): unknown => null,
    tamper = (_replica: ReplicaStep, _group: ProcessGroup) => {},
    clock = systemClock,
  } = {},
): Promise<{ results: RunResult[]; events: EngineEvent[][] }> {
  // The speeds of ranks in one thread are random, so shares by speed would be random, too.
  const job = parseJob({ balance: 'equal', ...fields });
  const { train: all, test: heldOut } = await loadData(job, { baseUrl: 'http://localhost/' });
  const { inputShape, classes } = all;
  const cut: Dataset = {
    ...{ inputShape, classes, size: trainSize },
    read: async (indices, inputs, labels) => {
      await all.read(indices, inputs, labels);
      spoil(inputs);
    },
  };
  const some: Dataset = { inputShape, classes, size: testSize, read: heldOut.read.bind(heldOut) };
  const events: EngineEvent[][] = Array.from({ length: n }, () => []);
  const results = await runWorld(n, async (group) => {
    const task = await createJobTask(job, { train: cut, test: some }, n);
    let replica: ReplicaStep | null = null;
    try {
      const options = {
        ...{ plan: job, clock },
        device: { backend: 'cpu', adapter: 'test' } as const,
        emit: async (event: EngineEvent) => {
          events[group.rank]!.push(event);
          if (event.type === 'step') await onStep(group.rank, event.step);
        },
      };
      replica = await ReplicaStep.prepare({ ...options, task, checkDevice: () => {} });
      const run = new TrainingLoop(replica, options);
      await run.enter({ group, signal, transport: { webrtc: 0, server: 0, memory: n } });
      tamper(replica, group);
      return await run.run();
    } catch (error) {
      onFailure(error);
      throw error;
    } finally {
      replica?.dispose();
      task.dispose();
    }
  });
  return { results, events };
}

/** |a - b| / |b|. */
export const relative = (a: number, b: number): number => Math.abs(a - b) / Math.abs(b);
