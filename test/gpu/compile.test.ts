import * as tf from '@tensorflow/tfjs';
import { afterEach, expect, test } from 'vitest';
import { webgpuBackend } from '../../src/gpu/backend.ts';
import { compileShadersAhead } from '../../src/gpu/compile.ts';
import { systemClock } from '../../src/util/clock.ts';
import { DeviceError } from '../../src/util/errors.ts';
import { gradientsOf, type ComputedGradients } from '../../src/parallel/backward/flatten.ts';
import { errorOf } from '../errorOf.ts';
import { ManualClock } from '../manualClock.ts';

const noop = (): void => {};
const originals: (() => void)[] = [];
afterEach(() => {
  for (const restore of originals.splice(0)) restore();
});

/** Replaces a method of the device until the end of the test. */
function replace<Name extends 'createComputePipeline' | 'createComputePipelineAsync'>(
  name: Name,
  method: (original: GPUDevice[Name]) => GPUDevice[Name],
): void {
  const { device } = webgpuBackend()!;
  const original = device[name];
  device[name] = method(original.bind(device) as GPUDevice[Name]);
  originals.push(() => (device[name] = original));
}

test('a pass with shaders that were compiled ahead compiles no further shader, and its values are correct', async () => {
  const before = tf.memory().numTensors;
  const x = tf.tidy(() => tf.range(0, 35).reshape([5, 7]));
  const weights = tf.tidy(() => tf.variable(tf.ones([7, 3])));
  const pass = (): ComputedGradients => gradientsOf(() => tf.mean(tf.selu(tf.matMul(x, weights))), [weights], 1);
  const later: unknown[] = [];
  replace('createComputePipeline', (create) => (descriptor) => {
    later.push(descriptor.label);
    return create(descriptor);
  });
  const progress: string[] = [];
  await compileShadersAhead(() => pass().dispose(), {
    clock: systemClock,
    onprogress: ({ compiled, total }) => progress.push(`${compiled}/${total}`),
  });
  expect(progress.length).toBeGreaterThan(3);
  expect(progress).toEqual(progress.map((_, i) => `${i}/${progress.length - 1}`));
  const computed = pass();
  const { value, gradients } = computed;
  expect(later).toEqual([]);
  // Row r of x * ones has the sum 49r + 21, and a positive input has the gradient 1.0507.
  expect((await value.data())[0]).toBeCloseTo(119 * 1.0507, 2);
  expect((await gradients[0]!.data())[0]).toBeCloseTo((70 / 15) * 1.0507, 3);
  // A second call finds nothing to compile.
  await compileShadersAhead(() => pass().dispose(), { clock: systemClock, onprogress: () => expect.unreachable() });
  computed.dispose();
  tf.dispose([x, weights]);
  expect(tf.memory().numTensors).toBe(before);
});

test('an op compiles a shader itself if this shader is still being compiled', async () => {
  const x = tf.tensor1d(Float32Array.from({ length: 5000 }, (_, i) => i));
  const op = (): tf.Tensor => tf.tidy(() => tf.softplus(x));
  const compiling = compileShadersAhead(() => op().dispose(), { clock: systemClock });
  const result = op();
  expect((await result.data())[4000]).toBe(4000);
  await compiling;
  tf.dispose([x, result]);
});

test('a shader that cannot be compiled causes an error that names the kernel', async () => {
  replace(
    'createComputePipelineAsync',
    (create) => (descriptor) =>
      descriptor.label === 'CumProgram' ? Promise.reject(new Error('out of registers')) : create(descriptor),
  );
  const x = tf.ones([3, 300, 20]);
  const compiling = compileShadersAhead(() => tf.cumsum(x, 2).dispose(), { clock: systemClock });
  const error = await errorOf(compiling);
  expect(error).toBeInstanceOf(DeviceError);
  expect(error.message).toMatch(/could not compile the kernel cum.*: out of registers/);
  x.dispose();
});

test('a shader whose compilation never ends causes an error after a minute', async () => {
  replace('createComputePipelineAsync', () => () => new Promise<GPUComputePipeline>(noop));
  const clock = new ManualClock();
  const x = tf.ones([3, 300, 20]);
  const error = errorOf(compileShadersAhead(() => tf.cumprod(x, 2).dispose(), { clock }));
  clock.advance(60_000);
  expect((await error).message).toContain('compiled 0 of');
  x.dispose();
});

test('ops run as before after a pass that fails while its shaders are compiled', async () => {
  const failing = compileShadersAhead(
    () => {
      throw new Error('no such column');
    },
    { clock: systemClock },
  );
  expect((await errorOf(failing)).message).toBe('no such column');
  const x = tf.ones([400, 40]);
  const sum = tf.sum(x);
  expect((await sum.data())[0]).toBe(16_000);
  tf.dispose([x, sum]);
});
