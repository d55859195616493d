/** Runs a job with a pipeline over memory links. */
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { StageStep } from '../../../src/engine/pipeline/stageStep.ts';
import { PipelineOutputs } from '../../../src/engine/model/pipelineOutputs.ts';
import {
  createGptPipelineTask,
  loadPipelineTask,
  type PipelineTask,
} from '../../../src/engine/pipeline/pipelineTask.ts';
import { createGptTask } from '../../../src/engine/tasks/gptTask.ts';
import type { JobTask } from '../../../src/engine/tasks/jobTask.ts';
import { loadJobTask } from '../../../src/engine/tasks/loadJobTask.ts';
import { ReplicaStep } from '../../../src/engine/training/replicaStep.ts';
import { TrainingLoop } from '../../../src/engine/training/trainingLoop.ts';
import { writeFables } from '../../../src/jobs/gpt/fables.ts';
import { textInMemory } from '../../../src/jobs/gpt/text.ts';
import { createCorpus } from '../../../src/jobs/index.ts';
import type { WeightsFile } from '../../../src/formats/weights/weightsFile.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import type { RunResult } from '../../../src/protocol/runResult.ts';
import type { JobSpec } from '../../../src/spec/job.ts';
import type { ThreadActivity } from '../../../src/util/activity.ts';
import { ENVIRONMENT } from './countingPipeline.ts';

export const TEXT = textInMemory(writeFables().slice(0, 3000));

interface RankOptions {
  weights?: WeightsFile | null;
  /** Receives this rank's events. `outputs` answers queries. */
  onevent?: (event: EngineEvent, outputs: PipelineOutputs) => void;
  activity?: ThreadActivity;
  task?: PipelineTask;
}

/** Trains one rank of a run with a pipeline. The caller disposes of the outputs. */
export async function trainStage(
  group: ProcessGroup,
  job: JobSpec,
  { weights = null, onevent, activity = ENVIRONMENT.activity, task: given }: RankOptions = {},
): Promise<{ result: RunResult; outputs: PipelineOutputs }> {
  const task =
    given ??
    (job.job === 'gpt'
      ? createGptPipelineTask(job, await createCorpus(TEXT, job.gpt))
      : await loadPipelineTask(job, { files: [], baseUrl: '' }));
  const emit = (event: EngineEvent): void => onevent?.(event, outputs);
  const outputs: PipelineOutputs = new PipelineOutputs({ job, task, weights, emit });
  const options = { ...ENVIRONMENT, activity, plan: job, emit };
  const rank = await StageStep.prepare({ ...options, task, outputs });
  const loop = new TrainingLoop(rank, options);
  await loop.enter({
    group,
    signal: new AbortController().signal,
    transport: { webrtc: 0, server: 0, memory: group.worldSize },
  });
  const result = await loop.run();
  rank.dispose();
  return { result, outputs };
}

/** Creates the task of a rank that has the whole model. */
export async function wholeTask(job: JobSpec): Promise<JobTask> {
  return job.job === 'gpt'
    ? createGptTask(job, await createCorpus(TEXT, job.gpt))
    : loadJobTask(job, { files: [], baseUrl: '' }, 1);
}

/** Trains a rank that has the whole model of `task`. */
export async function trainWhole(group: ProcessGroup, job: JobSpec, task: JobTask): Promise<RunResult> {
  const options = { ...ENVIRONMENT, plan: job, emit: () => {} };
  const rank = await ReplicaStep.prepare({ ...options, task });
  const loop = new TrainingLoop(rank, options);
  await loop.enter({
    group,
    signal: new AbortController().signal,
    transport: { webrtc: 0, server: 0, memory: group.worldSize },
  });
  const result = await loop.run();
  rank.dispose();
  return result;
}
