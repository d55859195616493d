/**
 * Kernels for training on WebGPU. They are deterministic: on one adapter, equal inputs have equal
 * results, bit for bit.
 */
import type { KernelChoice } from '../spec/names.ts';
import { columnSumOp } from './columnSum.ts';
import { crossEntropyOps } from './crossEntropy.ts';
import { embeddingOps } from './embedding.ts';
import { registerOwn, restoreStock, type Replacement, type TrainingOp } from './registry.ts';
import { rmsNormOps } from './rmsNorm.ts';

const REPLACEMENTS: readonly Replacement[] = [];
const OPS: readonly TrainingOp[] = [columnSumOp, ...crossEntropyOps, ...embeddingOps, ...rmsNormOps];

/** Chooses the kernels of TensorFlow.js's WebGPU backend, whose module must be loaded. */
export function useKernels(choice: KernelChoice): void {
  if (choice === 'own') registerOwn(REPLACEMENTS, OPS);
  else restoreStock(OPS);
}
