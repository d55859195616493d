/** TensorFlow.js's WebAssembly backend, with a kernel that training needs and that it lacks. */
import * as tf from '@tensorflow/tfjs';
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm';

/**
 * Makes WebAssembly the backend of TensorFlow.js, if `@tensorflow/tfjs-backend-wasm` is imported.
 * Returns whether that succeeded.
 */
export async function useWasm(): Promise<boolean> {
  if (!tf.findBackendFactory('wasm')) return false;
  if (!tf.getKernel('Conv2DBackpropFilter', 'wasm')) {
    tf.registerKernel({
      kernelName: 'Conv2DBackpropFilter',
      backendName: 'wasm',
      kernelFunc: ({ inputs, attrs, backend }) =>
        convolutionFilterGradient(inputs, attrs as unknown as FilterGradientAttributes, backend as BackendWasm),
    });
  }
  return tf.setBackend('wasm').catch(() => false);
}

interface FilterGradientAttributes {
  strides: number | [number, number];
  pad: 'valid' | 'same' | number;
  dimRoundingMode?: 'floor' | 'round' | 'ceil';
  filterShape: [number, number, number, number];
}

/**
 * Computes the gradient of a convolution's filter, for which TensorFlow.js 4.22 has no wasm kernel.
 * The gradient of one filter weight is a sum of products: each input under that weight times the
 * gradient of the output. The inputs are gathered into columns, so that one matMul computes all
 * sums.
 *
 * @param inputs `x` float32 [batch, height, width, in], `dy` float32 [batch, outHeight, outWidth,
 *   out]; NHWC
 * @returns float32 `filterShape`
 */
function convolutionFilterGradient(
  inputs: tf.NamedTensorInfoMap,
  { strides, pad, dimRoundingMode, filterShape }: FilterGradientAttributes,
  backend: BackendWasm,
): tf.TensorInfo {
  const gradient = tf.tidy(() => {
    const [x, dy] = [inputs['x'], inputs['dy']].map((info) => viewOf(info!, backend)) as [tf.Tensor4D, tf.Tensor4D];
    const { batchSize, outHeight, outWidth, strideHeight, strideWidth, padInfo, inChannels, outChannels } =
      tf.backend_util.computeConv2DInfo(x.shape, filterShape, strides, 1, pad, dimRoundingMode);
    const { top, bottom, left, right } = padInfo;
    const padded = tf.pad(x, [
      [0, 0],
      [top, bottom],
      [left, right],
      [0, 0],
    ]);
    const [filterHeight, filterWidth] = filterShape;
    const under = Array.from({ length: filterHeight * filterWidth }, (_, at) => {
      const [row, column] = [Math.floor(at / filterWidth), at % filterWidth];
      const end = [
        ...[batchSize, row + (outHeight - 1) * strideHeight + 1],
        ...[column + (outWidth - 1) * strideWidth + 1, inChannels],
      ];
      return tf.stridedSlice(padded, [0, row, column, 0], end, [1, strideHeight, strideWidth, 1]);
    });
    const positions = batchSize * outHeight * outWidth;
    const columns = tf.concat(under, 3).reshape<tf.Tensor2D>([positions, -1]);
    const outputs = dy.reshape<tf.Tensor2D>([positions, outChannels]);
    return tf.matMul(columns, outputs, true).reshape(filterShape);
  });
  // The tensor is disposed of, but its data remains, because it is the kernel's result.
  const { dataId, shape, dtype } = gradient;
  backend.incRef(dataId);
  gradient.dispose();
  return { dataId, shape, dtype };
}

/** Returns a tensor that shares the memory of a kernel's input. The caller still owns the input. */
function viewOf(info: tf.TensorInfo, backend: BackendWasm): tf.Tensor {
  backend.incRef(info.dataId);
  return tf.engine().makeTensorFromTensorInfo(info);
}
