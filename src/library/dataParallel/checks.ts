/** Checks the arguments of a `DataParallel`. */
import * as tf from '@tensorflow/tfjs';
import { variablesOf, type Model } from '../../parallel/backward/flatten.ts';
import { checkWholeAtLeast } from '../../parallel/groups/checks.ts';
import { UsageError } from '../../util/errors.ts';
import { canSendDtype } from './messages.ts';

const MAX_REPLICAS = 16;

/** @throws UsageError if workers cannot build replicas of the model. */
export function checkReplicableModel(model: unknown): void {
  if (!(model instanceof tf.LayersModel)) {
    throw new UsageError(
      'DataParallel needs a LayersModel, which workers can rebuild. Pass the result of tf.sequential or tf.model.',
    );
  }
  const { parameters, buffers } = variablesOf(model);
  if (parameters.length === 0) throw new UsageError('The model has no trainable parameters.');
  const other = [...parameters, ...buffers].find(({ dtype }) => dtype !== 'float32');
  if (other) throw new UsageError(`The variable "${other.name}" is ${other.dtype}, but must be float32.`);
}

/** @throws UsageError for a number out of its range. */
export function checkReplicaOptions(replicas: number, timeoutMs: number): void {
  checkWholeAtLeast('replicas', replicas, 1);
  if (replicas > MAX_REPLICAS) throw new UsageError(`replicas is ${replicas}; pass at most ${MAX_REPLICAS}.`);
  if (!(timeoutMs > 0)) throw new UsageError(`timeoutMs is ${timeoutMs}; pass milliseconds above 0.`);
}

/** @throws UsageError unless there is a batch of tensors for each input. */
export function checkInputBatches(xs: unknown, { inputs: expected }: Model): tf.Tensor[] {
  const inputs: unknown[] = [xs].flat();
  if (!inputs.every((input) => input instanceof tf.Tensor)) {
    throw new UsageError(
      'An input is not a tensor. Pass a tf.Tensor for each input of the model, such as tf.tensor2d.',
    );
  }
  if (inputs.length !== expected.length) {
    throw new UsageError(
      `The model has ${expected.length} input(s), but received ${inputs.length}. Pass one tensor for each.`,
    );
  }
  const batch = inputs[0]!.shape[0] ?? 0;
  for (const { shape, dtype } of inputs) {
    if (!canSendDtype(dtype)) throw new UsageError(`An input is ${dtype}, but must be float32, int32 or bool.`);
    if (batch === 0 || shape[0] !== batch) {
      throw new UsageError(
        `An input has shape [${shape.join(', ')}]. All inputs need the same number of samples, at least 1.`,
      );
    }
  }
  return inputs;
}
