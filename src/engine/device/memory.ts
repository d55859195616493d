/** How much memory a tab's model takes, to see that it does not grow. */
import * as tf from '@tensorflow/tfjs';

/**
 * Bytes of all tensors; on WebGPU of all buffers that TensorFlow.js has there, those included that
 * it keeps to use them again. What the optimizer and the rings hold is in ordinary arrays, which
 * nobody counts: it is fixed when the model is built.
 */
export function memoryBytes(): number {
  const { numBytes, numBytesAllocatedInGPU } = tf.memory() as tf.MemoryInfo & { numBytesAllocatedInGPU?: number };
  return numBytesAllocatedInGPU ?? numBytes;
}
