import { expect, test } from 'vitest';
import type { GpuBenchResult, LeftOut, ModelResult } from '../../bench/gpu/args.ts';
import { section, tables } from '../../bench/gpu/report.ts';

const loop = (ms: number, dispatches: number, gpuMs: number | null) => ({
  ...{ ms, jsMs: ms / 10, dispatches, submits: 2, gpuMs },
});

const MODEL: ModelResult = {
  ...{ model: 'gpt-tiny', batch: 8, parameters: 54_000, tokens: 32, notReplayed: null },
  loops: { plain: loop(50, 90, 30), stock: loop(40, 60, 20), own: loop(16, 20, null) },
  gpuBytes: { plain: 4e6, stock: 3e6, own: 2e6 },
};
const ABOUT = { adapter: { name: 'a GPU', features: [] }, browser: 'Chromium 1', date: '2026-01-02' };

test('the section names adapter, browser, date and the models that were left out', () => {
  const product = { size: 512, kind: 'NT', stockGflops: 0.5, ownGflops: 1 } as const;
  const leftOut: LeftOut[] = [
    { name: 'gpt-medium', reason: 'software' },
    { name: 'gpt-large', reason: 'software' },
    { name: 'cnn', reason: 'time limit' },
  ];
  const result = { ...ABOUT, leftOut, models: [MODEL], matmul: [product] } satisfies GpuBenchResult;
  const text = section(result);
  expect(text).toContain('on a GPU, Chromium 1, 2026-01-02');
  expect(text).toContain('software: gpt-medium, gpt-large. Not measured, because the time limit was reached: cnn.');
  expect(text).toMatch(/\| gpt-tiny +\| +54000 \| +8 \| +50.0 \| +40.0 \| +16.0 \| +2.50 \| +16000 tokens \|/);
  const printed = tables(result);
  expect(printed).toMatch(/\| 90 \/ 60 \/ 20 \|.* 30.0 \/ 20.0 \/ - \|.* 4.0 \/ 3.0 \/ 2.0 \|/);
  expect(printed).toMatch(/\| NT 512 +\| +0.500 \| +1.00 \|/);
});

test('the section and the tables list the models whose steps are not replayed', () => {
  const notReplayed = 'Steps are not replayed: it would need 300 MiB more memory on the GPU.';
  const models: ModelResult[] = [MODEL, { ...MODEL, model: 'gpt-large', notReplayed }];
  for (const show of [section, tables]) {
    const text = show({ ...ABOUT, leftOut: [], matmul: [], models });
    expect(text.match(/\S+: Steps are not replayed: .*300 MiB/g)).toHaveLength(1);
    expect(text).toContain('gpt-large: Steps');
  }
});
