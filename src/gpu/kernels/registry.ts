/**
 * Registers kernels for training on WebGPU with TensorFlow.js, or restores TensorFlow.js's own
 * kernels.
 */
import * as tf from '@tensorflow/tfjs';
import type { GpuKernelChoice } from '../../spec/names.ts';
import type { WebGpuBackend } from '../backend.ts';

const WEBGPU = 'webgpu';

/** A kernel's inputs and attributes, as TensorFlow.js passes them. */
export interface KernelArguments<Attributes = Record<string, never>> {
  inputs: tf.NamedTensorInfoMap;
  attrs: Attributes;
  backend: WebGpuBackend;
}

/** A kernel that replaces one of TensorFlow.js's. */
export interface KernelReplacement {
  kernelName: string;
  /** Returns `null` if the stock kernel should compute the result. */
  run: (args: KernelArguments<tf.NamedAttrMap>) => tf.TensorInfo | null;
}

/**
 * An op that TensorFlow.js lacks, with its gradient. The gradient runs on each backend that has the
 * op.
 */
export interface TrainingOp {
  kernelName: string;
  run: (args: KernelArguments<tf.NamedAttrMap>) => tf.TensorInfo | tf.TensorInfo[];
  gradient?: Omit<tf.GradConfig, 'kernelName'>;
}

let isOwn = false;

/** The latest choice of kernels. */
export function currentKernelChoice(): GpuKernelChoice {
  return isOwn ? 'own' : 'stock';
}

/**
 * Whether the ops of this folder run as kernels. Otherwise they are composed of TensorFlow.js's
 * ops.
 */
export function usesOwnKernels(): boolean {
  return isOwn && tf.getBackend() === WEBGPU;
}

/** Whether the current backend has a kernel of this name. */
export function hasKernel(kernelName: string): boolean {
  return tf.getKernel(kernelName, tf.getBackend()) !== undefined;
}

/** Registers the gradients of ops, for all backends. Idempotent. */
export function registerOpGradients(ops: readonly TrainingOp[]): void {
  for (const { kernelName, gradient } of ops) if (gradient) tf.registerGradient({ kernelName, ...gradient });
}

const stockKernels = new Map<string, tf.KernelConfig>();

/** Registers kernels for WebGPU. The module of the WebGPU backend must be loaded. Idempotent. */
export function registerOwnGpuKernels(replacements: readonly KernelReplacement[], ops: readonly TrainingOp[]): void {
  if (isOwn) return;
  isOwn = true;
  for (const { kernelName, run } of replacements) {
    const stock = tf.getKernel(kernelName, WEBGPU);
    stockKernels.set(kernelName, stock);
    tf.unregisterKernel(kernelName, WEBGPU);
    tf.registerKernel({
      ...stock,
      kernelFunc: (args) => run(args as unknown as KernelArguments<tf.NamedAttrMap>) ?? stock.kernelFunc(args),
    });
  }
  registerOpGradients(ops);
  for (const { kernelName, run } of ops) {
    tf.registerKernel({
      kernelName,
      backendName: WEBGPU,
      kernelFunc: (args) => run(args as unknown as KernelArguments<tf.NamedAttrMap>),
    });
  }
}

/** Restores TensorFlow.js's kernels. Idempotent. */
export function restoreStockGpuKernels(ops: readonly TrainingOp[]): void {
  if (!isOwn) return;
  isOwn = false;
  for (const [kernelName, stock] of stockKernels) {
    tf.unregisterKernel(kernelName, WEBGPU);
    tf.registerKernel(stock);
  }
  for (const { kernelName } of ops) tf.unregisterKernel(kernelName, WEBGPU);
}
