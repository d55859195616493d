/** Measures the memory that a tab's model uses, so that growth can be detected. */
import * as tf from '@tensorflow/tfjs';

/**
 * Returns the bytes of all tensors. On WebGPU, returns the bytes of all buffers of TensorFlow.js,
 * including buffers that wait for reuse. Arrays of the optimizer and of collectives are not
 * included, because their size is fixed when the model is built.
 */
export function tensorMemoryBytes(): number {
  const { numBytes, numBytesAllocatedInGPU } = tf.memory() as tf.MemoryInfo & { numBytesAllocatedInGPU?: number };
  return numBytesAllocatedInGPU ?? numBytes;
}
