/** Steps of the engine whose passes are replayed on WebAssembly. */
import * as tf from '@tensorflow/tfjs';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';
import { beforeAll, expect, test } from 'vitest';
import { switchToWasmBackend } from '../../src/engine/device/wasmBackend.ts';
import { allocateWasmMemory, freeWasmMemory, wasmBackend } from '../../src/wasm/backend.ts';
import { declarePassInputs, PassCaptures } from '../../src/parallel/backward/passCaptures.ts';
import { variablesOf, type ModelVariables } from '../../src/parallel/backward/flatten.ts';
import { differentiatePassAlone } from '../../src/parallel/backward/pass.ts';
import { mlpTask, read, testReplays, Trainer } from '../replayCases.ts';

beforeAll(async () => {
  setWasmPaths('node_modules/@tensorflow/tfjs-backend-wasm/dist/');
  expect(await switchToWasmBackend()).toBe(true);
});

testReplays('values that JavaScript computes changed');

/** Compares six steps of a pass with eager passes. Returns how often it ran, and the reasons. */
async function checkedSteps(
  variables: ModelVariables,
  inputsOf: (step: number) => tf.Tensor[],
  loss: (inputs: tf.Tensor[]) => tf.Scalar,
): Promise<{ runs: number; reasons: string[] }> {
  const reasons: string[] = [];
  const captures = PassCaptures.of(variables, (reason) => reasons.push(reason))!;
  let runs = 0;
  for (let step = 0; step < 6; step++) {
    const inputs = inputsOf(step);
    const eager = differentiatePassAlone(() => loss(inputs), variables);
    const counted = declarePassInputs(inputs, () => {
      runs += 1;
      return loss(inputs);
    });
    const gradients = await captures.gradientsOf(counted, 1);
    expect(await read(gradients)).toEqual(await read(eager));
    eager.dispose();
    gradients.dispose();
    tf.dispose(inputs);
  }
  captures.dispose();
  return { runs, reasons };
}

const REPLAYED = { runs: 3, reasons: [] };

/** Random values of a step. */
const values = (shape: number[], step: number): tf.Tensor => tf.randomUniform(shape, -1, 1, 'float32', step);

test('a pass with batches of matrices, parts and joined tensors has the bits of eager passes', async () => {
  const weights = tf.tidy(() => tf.variable(values([4, 24, 48], 3)));
  const loss = ([x]: tf.Tensor[]): tf.Scalar => {
    const [left, right] = tf.split(tf.matMul(x!, weights), 2, 2) as [tf.Tensor3D, tf.Tensor3D];
    const scores = tf.softmax(tf.matMul(left, right, false, true));
    return tf.sum(tf.concat([tf.matMul(scores, right), tf.slice(left, 0, [4, 16, 24])], 1).square());
  };
  expect(await checkedSteps(variablesOf([weights]), (step) => [values([4, 32, 24], step)], loss)).toEqual(REPLAYED);
  weights.dispose();
});

test('a gradient of one unit follows residuals that change their signs only in a replay', async () => {
  const kernel = tf.tidy(() => tf.variable(values([4, 1], 3)));
  const bias = tf.tidy(() => tf.variable(tf.zeros([1])));
  const loss = ([x, y]: tf.Tensor[]): tf.Scalar => tf.sum(tf.abs(tf.sub(tf.matMul(x!, kernel).add(bias), y!)));
  const run = checkedSteps(
    variablesOf([kernel, bias]),
    (step) => [values([8, 4], step), tf.tidy(() => tf.mul(tf.ones([8, 1]), step < 4 ? 9 : -9))],
    loss,
  );
  expect(await run).toEqual(REPLAYED);
  tf.dispose([kernel, bias]);
});

test('gradients that share their memory are replayed, and freed at the end', async () => {
  const before = tf.memory();
  const all = tf.tidy(() => [tf.variable(values([20, 30], 1)), tf.variable(values([20, 30], 2))]);
  const loss = ([x]: tf.Tensor[]): tf.Scalar => tf.sum(tf.mul(tf.add(all[0]!, all[1]!), x!));
  expect(await checkedSteps(variablesOf(all), (step) => [values([20, 30], step)], loss)).toEqual(REPLAYED);
  tf.dispose(all);
  expect(tf.memory()).toEqual(before);
});

test('inputs that share their memory keep it', async () => {
  const weights = tf.tidy(() => tf.variable(values([40, 3], 3)));
  const loss = ([x, y]: tf.Tensor[]): tf.Scalar => tf.sum(tf.matMul(y!, tf.matMul(x!, weights)).square());
  const run = checkedSteps(
    variablesOf([weights]),
    (step) => {
      const x = values([30, 40], step);
      return [x, x.reshape([40, 30])];
    },
    loss,
  );
  expect(await run).toEqual(REPLAYED);
  weights.dispose();
});

test.each(['another input', 'a parameter'])('an input may share the memory of %s in some steps only', async (other) => {
  const weights = tf.tidy(() => tf.variable(values([4, 3], 3)));
  const before = await weights.data();
  const loss = ([x, y]: tf.Tensor[]): tf.Scalar => tf.sum(tf.sub(tf.mul(x!, weights), y!).square());
  const inputsOf = (step: number): tf.Tensor[] => {
    const x = values([4, 3], step);
    if (step >= 3) return [x, values([4, 3], step + 100)];
    return [x, other === 'another input' ? x.clone() : weights.clone()];
  };
  expect(await checkedSteps(variablesOf([weights]), inputsOf, loss)).toEqual({ runs: 6, reasons: [] });
  expect(await weights.data()).toEqual(before);
  weights.dispose();
});

test('a tensor from before the pass is a constant: its owner may free it, and a change makes passes eager', async () => {
  const weights = tf.tidy(() => tf.variable(values([4, 3], 3)));
  const run = (mask: (step: number) => tf.Tensor): ReturnType<typeof checkedSteps> => {
    const masks = Array.from({ length: 6 }, (_, step) => mask(step));
    let step = 0;
    const inputs = (now: number): tf.Tensor[] => [values([5, 4], (step = now))];
    const loss = ([x]: tf.Tensor[]): tf.Scalar => tf.sum(tf.mul(tf.matMul(x!, weights), masks[step]!).square());
    return checkedSteps(variablesOf([weights]), inputs, loss).finally(() => tf.dispose(masks));
  };
  expect(await run(() => tf.tensor2d([[1, 0, 1]]))).toEqual(REPLAYED);
  const { runs, reasons } = await run((step) => tf.tensor2d([[1, step, 1]]));
  expect([runs, reasons]).toEqual([6, [expect.stringContaining('tensors that exist before it changed')]]);
  weights.dispose();
});

test('the memory of tensors and of the module does not grow in 200 steps, and is freed at the end', async () => {
  const backend = wasmBackend()!;
  /** Tensors, and where the module has room for 1 MB. */
  const held = (): number[] => {
    const offset = allocateWasmMemory(backend, 1e6);
    freeWasmMemory(backend, offset);
    return [tf.memory().numTensors, backend.numDataIds(), offset];
  };
  const trainer = new Trainer(await mlpTask());
  for (let step = 0; step < 5; step++) await trainer.step();
  const before = held();
  for (let step = 0; step < 195; step++) await trainer.step();
  expect(held()).toEqual(before);
  expect(trainer.runs).toBe(3);
  trainer.dispose();
  expect(backend.numDataIds()).toBeLessThan(before[1]!);
});
