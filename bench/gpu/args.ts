/** What `bench gpu` measures in a worker, and its result. */

/**
 * Training loops. `plain`: TensorFlow.js's `variableGrads` and `tf.train.adam` with its stock
 * kernels. `stock` and `own`: DistributedDataParallel in a world of one rank with stock kernels and
 * with this project's kernels.
 */
export const LOOPS = ['plain', 'stock', 'own'] as const;
export type LoopName = (typeof LOOPS)[number];
export type ByLoop<T> = Record<LoopName, T>;

/** Samples of a step on a GPU, as in training runs, and in software; `null`: not measured there. */
export const BATCHES = {
  mlp: { gpu: 32, software: 32 },
  'mlp-1024': { gpu: 32, software: 32 },
  cnn: { gpu: 32, software: 8 },
  'gpt-tiny': { gpu: 8, software: 8 },
  'gpt-small': { gpu: 16, software: 1 },
  'gpt-medium': { gpu: 16, software: null },
  'gpt-large': { gpu: 16, software: null },
};
export type GpuModel = keyof typeof BATCHES;
export const MODEL_NAMES = Object.keys(BATCHES) as GpuModel[];

export interface Batch {
  model: GpuModel;
  /** Samples of a step. */
  batch: number;
}

/** What one step took. */
export interface StepFigures {
  ms: number;
  /** Milliseconds of JavaScript: until the step first waits for the GPU, and the update. */
  jsMs: number;
  dispatches: number;
  submits: number;
}

/** Medians of the steps of a loop. */
export interface LoopFigures extends StepFigures {
  /** Milliseconds of the GPU in a step; `null` if the device has no timestamps. */
  gpuMs: number | null;
}

export interface ModelFigures {
  parameters: number;
  /** Tokens of a sample; `null`: samples are not texts. */
  tokens: number | null;
  loops: ByLoop<LoopFigures>;
  /** A sentence that says why steps of our loop are not replayed; `null` if they are. */
  notReplayed: string | null;
}

export interface ModelResult extends Batch, ModelFigures {
  /** Bytes of GPU buffers that TensorFlow.js holds after the first steps in a fresh browser. */
  gpuBytes: ByLoop<number>;
}

/** A matrix product: `T` marks a transposed matrix. */
export const PRODUCTS = ['NN', 'NT', 'TN'] as const;

/** Speed of products of square matrices, 10^9 floating-point operations per second. */
export interface MatMulFigures {
  /** Rows and columns of the matrices. */
  size: number;
  kind: (typeof PRODUCTS)[number];
  stockGflops: number;
  ownGflops: number;
}

/** A model, or products of matrices of one size, that was not measured. */
export interface LeftOut {
  name: string;
  /** `software`: it takes too long on an adapter that computes in software. */
  reason: 'software' | 'time limit' | 'failed';
}

export interface Adapter {
  name: string;
  /** WebGPU features that the adapter has and the engine requests, such as `shader-f16`. */
  features: string[];
}

export interface GpuBenchResult {
  adapter: Adapter;
  /** Name and version. */
  browser: string;
  date: string;
  leftOut: LeftOut[];
  models: ModelResult[];
  matmul: MatMulFigures[];
}
