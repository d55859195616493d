/** Steps of the engine whose passes are replayed on WebAssembly. */
import * as tf from '@tensorflow/tfjs';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { openWasm } from '../../src/engine/device/wasm.ts';
import { wasmBackend } from '../../src/wasm/backend.ts';
import { declareInputs, PassCaptures } from '../../src/parallel/backward/passCaptures.ts';
import { variablesOf } from '../../src/parallel/backward/flatten.ts';
import { differentiateAlone } from '../../src/parallel/backward/pass.ts';
import { mlpTask, read, testReplays, Trainer } from '../replayCases.ts';

// The paths that Vite creates for a browser do not work in Node.
const files = vi.hoisted(() => {
  const path = 'node_modules/@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm';
  return { plain: { default: `${path}.wasm` }, simd: { default: `${path}-simd.wasm` } };
});
vi.mock('@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm.wasm?url', () => files.plain);
vi.mock('@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm-simd.wasm?url', () => files.simd);

beforeAll(async () => {
  expect(await openWasm()).toBe(true);
});
afterAll(() => tf.setBackend('cpu'));

testReplays('values that JavaScript computes changed');

test('a pass with batches of matrices, parts and joined tensors is replayed with the bits of eager passes', async () => {
  const weights = tf.tidy(() => tf.variable(tf.randomUniform([4, 24, 48], -1, 1, 'float32', 3)));
  const variables = variablesOf([weights]);
  const reasons: string[] = [];
  const captures = PassCaptures.of(variables, (reason) => reasons.push(reason))!;
  let runs = 0;
  for (let step = 0; step < 6; step++) {
    const x = tf.randomUniform([4, 32, 24], -1, 1, 'float32', step);
    const loss = (): tf.Scalar => {
      const [left, right] = tf.split(tf.matMul(x, weights), 2, 2) as [tf.Tensor3D, tf.Tensor3D];
      const scores = tf.softmax(tf.matMul(left, right, false, true));
      return tf.sum(tf.concat([tf.matMul(scores, right), tf.slice(left, 0, [4, 16, 24])], 1).square());
    };
    const eager = differentiateAlone(loss, variables);
    const counted = declareInputs([x], () => {
      runs += 1;
      return loss();
    });
    const gradients = await captures.gradientsOf(counted, 1);
    expect(await read(gradients)).toEqual(await read(eager));
    eager.dispose();
    gradients.dispose();
    x.dispose();
  }
  expect([runs, reasons]).toEqual([3, []]);
  captures.dispose();
  weights.dispose();
});

const held = (): number[] => [tf.memory().numTensors, wasmBackend()!.wasm.HEAPU8.length];

test('the memory of tensors and of the module does not grow in 200 steps', async () => {
  const trainer = new Trainer(await mlpTask());
  for (let step = 0; step < 5; step++) await trainer.step();
  const before = held();
  for (let step = 0; step < 195; step++) await trainer.step();
  expect(held()).toEqual(before);
  expect(trainer.runs).toBe(3);
  trainer.dispose();
});
