/**
 * Saves and loads weights as safetensors files. Hugging Face's libraries and many users of PyTorch
 * use this format.
 */
import { readSafetensors, writeSafetensors } from '../../formats/weights/safetensors.ts';
import { digestsOfTensors, withTensorDigests } from '../../formats/weights/namedTensor.ts';
import type { DistributedDataParallel } from '../../parallel/ddp/distributedDataParallel.ts';
import type { FileSource } from './fileSource.ts';
import type { LocalModel, SavedModel } from './storedModel.ts';
import {
  loadWeights,
  saveWeights,
  type LoadOptions,
  type SaveWeightsOptions,
  type WeightsSerializer,
} from './weights.ts';

const SERIALIZER: WeightsSerializer = {
  format: 'safetensors',
  write: (tensors, about) =>
    Promise.resolve(writeSafetensors(tensors, withTensorDigests(about, digestsOfTensors(tensors)))),
  read: async (name, bytes) => Promise.resolve(readSafetensors(name, bytes)),
};

/**
 * Encodes the weights of a model, buffers too, as a safetensors file
 * (`safetensors.torch.save_model` in Python). Names are those of layer and weight, `dense1/kernel`;
 * shapes and order are TensorFlow's. The file has the weights at the time of the call.
 *
 * With a DDP, rank 0 resolves with the file and the other ranks with `null`, without communication,
 * because replicas are equal.
 *
 * @throws (rejects) UsageError if a variable is not float32, two have the same name, or a value of
 *   `metadata` is not a text; DataError for a file above 512 MiB; DeviceError if the GPU is lost.
 *
 * @example
 * ```ts
 * const bytes = await saveSafetensors(model); // with a DDP, null on ranks other than 0
 * await loadSafetensors(model, bytes);
 * ```
 */
export function saveSafetensors(
  model: DistributedDataParallel,
  options?: SaveWeightsOptions,
): Promise<Uint8Array<ArrayBuffer> | null>;
export function saveSafetensors(model: LocalModel, options?: SaveWeightsOptions): Promise<Uint8Array<ArrayBuffer>>;
export function saveSafetensors(
  model: SavedModel,
  options: SaveWeightsOptions = {},
): Promise<Uint8Array<ArrayBuffer> | null> {
  return saveWeights(model, options, SERIALIZER);
}

/**
 * Loads a safetensors file into a model (`safetensors.torch.load_model`, which also rejects missing
 * and unexpected tensors). If any tensor does not fit, nothing is changed. Floats of 16 and 64 bits
 * become float32. Additional tensors of other types, such as counters, are ignored.
 *
 * With a DDP, every rank calls it. Rank 0 reads its file and sends the weights; other ranks may
 * pass `null`. If the file does not fit, all ranks reject.
 *
 * @param source a `File`, other bytes, or an address; at most 512 MiB.
 * @returns the texts that are stored in the file.
 * @throws (rejects) DataError if the file is damaged or cannot be read, or a tensor is missing,
 *   additional, of a different shape or of integers.
 */
export function loadSafetensors(
  model: SavedModel,
  source: FileSource | null,
  options: LoadOptions = {},
): Promise<Record<string, string>> {
  return loadWeights(model, source, options, SERIALIZER);
}
