/** A built-in job's data and model, as a {@link Task}. */
import { createCorpus, loadData, loadText, type LoadDataOptions } from '../jobs/index.ts';
import type { JobSpec } from '../protocol/job.ts';
import { createGptTask } from './gptTask.ts';
import { createJobTask, type JobTask } from './jobTask.ts';

/** @throws (rejects) DataError where data are missing or not what they should be. */
export async function loadJobTask(job: JobSpec, options: LoadDataOptions, worldSize: number): Promise<JobTask> {
  if (job.job !== 'gpt') return createJobTask(job, await loadData(job, options), worldSize);
  return createGptTask(job, await createCorpus(await loadText(job, options), job.gpt));
}
