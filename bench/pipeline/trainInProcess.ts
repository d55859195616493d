/** Trains a job on ranks of this process, over memory links, with the engine's training loops. */
import { PipelineLoop } from '../../src/engine/pipeline/pipelineLoop.ts';
import { PipelineOutputs } from '../../src/engine/model/pipelineOutputs.ts';
import { gptPipelineTask, loadPipelineTask, type PipelineTask } from '../../src/engine/pipeline/pipelineTask.ts';
import { createGptTask } from '../../src/engine/tasks/gptTask.ts';
import { loadJobTask } from '../../src/engine/tasks/loadJobTask.ts';
import { TrainingLoop } from '../../src/engine/training/trainingLoop.ts';
import { writeFables } from '../../src/jobs/gpt/fables.ts';
import { plainText } from '../../src/jobs/gpt/text.ts';
import { createCorpus, type Corpus } from '../../src/jobs/index.ts';
import { openMemoryStorage } from '../../src/parallel/pipeline/mirrorStorage.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import type { JobSpec } from '../../src/spec/job.ts';
import { isPipeline, TAB_BYTES } from '../../src/spec/pipeline.ts';
import { runWorld } from '../../src/testing/index.ts';
import { systemClock } from '../../src/util/clock.ts';
import { Activity } from '../../src/util/activity.ts';

/** Characters of the text. Its held-out part is evaluated at the end of each run. */
const CHARACTERS = 4000;
const NO_FILES = { files: [], baseUrl: '' };

const common = {
  clock: systemClock,
  device: { backend: 'cpu', adapter: 'Node' } as const,
  emit: () => {},
  checkDevice: () => {},
  isHidden: () => false,
  activity: new Activity(systemClock),
  openMirrorStorage: openMemoryStorage,
  tabBytes: Infinity,
};

function corpusOf({ gpt }: JobSpec): Promise<Corpus> {
  return createCorpus(plainText(writeFables().slice(0, CHARACTERS)), gpt);
}

/** Returns the subject of a job for ranks that hold layers. */
export async function pipelineTaskOf(job: JobSpec): Promise<PipelineTask> {
  return job.job === 'gpt' ? gptPipelineTask(job, await corpusOf(job)) : loadPipelineTask(job, NO_FILES);
}

/** Trains on `n` ranks. Resolves with the result of each rank. */
export function trainInProcess(n: number, job: JobSpec): Promise<RunResult[]> {
  return runWorld(n, async (group) => {
    const world = { group, signal: new AbortController().signal, transport: 'memory' } as const;
    if (isPipeline(job)) {
      const task = await pipelineTaskOf(job);
      const loop = await PipelineLoop.prepare({
        ...common,
        openMirrorStorage: openMemoryStorage,
        tabBytes: TAB_BYTES,
        plan: job,
        task,
        outputs: new PipelineOutputs({ job, task, weights: null, emit: () => {} }),
      });
      try {
        await loop.enter(world);
        return await loop.run();
      } finally {
        loop.dispose();
      }
    }
    const task = job.job === 'gpt' ? createGptTask(job, await corpusOf(job)) : await loadJobTask(job, NO_FILES, n);
    const loop = await TrainingLoop.prepare({ ...common, plan: job, task });
    try {
      await loop.enter(world);
      return await loop.run();
    } finally {
      loop.dispose();
      task.dispose();
    }
  });
}
