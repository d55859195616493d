/** Runs the measurements of `bench gpu` on a page that returns figures at once. */
import { expect, test } from 'vitest';
import type { LoopFigures } from '../../bench/gpu/args.ts';
import { measure, type GpuPage } from '../../bench/gpu/measure.ts';
import { ManualClock } from '../manualClock.ts';

const LIMIT_MS = 60_000;

const LOOP: LoopFigures = { ms: 10, jsMs: 1, dispatches: 1, submits: 1, gpuMs: null };
const LOOPS = { plain: LOOP, stock: LOOP, own: LOOP };

type OnModel = (model: string) => Promise<void>;

/**
 * Measures on the named adapter. `onModel` runs before the memory of each loop of a model is
 * measured.
 */
async function measureOn(
  adapter: string | Promise<string>,
  onModel: OnModel = async () => {},
  {
    gpu = 'hardware',
    clock = new ManualClock(),
    signal = new AbortController().signal,
    onclose = () => {},
  }: { gpu?: 'hardware' | 'auto'; clock?: ManualClock; signal?: AbortSignal; onclose?: () => void } = {},
) {
  const saved: number[] = [];
  const answers = {
    adapter: async () => ({ name: await adapter, features: ['shader-f16'] }),
    measureMatMul: () => [{ size: 256, kind: 'NN', stockGflops: 1, ownGflops: 2 }],
    memoryOf: () => 1,
    takeTurns: () => ({ parameters: 1, tokens: null, loops: LOOPS, notReplayed: null }),
  };
  let open = 0;
  const page = {
    browser: 'Chromium 1',
    async measure(name: keyof typeof answers, args: { model: string }) {
      if (name === 'memoryOf') await onModel(args.model);
      return answers[name]();
    },
    async close() {
      open -= 1;
      onclose();
    },
  } as unknown as GpuPage;
  const result = await measure(
    { gpu, limitMs: LIMIT_MS },
    {
      open: async () => {
        open += 1;
        return page;
      },
      clock,
      signal,
      log: () => {},
      save: async ({ models, matmul }) => void saved.push(models.length + matmul.length),
    },
  );
  return { result, saved, open };
}

test('all models are measured on a GPU, and the result is saved after each model', async () => {
  const { result, saved, open } = await measureOn('NVIDIA H100');
  expect(result).toMatchObject({ adapter: { name: 'NVIDIA H100', features: ['shader-f16'] }, leftOut: [] });
  expect([result.models.length, result.matmul.length, open]).toEqual([7, 5, 0]);
  expect(saved).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
});

test.each(['google swiftshader', 'llvmpipe (LLVM 19)', 'WebGPU (software)'])(
  'the software adapter %s is refused by name if a GPU is required',
  async (adapter) => {
    await expect(measureOn(adapter)).rejects.toThrow(`adapter is ${adapter}, which computes in software`);
    await expect(measureOn(adapter)).rejects.toThrow('VK_DRIVER_FILES');
    const { result } = await measureOn(adapter, undefined, { gpu: 'auto' });
    expect(result.leftOut.map(({ name }) => name)).toContain('gpt-large');
  },
);

test('a browser that opens no adapter within 30 s is an error if a GPU is required', async () => {
  const clock = new ManualClock();
  setImmediate(() => clock.advance(30_000));
  const measuring = measureOn(new Promise<string>(() => {}), undefined, { clock });
  await expect(measuring).rejects.toThrow('needs a GPU. The browser opened no GPU within 30 s');
});

test('when the time limit is reached, the unfinished model and all later models are left out', async () => {
  const clock = new ManualClock();
  const { result, saved, open } = await measureOn(
    'NVIDIA H100',
    (model) => {
      if (model !== 'gpt-small') return Promise.resolve();
      setImmediate(() => clock.advance(LIMIT_MS));
      return new Promise(() => {});
    },
    { clock },
  );
  expect(result.models.map(({ model }) => model)).toEqual(['mlp', 'mlp-1024', 'cnn', 'gpt-tiny']);
  expect(result.leftOut).toEqual(
    ['gpt-small', 'gpt-medium', 'gpt-large'].map((name) => ({ name, reason: 'time limit' })),
  );
  expect([saved.at(-1), open]).toEqual([9, 0]);
});

test('a model that fails is left out, and later models are measured', async () => {
  const { result } = await measureOn('NVIDIA H100', async (model) => {
    if (model === 'cnn') throw new Error('out of memory');
  });
  expect(result.leftOut).toEqual([{ name: 'cnn', reason: 'failed' }]);
  expect(result.models).toHaveLength(6);
});

test('an interrupt ends the measurement of a model at once, closes its browser, and opens no other browser', async () => {
  const controller = new AbortController();
  const models: string[] = [];
  let closed = 0;
  const onModel = (model: string): Promise<void> => {
    models.push(model);
    controller.abort(new Error('interrupted'));
    return new Promise(() => {});
  };
  const { signal } = controller;
  await expect(measureOn('NVIDIA H100', onModel, { signal, onclose: () => (closed += 1) })).rejects.toThrow(
    'interrupted',
  );
  expect(models).toEqual(['mlp']);
  // The adapter, five sizes of products, and the model.
  expect(closed).toBe(7);
});
