/**
 * Checkpoints for a program with its own training loop: the model, the optimizer, and other data
 * that the loop needs to continue.
 */
import * as v from 'valibot';
import { encodeValueAsText, decodeValueFromText } from '../../collectives/objects/encoding.ts';
import { checkSameOptimizer, type Optimizer, type OptimizerState } from '../../optim/optimizer.ts';
import { createFlatLayout, rearrangeParameters, type FlatLayout } from '../../parallel/flat/buckets.ts';
import type { DistributedDataParallel } from '../../parallel/ddp/distributedDataParallel.ts';
import type { TensorflowOptimizer } from '../../parallel/flat/optimizerOf.ts';
import { countSchema } from '../../protocol/scalars.ts';
import { decodeStateFile, encodeStateFile, type StateArray } from '../../formats/stateFile.ts';
import { checkModelFileSize } from '../../spec/modelFile.ts';
import { DataError, errorReasonOf, UsageError } from '../../util/errors.ts';
import { readFileSource, type FileSource } from './fileSource.ts';
import { loadOnAllRanks, type LoadedContents } from './loadOnAllRanks.ts';
import {
  checkModelSize,
  readModelValues,
  storableModelOf,
  writeModelValues,
  type LocalModel,
  type SavedModel,
  type StorableModel,
} from './storedModel.ts';
import { matchStorableWeights, requireFileSource, type LoadOptions, type SaveOptions } from './weights.ts';

/** The parts of a training loop that a checkpoint has. */
export interface CheckpointState<M extends SavedModel = SavedModel> {
  model: M;
  /**
   * The optimizer that is passed to `step` of the DDP or DataParallel. If the model is not wrapped
   * by one of these, a flat optimizer.
   */
  optimizer?: Optimizer | TensorflowOptimizer;
  /**
   * Plain data from which the loop continues, such as `{ epoch, step }` for
   * `sampler.setEpoch(epoch)`. Default null.
   */
  progress?: unknown;
}

const KIND = 'library';

const Meta = v.strictObject({
  kind: v.literal(KIND),
  /** The tensors: parameters in forward order, then buffers. */
  tensors: v.array(v.strictObject({ name: v.string(), shape: v.array(countSchema) })),
  /**
   * Order of the parameters in the optimizer's arrays. `null` if the ranks had not yet agreed on an
   * order.
   */
  order: v.nullable(v.array(countSchema)),
  /** Name of the optimizer's state. */
  optimizer: v.nullable(v.string()),
  /** Plain data as text, in the encoding that object collectives use. */
  progress: v.string(),
});

/** Everything in a checkpoint except the tensors and the optimizer's arrays. */
interface Facts {
  order: number[] | null;
  optimizer: Pick<OptimizerState, 'name' | 'scalars'> | null;
  /** Sizes of the optimizer's arrays. */
  sizes: number[];
  progress: unknown;
}

/**
 * Encodes a model, its optimizer and the progress of the loop as a file (`torch.save` of their
 * state dicts). A loop that loads it continues with the same bits. The file has the state at the
 * time of the call. It does not contain gradients that `noSync` keeps, nor residuals of codecs.
 *
 * With a DDP, rank 0 resolves with the file, and the other ranks resolve with `null`. The ranks do
 * not communicate, because their replicas are equal.
 *
 * @throws (rejects) UsageError for an optimizer that {@link optimizerOf} rejects, progress that is
 *   not plain data, or a variable that is not float32; DataError if the file has more than 512 MiB;
 *   DeviceError if the GPU is lost.
 *
 * @example
 * ```ts
 * const ddp = await DistributedDataParallel.create(model, group);
 * const bytes = await saveCheckpoint({ model: ddp, progress: { epoch: 3 } });
 * if (bytes) downloadFile('run.checkpoint', bytes); // on rank 0
 * ```
 */
