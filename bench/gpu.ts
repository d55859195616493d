/**
 * `bench gpu`: measures training on WebGPU in one tab: a plain TensorFlow.js loop, and peergrad
 * with TensorFlow.js's kernels and with its own. Also measures matrix products with both.
 */
import { Option } from 'commander';
import { GPU_MODES } from '../launcher/browser/browser.ts';
import type { Io } from '../launcher/io.ts';
import { startSignaling } from '../signaling/index.ts';
import { SOFTWARE_RENDERER } from '../src/util/softwareRenderer.ts';
import { buildPage } from '../tools/buildPage.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { LOOPS, MODEL_NAMES, type ByLoop, type FirstSteps, type GpuModel, type LoopName } from './gpu/args.ts';
import { openGpuPage, type BrowserChoice, type GpuPage } from './gpu/browsers.ts';
import { drawResult, section, tables } from './gpu/report.ts';
import { modelResult, type GpuBenchResult, type ModelResult } from './gpu/result.ts';

interface GpuBenchOptions extends BrowserChoice {
  picture?: string;
  json?: true;
}

/** Samples of a step on a GPU, as in training runs, and in software; `null`: not measured there. */
const BATCHES: Record<GpuModel, { gpu: number; software: number | null }> = {
  mlp: { gpu: 32, software: 32 },
  'mlp-1024': { gpu: 32, software: 32 },
  cnn: { gpu: 32, software: 8 },
  'gpt-tiny': { gpu: 8, software: 8 },
  'gpt-small': { gpu: 16, software: 1 },
  'gpt-medium': { gpu: 16, software: null },
  'gpt-large': { gpu: 16, software: null },
};
const MATRIX_SIZES = { gpu: [256, 512, 1024, 2048, 4096], software: [256, 512] };
/** Turns of a model, limited so that all models take less than ten minutes. */
const TURNS = { turns: 20, steps: 3, limitMs: 20_000 };

async function benchGpu({ picture, json, ...choice }: GpuBenchOptions, io: Io): Promise<void> {
  const html = 'bench/gpu/page.html';
  const { dist, remove } = await buildPage(html);
  const server = await startSignaling({ dist });
  try {
    const result = await measure(() => openGpuPage(`${server.url}/${html}`, choice), io);
    if (picture !== undefined) await drawResult(result, picture);
    io.out(json === undefined ? tables(result) : JSON.stringify(result));
  } finally {
    await server.close();
    await remove();
  }
}

async function measure(open: () => Promise<GpuPage>, io: Io): Promise<GpuBenchResult> {
  const { adapter, browser } = await inPage(open, async (page) => ({
    adapter: await page.adapter(),
    browser: page.browser,
  }));
  const kind = SOFTWARE_RENDERER.test(adapter) ? 'software' : 'gpu';
  io.err(`${adapter}, ${browser}`);
  const models: ModelResult[] = [];
  for (const model of MODEL_NAMES) {
    const batch = BATCHES[model][kind];
    if (batch === null) continue;
    io.err(`${model}: first steps of each loop in a fresh browser, then all loops in turn ...`);
    const first: [LoopName, FirstSteps][] = [];
    for (const loop of LOOPS) {
      first.push([loop, await inPage(open, (page) => page.measure('firstSteps', { loop, model, batch }))]);
    }
    const figures = await inPage(open, (page) => page.measure('takeTurns', { model, batch, ...TURNS }));
    models.push(modelResult({ model, batch }, Object.fromEntries(first) as ByLoop<FirstSteps>, figures));
  }
  io.err('matrix products ...');
  const matmul = await inPage(open, (page) => page.measure('measureMatMul', { sizes: MATRIX_SIZES[kind] }));
  return {
    adapter,
    browser,
    date: new Date().toISOString().slice(0, 10),
    leftOut: [
      ...MODEL_NAMES.filter((model) => BATCHES[model][kind] === null),
      ...MATRIX_SIZES.gpu.filter((size) => !MATRIX_SIZES[kind].includes(size)).map((size) => `products of ${size}`),
    ],
    models,
    matmul: matmul.map((one) => ({ ...one, ratio: one.oursGflops / one.stockGflops })),
  };
}

async function inPage<Result>(open: () => Promise<GpuPage>, use: (page: GpuPage) => Promise<Result>): Promise<Result> {
  const page = await open();
  try {
    return await use(page);
  } finally {
    await page.close();
  }
}

export const gpu = defineBenchmark({
  name: 'gpu',
  description:
    "measure a training step on WebGPU: plain TensorFlow.js, and one rank with TensorFlow.js's kernels and with its own",
  options: [
    new Option('--browser <path>', 'path of Chrome, Chromium or Edge, or firefox (default: as of the launcher)'),
    new Option('--gpu <mode>', 'device that WebGPU runs on').choices(GPU_MODES).default('auto'),
    new Option('--picture <file>', 'PNG file for charts of step times and matrix products'),
  ],
  run: benchGpu,
  section,
});
