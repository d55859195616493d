/** Saves and loads weights as files of Keras 3, `.weights.h5`. */
import { readKeras, writeKeras } from '../../formats/weights/keras.ts';
import type { DistributedDataParallel } from '../../parallel/ddp/distributedDataParallel.ts';
import type { FileSource } from './fileSource.ts';
import { topologyOfModel, type LocalModel, type SavedModel } from './storedModel.ts';
import {
  loadWeights,
  saveWeights,
  type LoadOptions,
  type SaveWeightsOptions,
  type WeightsSerializer,
} from './weights.ts';

const SERIALIZER: WeightsSerializer = {
  format: 'keras',
  write: async (tensors, about, model) => writeKeras(tensors, topologyOfModel(model), about),
  read: readKeras,
};

/**
 * Encodes the weights of a LayersModel as Keras's `model.save_weights('model.weights.h5')` does. In
 * Keras 3, any model with the same layers can load the file, even if the layers have different
 * names. With a DDP, the ranks resolve as in {@link saveSafetensors}.
 *
 * @throws (rejects) UsageError if the model is not a LayersModel, or has layers that contain a
 *   layer or a cell; errors of saveSafetensors.
 */
export function saveKerasWeights(
  model: DistributedDataParallel,
  options?: SaveWeightsOptions,
): Promise<Uint8Array<ArrayBuffer> | null>;
export function saveKerasWeights(model: LocalModel, options?: SaveWeightsOptions): Promise<Uint8Array<ArrayBuffer>>;
export function saveKerasWeights(
  model: SavedModel,
  options: SaveWeightsOptions = {},
): Promise<Uint8Array<ArrayBuffer> | null> {
  return saveWeights(model, options, SERIALIZER);
}

/**
 * Loads a file that Keras 3's `model.save_weights` or {@link saveKerasWeights} has written. In all
 * other respects, it works like {@link loadSafetensors}.
 *
 * @throws (rejects) errors of loadSafetensors and saveKerasWeights.
 */
export function loadKerasWeights(
  model: SavedModel,
  source: FileSource | null,
  options: LoadOptions = {},
): Promise<Record<string, string>> {
  return loadWeights(model, source, options, SERIALIZER);
}
