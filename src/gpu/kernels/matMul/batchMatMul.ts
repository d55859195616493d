/** The kernels of `tf.matMul` and of `tf.fused.matMul`. */
import type { TensorInfo } from '@tensorflow/tfjs';
import { elementCountOf } from '../../../util/shape.ts';
import { usesHalfPrecision } from '../halfPrecision.ts';
import type { KernelArguments, KernelReplacement } from '../registry.ts';
import type { MatMulEpilogue } from './epilogue.ts';
import { runMatMul } from './product.ts';

type Shape = readonly number[];

/**
 * Returns the batch dimensions of the result if the batches of the smaller operand repeat along the
 * leading dimensions of the larger one, otherwise null.
 */
function batchShape(a: Shape, b: Shape): Shape | null {
  const [long, short] = elementCountOf(a) >= elementCountOf(b) ? [a, b] : [b, a];
  const repeated = short.slice(short.findIndex((side) => side !== 1)).filter(() => elementCountOf(short) > 1);
  const rank = Math.max(a.length, b.length);
  const result = [...Array<number>(rank - long.length).fill(1), ...long];
  const isSuffix = repeated.every((side, i) => side === result[rank - repeated.length + i]);
  return isSuffix ? result : null;
}

function run({ inputs, attrs, backend }: KernelArguments<Record<string, unknown>>): TensorInfo | null {
  const { a, b, bias, preluActivationWeights } = inputs as Record<string, TensorInfo | undefined>;
  const { transposeA, transposeB, activation } = attrs;
  if (!a || !b || a.dtype !== 'float32' || b.dtype !== 'float32' || preluActivationWeights) return null;
  const [aBatch, bBatch] = [a.shape.slice(0, -2), b.shape.slice(0, -2)];
  const [aRows, aColumns] = a.shape.slice(-2) as [number, number];
  const [rows, inner] = transposeA ? [aColumns, aRows] : [aRows, aColumns];
  const columns = b.shape.at(transposeB ? -2 : -1)!;
  const batch = batchShape(aBatch, bBatch);
  const epilogue: MatMulEpilogue = {};
  if (activation === 'relu') epilogue.apply = 'relu';
  else if (activation && activation !== 'linear') return null;
  if (bias) {
    if (bias.dtype !== 'float32' || bias.shape.at(-1) !== columns || elementCountOf(bias.shape) !== columns)
      return null;
    epilogue.bias = bias;
  }
  if (batch === null || rows * inner * columns * elementCountOf(batch) === 0) return null;
  const product = {
    a: { tensor: a, isTransposed: transposeA === true, batches: elementCountOf(aBatch) },
    b: { tensor: b, isTransposed: transposeB === true, batches: elementCountOf(bBatch) },
    batches: elementCountOf(batch),
    rows,
    columns,
    inner,
    epilogue,
    isHalf: usesHalfPrecision(),
  };
  return runMatMul(backend, product, [...batch, rows, columns]);
}

export const matMulReplacements: readonly KernelReplacement[] = ['BatchMatMul', '_FusedMatMul'].map((kernelName) => ({
  kernelName,
  run,
}));