export async function saveCheckpoint(
  state: CheckpointState<DistributedDataParallel>,
  options?: SaveOptions,
): Promise<Uint8Array<ArrayBuffer> | null>;
export async function saveCheckpoint(
  state: CheckpointState<LocalModel>,
  options?: SaveOptions,
): Promise<Uint8Array<ArrayBuffer>>;
export async function saveCheckpoint(
  { model, optimizer, progress = null }: CheckpointState,
  { rank = 0 }: SaveOptions = {},
): Promise<Uint8Array<ArrayBuffer> | null> {
  const stored = storableModelOf(model);
  const { ddp } = stored;
  // This is checked before other ranks return, so that all ranks reject, although only one rank
  // writes the file.
  if (optimizer) checkWhole(optimizer);
  if (ddp && ddp.group.rank !== rank) return null;
  const flat = optimizer && flatOptimizerOf(stored, optimizer).state();
  checkModelSize(stored, flat ? [flat.scalars, ...flat.slots] : []);
  // The arrays are copied, because the loop may continue while buffers are read from the GPU.
  const arrays: StateArray[] = flat ? [flat.scalars.slice(), ...flat.slots.map((slot) => slot.slice())] : [];
  const meta: Omit<v.InferOutput<typeof Meta>, 'tensors'> = {
    kind: KIND,
    order: ddp?.isOrdered ? ddp.parameterOrder : null,
    optimizer: flat?.name ?? null,
    progress: encodeProgress(progress),
  };
  const tensors = await readModelValues(stored);
  const named = tensors.map(({ name, shape }) => ({ name, shape }));
  const bytes = encodeStateFile({ ...meta, tensors: named }, [...tensors.map(({ values }) => values), ...arrays]);
  checkModelFileSize('The file', bytes.length);
  return bytes;
}

/**
 * Loads a file of {@link saveCheckpoint} into a model and an optimizer of the same kind, and
 * resolves with the progress. If any part does not fit, nothing is changed. Without `optimizer`,
 * only the model is loaded.
 *
 * With a DDP, every rank calls it. Rank 0 reads its file and sends the state; other ranks may pass
 * `null`. If a rank cannot load the state, all ranks reject. The number of ranks may have changed
 * since the checkpoint was saved. A checkpoint of a DDP can be loaded into a model without a DDP,
 * and vice versa.
 *
 * @param source a `File`, other bytes, or an address; at most 512 MiB.
 * @throws (rejects) DataError if the file is damaged or cannot be read, a tensor is missing,
 *   additional or of a different shape, or the file has no state of an optimizer; MismatchError if
 *   the file has the state of a different optimizer.
 *
 * @example
 * ```ts
 * const ddp = await DistributedDataParallel.create(model, group);
 * const file = await saveCheckpoint({ model: ddp, progress: { epoch: 3 } });
 * const { epoch } = await loadCheckpoint<{ epoch: number }>({ model: ddp }, file);
 * ```
 */
export async function loadCheckpoint<T = unknown>(
  { model, optimizer }: Omit<CheckpointState, 'progress'>,
  source: FileSource | null,
  { rank = 0, signal }: LoadOptions = {},
): Promise<T> {
  const stored = storableModelOf(model);
  const { ddp, variables } = stored;
  if (optimizer) checkWhole(optimizer);
  const flat = optimizer && flatOptimizerOf(stored, optimizer);
  const read = (): Promise<LoadedContents<Facts>> => readCheckpoint(requireFileSource(source), stored, signal);
  const check = (facts: Facts): void => checkOptimizer(flat, facts);
  const loaded = ddp ? await loadOnAllRanks(ddp.group, { rank, signal }, read, check) : await read();
  if (!ddp) check(loaded.facts);

  const { order, optimizer: of, progress } = loaded.facts;
  const slots = loaded.arrays.slice(variables.length);
  ddp?.reorder(order);
  ddp?.resetErrorFeedback();
  writeModelValues(stored, loaded.arrays.slice(0, variables.length));
  // Without a DDP, the arrays of the optimizer have the parameters in a fixed order.
  if (!ddp && order) for (const slot of slots) rearrangeParameters(slot, layoutOf(stored, order), layoutOf(stored));
  // The call of `flatOptimizerOf` arranges the optimizer's averages in the new order of the model.
  // After that, they can be replaced.
  if (optimizer && of) flatOptimizerOf(stored, optimizer).load({ ...of, slots });
  return progress as T;
}

