/** Exports a run's model or training state as a file. */
import { encodeWeights, type NamedTensor } from '../../formats/weights/weightsFile.ts';
import { encodeCheckpoint } from '../../formats/checkpoint.ts';
import type { EngineCommand } from '../../protocol/commands.ts';
import type { EngineEvent, ModelFile } from '../../protocol/events.ts';
import type { JobSpec } from '../../spec/job.ts';
import { modelFileName, type ExportedModelState, type WeightsFormat } from '../../spec/modelFile.ts';
import { errorMessageOf, UsageError } from '../../util/errors.ts';
import { TextGenerator } from '../tasks/textGenerator.ts';
import type { QueryAnswerer } from '../tasks/inspection.ts';
import { runStateToCheckpoint, type RunCheckpointMetadata } from '../storage/runCheckpoint.ts';
import type { RunState } from '../storage/runState.ts';
import { modelWeightsMetadata } from './modelWeightsMetadata.ts';
import { readModelWeights } from './modelWeights.ts';

/** Copies of a model's weights after `steps` steps. */
export interface ModelWeightsCopy {
  tensors: NamedTensor[];
  steps: number;
  stateHash: string;
}

/** A model that was trained in a job, or is being trained. */
export interface TrainedModel extends QueryAnswerer {
  job: JobSpec;
  /**
   * The weights with the best evaluation result. `null` if the job does not keep them, or if this
   * tab was not in the run at the time of that evaluation.
   */
  best: ModelWeightsCopy | null;
}

/** A run that can be continued. */
export interface ResumableRun {
  snapshot(): Promise<RunState>;
  about: Omit<RunCheckpointMetadata, 'id'>;
  /** This tab's member id. It is part of the checkpoint's name. */
  member: string;
}

/**
 * Returns the event that answers an `export` command. The file contains the state after the latest
 * step. With `which: best`, the file contains the best weights if there are any.
 *
 * @param model `null` if this tab has no model.
 * @param run `null` if there is no run that a checkpoint could continue.
 */
export async function exportModel(
  { id, format, which }: Extract<EngineCommand, { type: 'export' }>,
  model: TrainedModel | null,
  run: ResumableRun | null,
): Promise<EngineEvent> {
  try {
    const file = await (format === 'checkpoint' ? checkpointFile(run) : weightsFile(format, which, model));
    return { type: 'exported', id, file, problem: null };
  } catch (error) {
    return { type: 'exported', id, file: null, problem: errorMessageOf(error) };
  }
}

/** Encodes the run's state as a checkpoint. */
async function checkpointFile(run: ResumableRun | null): Promise<ModelFile> {
  if (run === null) {
    throw new UsageError('There is no run that a checkpoint could continue. Save a checkpoint during a run.');
  }
  const { about, member } = run;
  const state = await run.snapshot();
  const { step } = state.progress;
  const { meta, arrays } = runStateToCheckpoint(state, { ...about, id: `${about.room}-${member}-${step}` });
  return {
    name: modelFileName(about.job, step, 'checkpoint'),
    step,
    content: new Blob([encodeCheckpoint(meta, arrays)]),
  };
}

async function weightsFile(
  format: WeightsFormat,
  which: ExportedModelState,
  trained: TrainedModel | null,
): Promise<ModelFile> {
  if (trained === null) throw new UsageError('This tab has no model yet. Save the model after training has begun.');
  const { job, model, best } = trained;
  const { tensors, steps, stateHash } = which === 'best' && best !== null ? best : await copyModelWeights(trained);
  const isText = model instanceof TextGenerator;
  const about = modelWeightsMetadata({
    job,
    steps,
    stateHash,
    vocabulary: isText ? model.vocabulary : null,
    facts: isText ? null : model.facts,
  });
  const bytes = await encodeWeights(format, tensors, model.jobModel.topology, about);
  return { name: modelFileName(job, steps, format), step: steps, content: new Blob([bytes]) };
}

/** Copies the model's current weights. @throws (rejects) DeviceError if the GPU is lost. */
export async function copyModelWeights({ model, progress }: QueryAnswerer): Promise<ModelWeightsCopy> {
  // `readModelWeights` starts to read before the first await, so the weights belong to exactly this
  // state.
  const { steps, stateHash } = progress();
  return { tensors: await readModelWeights(model.jobModel), steps, stateHash };
}
