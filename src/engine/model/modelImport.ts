/**
 * Starts a model whose layers are on several ranks with the weights of a file. The rank that has
 * the file reads it tensor by tensor, and sends each tensor to the rank that has its layer.
 */
import { matchWeightNames } from '../../formats/weights/matchWeights.ts';
import type { TensorEntry } from '../../formats/weights/namedTensor.ts';
import type { WeightsFile } from '../../formats/weights/weightsFile.ts';
import { DataError } from '../../util/errors.ts';
import { elementCountOf } from '../../util/shape.ts';
import type { StagedWorld } from '../pipeline/stagedWorld.ts';
import { receiveTensorValues, sendTensorValues, transferTimeoutMs } from './tensorTransfer.ts';

/**
 * Checks that a file has the weights of a model, without reading them.
 *
 * @param entries all tensors of the model.
 * @throws DataError with the first tensor that does not fit.
 */
export function checkStagedWeights(weights: WeightsFile, entries: readonly TensorEntry[]): void {
  if (weights.format !== 'safetensors') {
    throw new DataError(
      `${weights.file} cannot be read layer by layer. A run with a pipeline can start only with a safetensors file. Save the model in that format.`,
    );
  }
  const [names, shapes] = [entries.map(({ name }) => name), entries.map(({ shape }) => shape)];
  matchWeightNames(weights, { names, shapes, topology: null });
}

/**
 * Sets the weights of all replicas to those in a file. If several ranks have a file, the file of
 * the first of them is used. If no rank has a file, the weights do not change. Every rank of the
 * world must call it.
 *
 * @param weights this rank's file, which must have passed {@link checkStagedWeights}.
 * @returns whether at least one rank has a file.
 * @throws (rejects) DataError if the file cannot be read.
 */
export async function importStagedModel(
  { group, grid, stage }: StagedWorld,
  entries: readonly TensorEntry[],
  weights: WeightsFile | null,
): Promise<boolean> {
  const own = grid.replica === 0 ? stage!.entries : [];
  const ranks = await group.allGatherObject({ hasFile: weights !== null, names: own.map(({ name }) => name) });
  const source = ranks.findIndex(({ hasFile }) => hasFile);
  if (source === -1) return false;
  const timeoutMs = transferTimeoutMs(entries.reduce((sum, { shape }) => sum + elementCountOf(shape), 0));
  for (const { name, shape } of entries) {
    const local = own.findIndex((entry) => entry.name === name);
    const parameters = stage?.stage.parameters;
    if (group.rank === source) {
      const tensor = await weights!.read(name);
      const owner = ranks.findIndex(({ names }) => names.includes(name));
      if (local >= 0) parameters!.write(local, tensor.values);
      else await sendTensorValues(group, tensor.values, owner, timeoutMs);
    } else if (local >= 0) {
      const values = new Float32Array(elementCountOf(shape));
      let at = 0;
      for await (const part of receiveTensorValues(group, elementCountOf(shape), source, timeoutMs)) {
        values.set(part, at);
        at += part.length;
      }
      parameters!.write(local, values);
    }
  }
  if (stage) await stage.stage.parameters.broadcast(grid.groups!.data);
  await group.allReduce(new Float64Array(1), { timeoutMs });
  return true;
}
