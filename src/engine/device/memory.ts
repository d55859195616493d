/** Memory of a tab's model, to detect growth. */
import * as tf from '@tensorflow/tfjs';

/**
 * Bytes of all tensors; on WebGPU, bytes of all of TensorFlow.js's buffers, also those that it
 * keeps for reuse. Arrays of the optimizer and of collectives are not counted: their size is fixed
 * when the model is built.
 */
export function memoryBytes(): number {
  const { numBytes, numBytesAllocatedInGPU } = tf.memory() as tf.MemoryInfo & { numBytesAllocatedInGPU?: number };
  return numBytesAllocatedInGPU ?? numBytes;
}
