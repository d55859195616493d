/**
 * Exports a run's model or training state as a file. Reads such files: a room's first run can start
 * from one.
 */
import { encodeWeights, openWeights, type NamedTensor, type WeightsFile } from '../../formats/weights/weightsFile.ts';
import { decodeCheckpoint, encodeCheckpoint, type CheckpointMeta } from '../../formats/checkpoint.ts';
import type { EngineCommand } from '../../protocol/commands.ts';
import type { EngineEvent, ModelFile } from '../../protocol/events.ts';
import { looksLikeState } from '../../formats/stateFile.ts';
import type { JobSpec } from '../../spec/job.ts';
import { checkModelFileSize, modelFileName, type ModelVersion, type WeightsFormat } from '../../spec/modelFile.ts';
import { DataError, messageOf, PeergradError, UsageError } from '../../util/errors.ts';
import { TextGenerator } from '../tasks/textGenerator.ts';
import type { Answerer } from '../tasks/inspection.ts';
import type { Checkpoints } from '../storage/checkpoints.ts';
import { fromCheckpoint, toCheckpoint, type About } from '../storage/runCheckpoint.ts';
import type { RunState } from '../storage/runState.ts';
import { aboutModel } from './aboutModel.ts';
import { readTensors } from './modelWeights.ts';

/** Copies of a model's weights after `steps` steps. */
export interface ModelCopy {
  tensors: NamedTensor[];
  steps: number;
  stateHash: string;
}

/** A model that was trained in a job, or is being trained. */
export interface TrainedModel extends Answerer {
  job: JobSpec;
  /**
   * The weights with the best evaluation result. `null` if the job does not keep them, or if this
   * tab was not in the run at the time of that evaluation.
   */
  best: ModelCopy | null;
}

/** A run that can be continued. */
export interface OpenRun {
  snapshot(): Promise<RunState>;
  about: Omit<About, 'id'>;
  /** This tab's member id. It is part of the checkpoint's name. */
  member: string;
}

/** The checkpoint or the weights from which a room's first run starts. */
export type Origin =
  | { kind: 'checkpoint'; meta: CheckpointMeta; state: RunState }
  | { kind: 'weights'; weights: WeightsFile };

/** This many bytes at the start of a file show which kind of file it is. */
const HEAD_BYTES = 32;

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
  run: OpenRun | null,
): Promise<EngineEvent> {
  try {
    const file = await (format === 'checkpoint' ? checkpointFile(run) : weightsFile(format, which, model));
    return { type: 'exported', id, file, problem: null };
  } catch (error) {
    return { type: 'exported', id, file: null, problem: messageOf(error) };
  }
}

/** Encodes the run's state as a checkpoint. */
async function checkpointFile(run: OpenRun | null): Promise<ModelFile> {
  if (run === null) {
    throw new UsageError('There is no run that a checkpoint could continue. Save a checkpoint during a run.');
  }
  const { about, member } = run;
  const state = await run.snapshot();
  const { step } = state.progress;
  const { meta, arrays } = toCheckpoint(state, { ...about, id: `${about.room}-${member}-${step}` });
  return {
    name: modelFileName(about.job, step, 'checkpoint'),
    step,
    content: new Blob([encodeCheckpoint(meta, arrays)]),
  };
}

async function weightsFile(
  format: WeightsFormat,
  which: ModelVersion,
  trained: TrainedModel | null,
): Promise<ModelFile> {
  if (trained === null) throw new UsageError('This tab has no model yet. Save the model after training has begun.');
  const { job, model, best } = trained;
  const { tensors, steps, stateHash } = which === 'best' && best !== null ? best : await copyModel(trained);
  const isText = model instanceof TextGenerator;
  const about = aboutModel({
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
export async function copyModel({ model, progress }: Answerer): Promise<ModelCopy> {
  // `readTensors` starts to read before the first await, so the weights belong to exactly this
  // state.
  const { steps, stateHash } = progress();
  return { tensors: await readTensors(model.jobModel), steps, stateHash };
}

/**
 * Returns the checkpoint or weights that a command names for the room's first run; `null` if the
 * command names neither.
 *
 * @throws (rejects) DataError if the file cannot be read, or if this browser has no such
 *   checkpoint.
 */
export async function readOriginOf(
  command: Extract<EngineCommand, { type: 'create' | 'join' }>,
  openCheckpoints: () => Promise<Pick<Checkpoints, 'load'>>,
): Promise<Origin | null> {
  if (command.type === 'create' && command.resume !== undefined) {
    const checkpoint = await (await openCheckpoints()).load(command.resume);
    return { kind: 'checkpoint', meta: checkpoint.meta, state: fromCheckpoint(checkpoint) };
  }
  return command.origin ? readOrigin(command.origin) : null;
}

/**
 * Reads a checkpoint or weights.
 *
 * @throws (rejects) DataError if `file` cannot be read, is truncated or damaged, or is neither a
 *   checkpoint nor weights.
 */
export async function readOrigin(file: File): Promise<Origin> {
  try {
    const head = new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
    if (looksLikeState(head)) {
      checkModelFileSize(file.name, file.size);
      const checkpoint = await decodeCheckpoint(file.name, file);
      return { kind: 'checkpoint', meta: checkpoint.meta, state: fromCheckpoint(checkpoint) };
    }
    return { kind: 'weights', weights: await openWeights(file.name, file) };
  } catch (error) {
    if (error instanceof PeergradError) throw error;
    throw new DataError(
      `${file.name} could not be read (${messageOf(error)}). Choose the file again.`,
      {},
      { cause: error },
    );
  }
}
