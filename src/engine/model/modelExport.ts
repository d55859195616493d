/**
 * Writes a model whose layers are on several ranks to a safetensors file. The ranks of the first
 * replica send their tensors one after another, in the order of the file, so no rank has the whole
 * model.
 */
import {
  digestsOfTensors,
  withTensorDigests,
  type WeightsMetadata,
  type TensorEntry,
} from '../../formats/weights/namedTensor.ts';
import { sortTensorsByName, streamSafetensors, type TensorPart } from '../../formats/weights/safetensors.ts';
import { errorMessageOf } from '../../util/errors.ts';
import { elementCountOf } from '../../util/shape.ts';
import { piecesOfArray } from '../../parallel/pipeline/layerState.ts';
import type { FileWriter, WrittenFile } from '../storage/writtenFile.ts';
import { receiveTensorValues, sendTensorValues, transferTimeoutMs } from './tensorTransfer.ts';
import type { StagedWorld } from '../pipeline/stagedWorld.ts';

interface ExportOptions {
  /** All tensors of the model, in the order of its layers. */
  entries: readonly TensorEntry[];
  about: WeightsMetadata;
  /** The rank that writes the file. */
  saver: number;
  createFile: () => Promise<FileWriter>;
}

/** A file, or why it could not be written. */
type SavedModel = { file: WrittenFile; problem: null } | { file: null; problem: string };

/**
 * Every rank of the world must call it, between two steps.
 *
 * @returns `null` on ranks other than `saver`. If the file cannot be written, the run can continue.
 */
export async function exportStagedModel(
  { group, grid, stage }: StagedWorld,
  { entries, about, saver, createFile }: ExportOptions,
): Promise<SavedModel | null> {
  const own = grid.replica === 0 ? stage!.entries : [];
  const read = async (name: string): Promise<Float32Array<ArrayBuffer>> =>
    stage!.stage.parameters.read(own.findIndex((entry) => entry.name === name));
  const ownDigests: Record<string, string> = {};
  for (const entry of own) Object.assign(ownDigests, digestsOfTensors([{ ...entry, values: await read(entry.name) }]));
  const digests = await group.allGatherObject(ownDigests);
  const ownerOf = (name: string): number => digests.findIndex((some) => name in some);
  const timeoutMs = transferTimeoutMs(entries.reduce((sum, { shape }) => sum + elementCountOf(shape), 0));
  let saved: SavedModel | null = null;
  if (group.rank === saver) {
    const parts = async function* (): AsyncGenerator<TensorPart, void> {
      for (const { name, shape } of sortTensorsByName(entries)) {
        if (name in ownDigests) for (const values of piecesOfArray(await read(name))) yield { name, values };
        else {
          for await (const values of receiveTensorValues(group, elementCountOf(shape), ownerOf(name), timeoutMs)) {
            yield { name, values };
          }
        }
      }
    };
    const all = Object.fromEntries(entries.map(({ name }) => [name, digests[ownerOf(name)]![name]!]));
    saved = await writeAll(streamSafetensors(entries, withTensorDigests(about, all), parts()), createFile);
  } else {
    for (const { name } of sortTensorsByName(own)) await sendTensorValues(group, await read(name), saver, timeoutMs);
  }
  // Ranks that have sent their tensors wait here until the file is written. This all-reduce has a
  // long deadline; the deadlines of their next messages would be too short for the wait.
  await group.allReduce(new Float64Array(1), { timeoutMs });
  return saved;
}

/** Writes the bytes. After a failure, still reads all bytes, because other ranks send them. */
async function writeAll(
  bytes: AsyncIterable<Uint8Array<ArrayBuffer>>,
  createFile: () => Promise<FileWriter>,
): Promise<SavedModel> {
  let problem: string | null = null;
  const attempt = async <T>(work: () => Promise<T>): Promise<T | null> => {
    if (problem !== null) return null;
    try {
      return await work();
    } catch (error) {
      problem = `The model cannot be written to this browser's storage (${errorMessageOf(error)}). Free some space, and save it again.`;
      return null;
    }
  };
  const writer = await attempt(createFile);
  for await (const part of bytes) await attempt(() => writer!.write(part));
  const file = await attempt(() => writer!.close());
  if (file) return { file, problem: null };
  await writer?.abort().catch(() => {});
  return { file: null, problem: problem! };
}
