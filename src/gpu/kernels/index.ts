/**
 * Kernels for training on WebGPU. They are deterministic: on one adapter, equal inputs have equal
 * results, bit for bit.
 */
import type { GpuKernelChoice } from '../../spec/names.ts';
import { causalAttentionOps } from './attention/causalAttention.ts';
import { columnSumOp } from './columnSum.ts';
import { conv2dReplacements, convolutionOps } from './conv2d/conv2d.ts';
import { crossEntropyOps } from './crossEntropy.ts';
import { embeddingOps } from './embedding.ts';
import { layerNormOps } from './layerNorm.ts';
import { linearOp } from './linear.ts';
import { matMulReplacements } from './matMul/batchMatMul.ts';
import {
  registerOpGradients,
  registerOwnGpuKernels,
  restoreStockGpuKernels,
  type KernelReplacement,
  type TrainingOp,
} from './registry.ts';
import { rmsNormOps } from './rmsNorm.ts';

const REPLACEMENTS: readonly KernelReplacement[] = [...conv2dReplacements, ...matMulReplacements];
const OPS: readonly TrainingOp[] = [
  ...causalAttentionOps,
  columnSumOp,
  ...convolutionOps,
  ...crossEntropyOps,
  ...embeddingOps,
  ...layerNormOps,
  linearOp,
  ...rmsNormOps,
];

/** Chooses the kernels of TensorFlow.js's WebGPU backend, whose module must be loaded. */
export function chooseWebGpuKernels(choice: GpuKernelChoice): void {
  if (choice === 'own') registerOwnGpuKernels(REPLACEMENTS, OPS);
  else restoreStockGpuKernels(OPS);
}

/**
 * Registers the gradients of this project's ops, for a backend that has its own kernels for some of
 * these ops.
 */
export function registerOwnGradients(): void {
  registerOpGradients(OPS);
}
