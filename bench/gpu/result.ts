/** The result of `bench gpu`: what it prints as JSON. */
import { median, quantile } from '../../src/util/statistics.ts';
import type {
  Batch,
  ByLoop,
  FirstSteps,
  GpuModel,
  LoopFigures,
  LoopName,
  MatMulFigures,
  ModelFigures,
} from './args.ts';

export interface ModelResult {
  name: GpuModel;
  parameters: number;
  batch: number;
  /** Median milliseconds of a step. */
  plainMs: number;
  stockMs: number;
  oursMs: number;
  /** `stockMs` divided by `oursMs`. */
  ratio: number;
  p95Ms: ByLoop<number>;
  /** What `perSecond` counts. */
  unit: 'samples' | 'tokens';
  perSecond: ByLoop<number>;
  /** 10^12 floating-point operations of matrix products and convolutions per second. */
  tflops: ByLoop<number>;
  dispatches: ByLoop<number>;
  submits: ByLoop<number>;
  jsMs: ByLoop<number>;
  uploadedBytes: ByLoop<number>;
  readBytes: ByLoop<number>;
  readbackMs: ByLoop<number>;
  /** Milliseconds of the GPU in a step; `null` if the device has no timestamps. */
  gpuMs: ByLoop<number | null>;
  /** The first step in a fresh browser, without the median of the steps after it. */
  compileMs: ByLoop<number>;
  /** Bytes of GPU buffers after these steps. */
  gpuBytes: ByLoop<number>;
  /** A sentence that says why steps of our loop are not replayed; `null` if they are. */
  notReplayed: string | null;
}

/** A model, or products of matrices of one size, that was not measured. */
export interface LeftOut {
  name: string;
  /** `software`: it takes too long on an adapter that computes in software. */
  reason: 'software' | 'time limit' | 'failed';
}

export interface GpuBenchResult {
  adapter: string;
  /** WebGPU features of the adapter that kernels and measurements use. */
  features: string[];
  browser: string;
  date: string;
  leftOut: LeftOut[];
  models: ModelResult[];
  matmul: (MatMulFigures & { ratio: number })[];
}

/** A training step computes about three times the multiply-adds of its forward pass. */
const PASSES = 3;

export function modelResult(
  { model, batch }: Batch,
  first: ByLoop<FirstSteps>,
  { parameters, multiplyAdds, tokens, loops, notReplayed }: ModelFigures,
): ModelResult {
  const by = <T>(pick: (figures: LoopFigures, name: LoopName) => T): ByLoop<T> => ({
    plain: pick(loops.plain, 'plain'),
    stock: pick(loops.stock, 'stock'),
    ours: pick(loops.ours, 'ours'),
  });
  const medianOf = (name: keyof LoopFigures['steps'][number]) =>
    by(({ steps }) => median(steps.map((step) => step[name])));
  const ms = medianOf('ms');
  return {
    name: model,
    parameters,
    batch,
    plainMs: ms.plain,
    stockMs: ms.stock,
    oursMs: ms.ours,
    ratio: ms.stock / ms.ours,
    p95Ms: by(({ steps }) =>
      quantile(
        steps.map((step) => step.ms),
        0.95,
      ),
    ),
    unit: tokens === null ? 'samples' : 'tokens',
    perSecond: by((_, name) => (1000 * batch * (tokens ?? 1)) / ms[name]),
    tflops: by((_, name) => (2 * PASSES * multiplyAdds * batch) / ms[name] / 1e9),
    dispatches: medianOf('dispatches'),
    submits: medianOf('submits'),
    jsMs: medianOf('jsMs'),
    uploadedBytes: medianOf('uploadedBytes'),
    readBytes: medianOf('readBytes'),
    readbackMs: medianOf('readbackMs'),
    gpuMs: by(({ gpuMs }) => gpuMs),
    compileMs: by((_, name) => Math.max(0, first[name].firstMs - first[name].laterMs)),
    gpuBytes: by((_, name) => first[name].gpuBytes),
    notReplayed,
  };
}
