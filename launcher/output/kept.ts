/** Tells the user of `run` what remains of a run, and how to keep more. */
import { canJobSaveCheckpoints, endsWithModel, type JobSpec } from '../../src/spec/job.ts';
import { MODEL_FILE_ENDINGS, weightsFormatsOfJob } from '../../src/spec/modelFile.ts';

/** Returns a line if the run ends with a model that is not written to a file, otherwise `null`. */
export function discardsModel(job: JobSpec, out: string | undefined): string | null {
  if (out !== undefined || !endsWithModel(job)) return null;
  const endings = weightsFormatsOfJob(job).map((format) => MODEL_FILE_ENDINGS[format]);
  return `The final model will be discarded. To save it, pass --out FILE, where FILE ends in ${endings.join(', ')}.`;
}

/**
 * Returns a line for an interrupted run; `null` if the run has nothing to keep.
 *
 * @param written the checkpoint that this run has written, or `null`.
 */
export function keptOf(job: JobSpec, checkpoint: string | undefined, written: string | null): string | null {
  if (written !== null) return `The latest checkpoint is ${written}. To continue, pass --resume ${written}.`;
  if (checkpoint !== undefined)
    return `The run was interrupted before its first checkpoint, so ${checkpoint} was not written.`;
  if (!endsWithModel(job)) return null;
  return canJobSaveCheckpoints(job)
    ? 'The interrupted run was not saved. To continue such a run later, pass --checkpoint FILE.'
    : 'The interrupted run was not saved, and this run has no checkpoints.';
}
