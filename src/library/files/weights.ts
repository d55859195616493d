/** Saves and loads the weights of a model. Each file format has a module of its own. */
import { matchWeights } from '../../formats/weights/matchWeights.ts';
import {
  checkSavedTensorDigests,
  DIGESTS_KEY,
  type WeightsMetadata,
  type DecodedWeights,
  type NamedTensor,
} from '../../formats/weights/namedTensor.ts';
import { checkModelFileSize, type WeightsFormat } from '../../spec/modelFile.ts';
import { UsageError } from '../../util/errors.ts';
import { readFileSource, type FileSource } from './fileSource.ts';
import { loadOnAllRanks, type LoadedContents } from './loadOnAllRanks.ts';
import {
  checkModelSize,
  readModelValues,
  storableModelOf,
  topologyOfModel,
  writeModelValues,
  type SavedModel,
  type StorableModel,
} from './storedModel.ts';

export interface SaveOptions {
  /** With a DDP: the rank in its group that returns the file. Default 0. */
  rank?: number;
}

export interface SaveWeightsOptions extends SaveOptions {
  /** Texts to store in the file. */
  metadata?: Readonly<Record<string, string>>;
}

export interface LoadOptions {
  /**
   * With a DDP: the rank in its group whose file is used. This rank sends the contents to the other
   * ranks. Default 0.
   */
  rank?: number;
  /**
   * Loading ends when the signal is aborted. With a DDP, the group ends, too, as it does for
   * collectives.
   */
  signal?: AbortSignal;
}

export interface WeightsSerializer {
  format: WeightsFormat;
  write(
    tensors: readonly NamedTensor[],
    about: WeightsMetadata,
    model: StorableModel,
  ): Promise<Uint8Array<ArrayBuffer>>;
  read(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<DecodedWeights>;
}

const ADVICE = 'Load it into the model from which it was saved, with the same layers and names';

export async function saveWeights(
  saved: SavedModel,
  { rank = 0, metadata = {} }: SaveWeightsOptions,
  serializer: WeightsSerializer,
): Promise<Uint8Array<ArrayBuffer> | null> {
  const stored = storableModelOf(saved);
  if (stored.ddp && stored.ddp.group.rank !== rank) return null;
  checkMetadata(metadata);
  checkModelSize(stored, []);
  const bytes = await serializer.write(await readModelValues(stored), metadata, stored);
  checkModelFileSize('The file', bytes.length);
  return bytes;
}

function checkMetadata(metadata: Readonly<Record<string, unknown>>): void {
  if (DIGESTS_KEY in metadata)
    throw new UsageError(`The metadata "${DIGESTS_KEY}" is written by peergrad. Leave it out.`);
  for (const [key, value] of Object.entries(metadata)) {
    if (typeof value === 'string') continue;
    throw new UsageError(`The metadata "${key}" is of type ${typeof value}, but must be a text. Pass String(value).`);
  }
}

/** Resolves with the texts that are stored in the file. */
export async function loadWeights(
  saved: SavedModel,
  source: FileSource | null,
  { rank = 0, signal }: LoadOptions,
  serializer: WeightsSerializer,
): Promise<Record<string, string>> {
  const stored = storableModelOf(saved);
  const read = async (): Promise<LoadedContents<Record<string, string>>> => {
    const { name, bytes } = await readFileSource(requireFileSource(source), signal);
    const { tensors, about, notes } = await serializer.read(name, bytes);
    checkSavedTensorDigests(name, tensors, about);
    const { [DIGESTS_KEY]: _, ...metadata } = about;
    return {
      facts: metadata,
      arrays: matchStorableWeights({ file: name, format: serializer.format, tensors, notes }, stored),
    };
  };
  const { ddp } = stored;
  const loaded = ddp ? await loadOnAllRanks(ddp.group, { rank, signal }, read, () => {}) : await read();
  writeModelValues(stored, loaded.arrays);
  return loaded.facts;
}

/**
 * @throws DataError if a tensor is missing, additional, or of a different shape.
 */
export function matchStorableWeights(
  file: Parameters<typeof matchWeights>[0],
  stored: StorableModel,
): Float32Array<ArrayBuffer>[] {
  const { names, variables } = stored;
  const shapes = variables.map(({ shape }) => shape);
  const topology = file.format === 'keras' ? topologyOfModel(stored) : null;
  return matchWeights(file, { names, shapes, topology }, ADVICE);
}

/** @throws UsageError if there is no file. */
export function requireFileSource(source: FileSource | null): FileSource {
  if (source === null) throw new UsageError('This rank reads the file, but its file is null. Pass the file here.');
  return source;
}
