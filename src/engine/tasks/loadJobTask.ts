/** Loads a built-in job's data and model as a {@link TrainingTask}. */
import { loadCorpus, loadData } from '../../jobs/index.ts';
import { type LoadDataOptions } from '../../jobs/fileSource.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { createGptTask } from './gptTask.ts';
import { createJobTask, type JobTask } from './jobTask.ts';

/**
 * @param vocabulary the vocabulary of a resumed language model
 * @throws (rejects) DataError if data are missing or invalid.
 */
export async function loadJobTask(
  job: JobSpec,
  options: LoadDataOptions,
  worldSize: number,
  vocabulary: Vocabulary | null = null,
): Promise<JobTask> {
  if (job.job !== 'gpt') return createJobTask(job, await loadData(job, options), worldSize);
  return createGptTask(job, await loadCorpus(job, options, vocabulary));
}
