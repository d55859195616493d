/** The gathered outputs of all replicas, and the loss that replica 0 computes from them. */
import * as tf from '@tensorflow/tfjs';
import { UsageError } from '../../util/errors.ts';
import { createTensor, type ReplicaResult } from './messages.ts';

/**
 * Computes the loss and its gradient by each output. The caller disposes of them.
 *
 * @throws UsageError if the loss is not one number, or does not depend on the outputs.
 */
export function differentiateLoss(
  outputs: tf.Tensor[],
  loss: () => tf.Scalar,
): { value: tf.Scalar; gradients: tf.Tensor[] } {
  const { value, grads } = tf.engine().gradients(loss, outputs, undefined, true);
  // An output that the loss does not use has no gradient, contrary to the type.
  const found = grads as (tf.Tensor | null | undefined)[];
  if (value.size !== 1 || !found.some(Boolean)) {
    tf.dispose([value, ...found.filter((gradient) => gradient instanceof tf.Tensor)]);
    throw new UsageError(
      value.size === 1
        ? 'The loss does not depend on the outputs. Compute it from the tensors that the function receives.'
        : `The loss has shape [${value.shape.join(', ')}]. Return a scalar, such as its mean.`,
    );
  }
  return { value, gradients: outputs.map((output, i) => found[i] ?? tf.zerosLike(output)) };
}

/** Concatenates the output `i` of all replicas. */
export function gather(first: tf.Tensor, results: readonly ReplicaResult[], i: number): tf.Tensor {
  return tf.tidy(() => tf.concat([first, ...results.map(({ tensors }) => createTensor(tensors[i]!))]));
}
