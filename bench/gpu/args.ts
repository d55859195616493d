/** Arguments and results of `bench gpu` in a worker. */

/**
 * Training loops. `plain`: TensorFlow.js's `variableGrads` and `tf.train.adam` with its stock
 * kernels. `stock` and `ours`: DistributedDataParallel in a world of one rank with stock kernels
 * and with this project's kernels.
 */
export const LOOPS = ['plain', 'stock', 'ours'] as const;
export type LoopName = (typeof LOOPS)[number];
export type ByLoop<T> = Record<LoopName, T>;

export const MODEL_NAMES = [
  ...(['mlp', 'mlp-1024', 'cnn'] as const),
  ...(['gpt-tiny', 'gpt-small', 'gpt-medium', 'gpt-large'] as const),
] as const;
export type GpuModel = (typeof MODEL_NAMES)[number];

export interface Batch {
  model: GpuModel;
  /** Samples of a step. */
  batch: number;
}

export interface Turns {
  /** The largest number of turns of each loop, and of measured steps in a turn. */
  turns: number;
  steps: number;
  /** Milliseconds after which no turn begins, except in the first {@link MIN_TURNS} turns. */
  limitMs: number;
}

/** What one step took. */
export interface StepFigures {
  ms: number;
  /** Milliseconds of JavaScript: until the step first waits for the GPU, and the update. */
  jsMs: number;
  /** Milliseconds from the first to the last gradient that is read. 0 in the plain loop. */
  readbackMs: number;
  dispatches: number;
  submits: number;
  uploadedBytes: number;
  readBytes: number;
}

export interface LoopFigures {
  steps: StepFigures[];
  /** Milliseconds of the GPU in a step; `null` if the device has no timestamps. */
  gpuMs: number | null;
}

export interface ModelFigures {
  parameters: number;
  /** Multiply-adds of the forward pass of one sample. */
  multiplyAdds: number;
  /** Tokens of a sample; `null`: samples are not texts. */
  tokens: number | null;
  loops: ByLoop<LoopFigures>;
  /** A sentence that says why steps of our loop are not replayed; `null` if they are. */
  notReplayed: string | null;
}

/** The first steps of a loop in a browser that has compiled no shaders. */
export interface FirstSteps {
  firstMs: number;
  /** Median of the steps after the first. */
  laterMs: number;
  /** Bytes of GPU buffers that TensorFlow.js holds after these steps, pooled buffers included. */
  gpuBytes: number;
}

/** A matrix product: `T` marks a transposed matrix. */
export const PRODUCTS = ['NN', 'NT', 'TN'] as const;
export type Product = (typeof PRODUCTS)[number];

/** Speed of products of square matrices, 10^9 floating-point operations per second. */
export interface MatMulFigures {
  /** Rows and columns of the matrices. */
  size: number;
  kind: Product;
  stockGflops: number;
  oursGflops: number;
}
