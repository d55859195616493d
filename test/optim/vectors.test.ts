/** Adam's loop in WebAssembly and in JavaScript. */
import { afterEach, expect, test, vi } from 'vitest';
import type * as optim from '../../src/optim/index.ts';
import { createRng } from '../../src/util/rng.ts';

type Create = (module: typeof optim, size: number) => optim.Optimizer;

afterEach(() => vi.restoreAllMocks());

/** Takes three steps. The second one leaves elements out. */
async function bitsAfterSteps(create: Create, size: number): Promise<Uint32Array[]> {
  vi.resetModules();
  const optimizer = create(await import('../../src/optim/index.ts'), size);
  const rng = createRng(size);
  const params = Float32Array.from({ length: size }, () => rng.next() - 0.5);
  const middle = Math.floor(size / 2);
  for (const ranges of [undefined, [{ start: 1, end: middle }], [{ start: 0, end: size }]]) {
    const gradient = Float32Array.from({ length: size }, () => (rng.next() - 0.5) * 10 ** (rng.below(12) - 9));
    optimizer.apply(params, gradient, ranges);
  }
  return [params, ...optimizer.state().slots].map((one) => new Uint32Array(one.buffer));
}

const adam: Create = ({ createOptimizer }, size) => createOptimizer('adam', { learningRate: 0.01 }, size);

test.each<[name: string, create: Create]>([
  ['adam', adam],
  [
    'adam with weight decay',
    ({ createOptimizer }, size) => createOptimizer('adam', { learningRate: 0.01, weightDecay: 0.1 }, size),
  ],
  ['adamw', ({ createOptimizer }, size) => createOptimizer('adamw', { learningRate: 0.01 }, size)],
  [
    "TensorFlow.js's Adam",
    ({ createTensorflowRule }, size) =>
      createTensorflowRule('Adam', { learningRate: 0.01, beta1: 0.9, beta2: 0.999, epsilon: 1e-7 }, size)!,
  ],
])('%s has the same bits in WebAssembly and in JavaScript', async (_, create) => {
  for (const size of [7, 1203, 4096, 9001]) {
    const fast = await bitsAfterSteps(create, size);
    vi.spyOn(WebAssembly, 'validate').mockReturnValue(false);
    expect(await bitsAfterSteps(create, size)).toEqual(fast);
    vi.restoreAllMocks();
  }
});

test('Adam runs in JavaScript on a page whose Content-Security-Policy forbids WebAssembly', async () => {
  const fast = await bitsAfterSteps(adam, 999);
  const compile = vi.spyOn(WebAssembly, 'Module').mockImplementation(function () {
    throw new WebAssembly.CompileError('violates the Content Security Policy');
  });
  expect(await bitsAfterSteps(adam, 999)).toEqual(fast);
  expect(compile).toHaveBeenCalledOnce();
});
