/**
 * Kernels for training on WebGPU. They are deterministic: on one adapter, equal inputs have equal
 * results, bit for bit.
 */
import { columnSumOp } from './columnSum.ts';
import { conv2dReplacements, convolutionOp, filterSumsOp, inputGradientOp } from './conv2d/conv2d.ts';
import { rmsNormOp } from './rmsNorm.ts';
import { registerOwn, restoreStock, type KernelChoice, type Replacement, type TrainingOp } from './registry.ts';

export type { KernelChoice } from './registry.ts';

const REPLACEMENTS: readonly Replacement[] = [...conv2dReplacements];
const OPS: readonly TrainingOp[] = [columnSumOp, convolutionOp, filterSumsOp, inputGradientOp, rmsNormOp];

/** Chooses the kernels of TensorFlow.js's WebGPU backend, whose module must be loaded. */
export function useKernels(choice: KernelChoice): void {
  if (choice === 'own') registerOwn(REPLACEMENTS, OPS);
  else restoreStock(OPS);
}