/** @throws UsageError if the optimizer's averages are distributed over several ranks. */
function checkWhole(optimizer: object): void {
  if (!('consolidateStateDict' in optimizer)) return;
  throw new UsageError(
    'A ZeroRedundancyOptimizer has only the averages of its own shard, so it cannot be saved here. Pass the model without it. Call ' +
      'consolidateStateDict on every rank, and save stateDict of rank 0 yourself; loadStateDict takes it.',
  );
}

/** @throws UsageError if the state of the optimizer cannot be read. */
function flatOptimizerOf({ flat }: StorableModel, optimizer: Optimizer | TensorflowOptimizer): Optimizer {
  if (flat) return flat.flatOptimizer(optimizer);
  if ('apply' in optimizer) return optimizer;
  throw new UsageError(
    `The state of ${optimizer.getClassName()} cannot be read exactly. Wrap the model in DistributedDataParallel or ` +
      'DataParallel, or train with the optimizer that optimizerOf returns.',
  );
}

async function readCheckpoint(
  source: FileSource,
  stored: StorableModel,
  signal: AbortSignal | undefined,
): Promise<LoadedContents<Facts>> {
  const { name, bytes } = await readFileSource(source, signal);
  const { meta, arrays } = await decodeStateFile(name, new Blob([bytes]), Meta);
  const { tensors, order, optimizer, progress } = meta;
  const values = arrays.slice(0, tensors.length);
  const [scalars, ...slots] = arrays.slice(tensors.length);
  if (values.length < tensors.length || !values.every(isFloat32) || !slots.every(isFloat32)) throw damaged(name);
  if ((optimizer === null) !== (scalars === undefined)) throw damaged(name);
  if (scalars !== undefined && !isFloat64(scalars)) throw damaged(name);
  const named = tensors.map(({ name: own, shape }, i) => ({ name: own, shape, values: values[i]! }));
  const fitting = matchStorableWeights({ file: name, format: 'safetensors', tensors: named, notes: [] }, stored);
  if (fitting.some(({ length }, i) => length !== stored.variables[i]!.size)) throw damaged(name);
  if (order && !isPermutation(order, stored.parameters.length)) throw damaged(name);
  return {
    facts: {
      order,
      optimizer: optimizer === null || scalars === undefined ? null : { name: optimizer, scalars },
      sizes: slots.map(({ length }) => length),
      progress: decodeProgress(name, progress),
    },
    arrays: [...fitting, ...slots],
  };
}

/**
 * @throws DataError if the checkpoint has no state for the optimizer; MismatchError if it has the
 *   state of a different optimizer.
 */
function checkOptimizer(flat: Optimizer | undefined, { optimizer, sizes }: Facts): void {
  if (!flat) return;
  if (!optimizer) {
    throw new DataError('The checkpoint has no optimizer. Do not pass an optimizer, or choose another checkpoint.');
  }
  checkSameOptimizer(flat.state(), { ...optimizer, slots: sizes.map((size) => new Float32Array(size)) });
}

function layoutOf({ parameters }: StorableModel, order?: readonly number[]): FlatLayout {
  return createFlatLayout(
    parameters.map(({ size }) => size),
    { order },
  );
}

function encodeProgress(progress: unknown): string {
  try {
    return encodeValueAsText(progress);
  } catch (error) {
    throw new UsageError(`The progress cannot be saved: ${errorReasonOf(error)}. Pass plain data.`);
  }
}

function decodeProgress(name: string, progress: string): unknown {
  try {
    return decodeValueFromText(progress);
  } catch {
    throw damaged(name);
  }
}

function isPermutation(order: readonly number[], size: number): boolean {
  return order.length === size && new Set(order).size === size && order.every((index) => index < size);
}

function isFloat32(array: StateArray): array is Float32Array<ArrayBuffer> {
  return array instanceof Float32Array;
}

function isFloat64(array: StateArray): array is Float64Array<ArrayBuffer> {
  return array instanceof Float64Array;
}

function damaged(name: string): DataError {
  return new DataError(`${name} is not a checkpoint of saveCheckpoint, or is damaged. Choose another checkpoint.`);
}
