/** The gathered outputs of all replicas, and the loss that replica 0 computes from them. */
import * as tf from '@tensorflow/tfjs';
import { freeTensorsOnError } from '../../parallel/backward/tape.ts';
import { UsageError } from '../../util/errors.ts';
import { createTensor, type ReplicaResult } from './messages.ts';

/** Gradients of the loss. */
export interface LossGradients {
  value: tf.Scalar;
  /**
   * The gradient with respect to each output. It is zero for outputs that the loss does not use.
   */
  outputs: tf.Tensor[];
  /**
   * The gradient with respect to each parameter that the loss uses directly, for example in a
   * penalty. It is `null` for other parameters.
   */
  parameters: (tf.Tensor | null)[];
}

/**
 * Computes the loss and its gradients. The caller disposes of them.
 *
 * @throws UsageError if the loss is not one number, or depends neither on outputs nor parameters.
 */
export function differentiateLoss(
  outputs: readonly tf.Tensor[],
  parameters: readonly tf.Variable[],
  loss: () => tf.Scalar,
): LossGradients {
  const { value, grads } = freeTensorsOnError(() =>
    tf.engine().gradients(() => checkedLoss(loss()), [...outputs, ...parameters], undefined, true),
  );
  // Contrary to the declared type, a tensor that the loss does not use has no gradient.
  const found = (grads as (tf.Tensor | null | undefined)[]).map((gradient) => gradient ?? null);
  if (!found.some(Boolean)) {
    value.dispose();
    throw new UsageError(
      'The loss does not depend on the outputs. Compute it from the tensors that the function receives.',
    );
  }
  return {
    value,
    outputs: outputs.map((output, i) => found[i] ?? tf.zerosLike(output)),
    parameters: found.slice(outputs.length),
  };
}

function checkedLoss(loss: unknown): tf.Scalar {
  if (loss instanceof Promise) loss.catch(() => {});
  if (!(loss instanceof tf.Tensor)) {
    const what = loss instanceof Promise ? 'a promise' : `of type ${typeof loss}`;
    throw new UsageError(`The loss is ${what}, but must be a tensor. Return a scalar without \`await\`.`);
  }
  if (loss.size !== 1) {
    throw new UsageError(`The loss has shape [${loss.shape.join(', ')}]. Return a scalar, such as its mean.`);
  }
  return loss as tf.Scalar;
}

/**
 * Adds `direct`, the gradient of a parameter that the loss uses directly. Disposes of `gradient` if
 * a new tensor is returned.
 */
export function addDirectGradient(gradient: tf.Tensor, direct: tf.Tensor | null): tf.Tensor {
  if (!direct) return gradient;
  const sum = gradient.add(direct);
  gradient.dispose();
  return sum;
}

/** Concatenates the output `i` of all replicas. */
export function gatherReplicaOutputs(first: tf.Tensor, results: readonly ReplicaResult[], i: number): tf.Tensor {
  return tf.tidy(() => tf.concat([first, ...results.map(({ tensors }) => createTensor(tensors[i]!))]));
}
