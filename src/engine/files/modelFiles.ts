/** Exports a run's model or state as a file, and reads such a file as the origin of a run. */
import type { KeptModel } from '../../jobs/index.ts';
import {
  decodeWeights,
  encodeWeights,
  FACTS,
  VOCABULARY,
  type NamedTensor,
  type WeightsFile,
} from '../../jobs/weights/weightsFile.ts';
import { createLayout } from '../../parallel/ddp/buckets.ts';
import { readVariables } from '../../parallel/ddp/flatten.ts';
import {
  decodeCheckpoint,
  encodeCheckpoint,
  looksLikeCheckpoint,
  type CheckpointMeta,
} from '../../protocol/checkpoint.ts';
import type { EngineCommand } from '../../protocol/commands.ts';
import type { EngineEvent, ModelFile } from '../../protocol/events.ts';
import type { JobSpec } from '../../spec/job.ts';
import { MAX_MODEL_FILE_BYTES, modelFileName, type ModelVersion, type WeightsFormat } from '../../spec/modelFile.ts';
import { DataError, messageOf, PeergradError, UsageError } from '../../util/errors.ts';
import { TextGenerator } from '../inference/textGenerator.ts';
import type { Answerer } from '../inference/inspection.ts';
import type { Checkpoints } from '../storage/checkpoints.ts';
import { fromCheckpoint, toCheckpoint, type About } from '../storage/runCheckpoint.ts';
import type { RunState } from '../training/runState.ts';

/** A model's weights as they were after a step. */
export interface ModelCopy {
  tensors: NamedTensor[];
  steps: number;
  stateHash: string;
}

/** A model of a job that was trained, or is being trained. */
export interface TrainedModel extends Answerer {
  job: JobSpec;
  /**
   * The weights of the best test; `null` if the job does not ask for them, or this tab was not
   * there.
   */
  best: ModelCopy | null;
}

/** A run that can be continued. */
export interface OpenRun {
  snapshot(): Promise<RunState>;
  about: Omit<About, 'id'>;
  /** Member id of this tab: a part of the checkpoint's name. */
  member: string;
}

/** The checkpoint or weights that a room's first run begins with. */
export type Origin =
  { kind: 'checkpoint'; meta: CheckpointMeta; state: RunState } | { kind: 'weights'; weights: WeightsFile };

/** First bytes of a file, by which its kind is detected. */
const HEAD_BYTES = 32;

/**
 * Returns the event that answers `command`, with the state after the last applied step.
 *
 * @param model `null` if there is no model.
 * @param run `null` if there is no run to continue.
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

/** Encodes the state as a checkpoint. */
async function checkpointFile(run: OpenRun | null): Promise<ModelFile> {
  if (run === null) {
    throw new UsageError('There is no run to continue: a checkpoint can be saved during a run.');
  }
  const { about, member } = run;
  const state = await run.snapshot();
  const { step } = state.progress;
  const { meta, arrays } = toCheckpoint(state, { ...about, id: `${about.room}-${member}-${step}` });
  return { name: modelFileName(about.job, step, 'checkpoint'), step, bytes: encodeCheckpoint(meta, arrays) };
}

async function weightsFile(
  format: WeightsFormat,
  which: ModelVersion,
  trained: TrainedModel | null,
): Promise<ModelFile> {
  if (trained === null) throw new UsageError('This tab has no model yet: save it once training has begun.');
  const { job, model, best } = trained;
  const { tensors, steps, stateHash } = which === 'best' && best !== null ? best : await copyModel(trained);
  const about = {
    'peergrad.job': JSON.stringify(job),
    'peergrad.step': String(steps),
    'peergrad.stateHash': stateHash,
    'peergrad.layout': 'TensorFlow: [in, out], [height, width, in, out]',
    ...(model instanceof TextGenerator
      ? { [VOCABULARY]: JSON.stringify(model.vocabulary) }
      : model.facts && { [FACTS]: JSON.stringify(model.facts) }),
  };
  const bytes = await encodeWeights(format, tensors, model.jobModel.topology, about);
  return { name: modelFileName(job, steps, format), step: steps, bytes };
}

/** Copies the model's current weights. @throws (rejects) DeviceError if the GPU is lost. */
export async function copyModel({ model, progress }: Answerer): Promise<ModelCopy> {
  // No await in between: the weights are those of this state.
  const { steps, stateHash } = progress();
  return { tensors: await readTensors(model.jobModel), steps, stateHash };
}

/** Reads the model's current weights. @throws (rejects) DeviceError if the GPU is lost. */
async function readTensors({ names, variables }: KeptModel): Promise<NamedTensor[]> {
  const { slots, size } = createLayout(variables.map((variable) => variable.size));
  const flat = new Float32Array(size);
  await readVariables(variables, slots, flat);
  return slots
    .map(({ parameter, offset, size: length }) => ({ parameter, values: flat.slice(offset, offset + length) }))
    .sort((a, b) => a.parameter - b.parameter)
    .map(({ parameter, values }) => ({ name: names[parameter]!, shape: variables[parameter]!.shape, values }));
}

/**
 * Returns the checkpoint or weights that a command names for the room's first run; `null` if it
 * names none.
 *
 * @throws (rejects) DataError if it cannot be read, or this browser has no such checkpoint.
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
  if (file.size > MAX_MODEL_FILE_BYTES) {
    throw new DataError(`${file.name} has ${file.size} bytes, more than the ${MAX_MODEL_FILE_BYTES} that a tab takes.`);
  }
  try {
    const head = new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
    if (looksLikeCheckpoint(head)) {
      const checkpoint = await decodeCheckpoint(file.name, file);
      return { kind: 'checkpoint', meta: checkpoint.meta, state: fromCheckpoint(checkpoint) };
    }
    return { kind: 'weights', weights: await decodeWeights(file.name, new Uint8Array(await file.arrayBuffer())) };
  } catch (error) {
    if (error instanceof PeergradError) throw error;
    throw new DataError(`${file.name} could not be read (${messageOf(error)}): choose it again.`, {}, { cause: error });
  }
}
