/** Measures matrix products with the kernels of TensorFlow.js and of this project, in turn. */
import * as tf from '@tensorflow/tfjs';
import { chooseWebGpuKernels } from '../../src/gpu/kernels/index.ts';
import { GPU_KERNEL_CHOICES, type GpuKernelChoice } from '../../src/spec/names.ts';
import { median } from '../../src/util/statistics.ts';
import { PRODUCTS, type MatMulFigures } from './args.ts';

/** Milliseconds that a measured series of products takes at least, if one product is shorter. */
const SERIES_MS = 40;
const MAX_SERIES = 64;
const TURNS = 5;

/** Measures products of square matrices of this size. */
export async function measureMatMul(size: number): Promise<MatMulFigures[]> {
  const figures: MatMulFigures[] = [];
  for (const kind of PRODUCTS) figures.push(await measure(size, kind));
  return figures;
}

async function measure(size: number, kind: MatMulFigures['kind']): Promise<MatMulFigures> {
  const [a, b] = [0, 1].map((seed) => tf.randomUniform<tf.Rank.R2>([size, size], -1, 1, 'float32', seed));
  const series = async (kernels: GpuKernelChoice, length: number): Promise<number> => {
    chooseWebGpuKernels(kernels);
    const startedAt = performance.now();
    const corner = tf.tidy(() => {
      let product = tf.matMul(a!, b!, kind === 'TN', kind === 'NT');
      for (let i = 1; i < length; i++) {
        product.dispose();
        product = tf.matMul(a!, b!, kind === 'TN', kind === 'NT');
      }
      return tf.slice(product, 0, 1);
    });
    // A read waits for all products before it.
    await corner.data();
    corner.dispose();
    return performance.now() - startedAt;
  };
  const times: Record<GpuKernelChoice, number[]> = { own: [], stock: [] };
  const lengths: Record<GpuKernelChoice, number> = { own: 1, stock: 1 };
  for (const kernels of GPU_KERNEL_CHOICES) {
    await series(kernels, 1);
    const ms = await series(kernels, 1);
    lengths[kernels] = Math.min(MAX_SERIES, Math.max(1, Math.ceil(SERIES_MS / ms)));
  }
  for (let turn = 0; turn < TURNS; turn++) {
    for (const kernels of GPU_KERNEL_CHOICES)
      times[kernels].push((await series(kernels, lengths[kernels])) / lengths[kernels]);
  }
  tf.dispose([a!, b!]);
  const gflops = (kernels: GpuKernelChoice): number => (2 * size ** 3) / median(times[kernels]) / 1e6;
  return { size, kind, stockGflops: gflops('stock'), ownGflops: gflops('own') };
}
