import { expect, test } from 'vitest';
import { section, tables } from '../../bench/gpu/report.ts';
import { modelResult, type GpuBenchResult, type LeftOut } from '../../bench/gpu/result.ts';
import { multiplyAddsOf } from '../../bench/gpu/models.ts';
import type { StepFigures } from '../../bench/gpu/args.ts';
import { PRESETS } from '../../src/spec/gpt.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';

const step = (ms: number, dispatches: number): StepFigures => ({
  ms,
  jsMs: ms / 10,
  readbackMs: 1,
  dispatches,
  submits: 2,
  uploadedBytes: 1e6,
  readBytes: 2e6,
});

const first = (firstMs: number, gpuBytes: number) => ({ firstMs, laterMs: 100, gpuBytes });

const MODEL = modelResult(
  { model: 'gpt-tiny', batch: 8 },
  { plain: first(900, 4e6), stock: first(600, 3e6), ours: first(90, 2e6) },
  {
    parameters: 54_000,
    multiplyAdds: 1e6,
    tokens: 32,
    loops: {
      plain: { steps: [step(50, 90), step(40, 90), step(60, 91)], gpuMs: 30 },
      stock: { steps: [step(40, 60)], gpuMs: 20 },
      ours: { steps: [step(10, 20), step(20, 20), step(16, 20)], gpuMs: null },
    },
    notReplayed: null,
  },
);

test('a result has medians, samples or tokens per second, and a compile time: the first step minus the median of later steps', () => {
  expect(MODEL).toMatchObject({
    ...{ plainMs: 50, stockMs: 40, oursMs: 16, ratio: 2.5, p95Ms: { ours: 20 } },
    ...{ dispatches: { plain: 90, stock: 60, ours: 20 }, submits: { ours: 2 }, unit: 'tokens' },
    ...{ perSecond: { stock: (8 * 32) / 0.04 }, gpuMs: { plain: 30, ours: null } },
    // Two operations, three passes, 8 samples of 10^6 multiply-adds in 40 ms.
    tflops: { stock: (2 * 3 * 8 * 1e6) / 0.04 / 1e12 },
    ...{ compileMs: { plain: 800, stock: 500, ours: 0 }, gpuBytes: { plain: 4e6, stock: 3e6, ours: 2e6 } },
  });
});

test('the section names adapter, browser, date and the models that were left out', () => {
  const product = { size: 512, kind: 'NT', stockGflops: 0.5, oursGflops: 1, ratio: 2 } as const;
  const about = { adapter: 'a GPU', browser: 'Chromium 1', features: [], date: '2026-01-02' };
  const leftOut: LeftOut[] = [
    { name: 'gpt-medium', reason: 'software' },
    { name: 'gpt-large', reason: 'software' },
    { name: 'cnn', reason: 'time limit' },
  ];
  const result = { ...about, leftOut, models: [MODEL], matmul: [product] } satisfies GpuBenchResult;
  const text = section(result);
  expect(text).toContain('on a GPU, Chromium 1, 2026-01-02');
  expect(text).toContain('software: gpt-medium, gpt-large. Not measured, because the time limit was reached: cnn.');
  expect(text).toMatch(/\| gpt-tiny +\| +54000 \| +8 \| +50.0 \| +40.0 \| +16.0 \| +2.50 \|/);
  const printed = tables(result);
  expect(printed).toMatch(/\| 90 \/ 60 \/ 20 \|.* 30.0 \/ 20.0 \/ - \|/);
  expect(printed).toMatch(/\| NT 512 +\| +0.500 \| +1.00 \| +2.00 \|/);
});

test('the section and the tables list the models whose steps are not replayed', () => {
  const about = { adapter: 'a GPU', browser: 'Chromium 1', features: [], date: '2026-01-02', leftOut: [], matmul: [] };
  const eager = { ...MODEL, notReplayed: 'Steps are not replayed: it would need 300 MiB more memory on the GPU.' };
  const result = { ...about, models: [MODEL, { ...eager, name: 'gpt-large' }] } satisfies GpuBenchResult;
  for (const text of [section(result), tables(result)]) {
    expect(text.match(/\S+: Steps are not replayed: .*300 MiB/g)).toHaveLength(1);
    expect(text).toContain('gpt-large: Steps');
  }
});

test('multiply-adds are counted for matrix products and convolutions', () => {
  const mlp = [[784, 64], [64], [64, 10], [10]];
  expect(multiplyAddsOf(DEFAULT_JOB, mlp)).toBe(784 * 64 + 640);
  const cnn = [[5, 5, 1, 8], [8], [5, 5, 8, 16], [16], [784, 10], [10]];
  expect(multiplyAddsOf(DEFAULT_JOB, cnn)).toBe(200 * 196 + 3200 * 49 + 7840);
  const gpt = { ...PRESETS.tiny.model, layers: 1, width: 8, context: 4, prompt: '\n' };
  const shapes = [[12, 8], [4, 8], [8], [8, 24], [8, 8], [8], [8, 32], [32, 8], [8]];
  const perToken = 12 * 8 + 12 * 8 * 8 + 2 * 4 * 8;
  expect(multiplyAddsOf({ job: 'gpt', gpt }, shapes)).toBe(4 * perToken);
});
