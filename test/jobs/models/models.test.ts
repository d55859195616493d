import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { en } from '../../../src/app/locales/en/index.ts';
import { zh } from '../../../src/app/locales/zh/index.ts';
import { buildJobModel, countConfusion, countCorrect, type JobModel } from '../../../src/jobs/index.ts';
import { crossEntropySum } from '../../../src/gpu/kernels/crossEntropy.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { hashOfArrays } from '../../../src/util/hash.ts';
import { createRng } from '../../../src/util/rng.ts';

const SHAPE = { inputShape: [28, 28, 1], classes: 10 } as const;

interface Batch {
  inputs: number[][];
  labels: number[];
  weights: number[];
}

function batchOf(rows: number, seed = 1): Batch {
  const rng = createRng(seed);
  return {
    inputs: Array.from({ length: rows }, () => Array.from({ length: 784 }, () => rng.next())),
    labels: Array.from({ length: rows }, () => rng.below(10)),
    weights: Array.from({ length: rows }, () => 1),
  };
}

/** Returns the loss and the gradients, one flat array per variable. */
function gradientsOf(model: JobModel, batch: Batch) {
  return tf.tidy(() => {
    const inputs = tf.tensor(batch.inputs.flat(), [batch.inputs.length, 28, 28, 1]);
    const { value, grads } = tf.variableGrads(
      () => crossEntropySum(model.logits(inputs), tf.tensor1d(batch.labels, 'int32'), tf.tensor1d(batch.weights)),
      [...model.variables],
    );
    const gradients = model.variables.map((variable) => grads[variable.name]!.dataSync() as Float32Array);
    return { loss: value.dataSync()[0]!, gradients };
  });
}

/** Returns the initial values of a new model, one array per variable. */
function startOf(name: 'mlp' | 'cnn', seed: number) {
  const model = buildJobModel({ model: name, hidden: 64, seed }, SHAPE);
  const values = model.variables.map((variable) => variable.dataSync().slice() as Float32Array<ArrayBuffer>);
  model.dispose();
  return values;
}

/** Returns `crossEntropySum` and its gradient with respect to the logits. */
function lossOf(logits: number[][], labels: number[], weights: number[]) {
  return tf.tidy(() => {
    const { value, grad } = tf.valueAndGrad((x: tf.Tensor2D) =>
      crossEntropySum(x, tf.tensor1d(labels, 'int32'), tf.tensor1d(weights)),
    )(tf.tensor2d(logits));
    return { value: value.dataSync()[0]!, gradient: grad.arraySync() };
  });
}

function expectClose(actual: ArrayLike<number>, expected: ArrayLike<number>): void {
  const largest = Math.max(1e-3, ...Array.from(expected, Math.abs));
  const off = Math.max(...Array.from(expected, (value, i) => Math.abs(actual[i]! - value)));
  expect(off).toBeLessThan(2e-5 * largest);
}

describe.each([
  {
    model: 'mlp' as const,
    names: ['dense1/kernel', 'dense1/bias', 'dense2/kernel', 'dense2/bias'],
    shapes: [[784, 64], [64], [64, 10], [10]],
    bits: '40db510ae555294a',
  },
  {
    model: 'cnn' as const,
    names: ['conv1/kernel', 'conv1/bias', 'conv2/kernel', 'conv2/bias', 'dense1/kernel', 'dense1/bias'],
    shapes: [[5, 5, 1, 8], [8], [5, 5, 8, 16], [16], [784, 10], [10]],
    bits: '5e92ae69e0287a38',
  },
])('the model $model', ({ model: name, names, shapes, bits }) => {
  test('has its variables in the order of the forward pass, and their names are fixed', () => {
    for (let time = 0; time < 2; time++) {
      const model = buildJobModel({ model: name, hidden: 64, seed: 1 }, SHAPE);
      expect(model.names).toEqual(names);
      expect(model.variables.map((variable) => variable.shape)).toEqual(shapes);
      expect(model.variables.every((variable) => variable.trainable && variable instanceof tf.Variable)).toBe(true);
      model.dispose();
    }
  });

  test('has the same initial weights on every machine, and different weights for a different seed', async () => {
    expect(hashOfArrays(startOf(name, 1))).toBe(bits);
    expect(hashOfArrays(startOf(name, 2))).not.toBe(bits);
    const [kernel, bias] = startOf(name, 1);
    expect(bias!.every((value) => value === 0)).toBe(true);
    const fans = shapes[0]!.slice(0, -2).reduce((a, b) => a * b, 1) * (shapes[0]!.at(-2)! + shapes[0]!.at(-1)!);
    const limit = Math.sqrt(6 / fans);
    expect(Math.max(...kernel!)).toBeLessThanOrEqual(limit);
    expect(Math.max(...kernel!)).toBeGreaterThan(0.8 * limit);
    expect(Math.min(...kernel!)).toBeLessThan(-0.8 * limit);
  });

  test('ignores rows of weight 0', () => {
    const model = buildJobModel({ model: name, hidden: 64, seed: 1 }, SHAPE);
    const batch = batchOf(5);
    const padded = {
      inputs: [...batch.inputs, ...batchOf(2, 7).inputs, Array.from({ length: 784 }, () => 0)],
      labels: [...batch.labels, 3, 9, 0],
      weights: [...batch.weights, 0, 0, 0],
    };
    const plain = gradientsOf(model, batch);
    const masked = gradientsOf(model, padded);
    expect(masked.loss).toBeCloseTo(plain.loss, 4);
    plain.gradients.forEach((gradient, i) => expectClose(masked.gradients[i]!, gradient));
    model.dispose();
  });

  test('has for a whole batch the sum of the losses and gradients that it has for four parts of this batch', () => {
    const model = buildJobModel({ model: name, hidden: 64, seed: 2 }, SHAPE);
    const batch = batchOf(8);
    const whole = gradientsOf(model, batch);
    const shares = [0, 1, 2, 3].map((rank) => {
      const mine = (_: unknown, i: number) => i % 4 === rank;
      return gradientsOf(model, {
        inputs: batch.inputs.filter(mine),
        labels: batch.labels.filter(mine),
        weights: batch.weights.filter(mine),
      });
    });
    expect(shares.reduce((sum, share) => sum + share.loss, 0)).toBeCloseTo(whole.loss, 3);
    whole.gradients.forEach((gradient, i) => {
      expectClose(
        gradient.map((_, k) => shares.reduce((sum, share) => sum + share.gradients[i]![k]!, 0)),
        gradient,
      );
      expect(gradient.some((value) => value !== 0)).toBe(true);
    });
    model.dispose();
  });

  test('frees all tensors when it is disposed', () => {
    const before = tf.memory().numTensors;
    const model = buildJobModel({ model: name, hidden: 64, seed: 1 }, SHAPE);
    expect(tf.memory().numTensors - before).toBe(names.length);
    gradientsOf(model, batchOf(1));
    expect(tf.memory().numTensors - before).toBe(names.length);
    model.dispose();
    expect(tf.memory().numTensors).toBe(before);
  });
});

test('buildJobModel uses the given hidden width, and rejects unknown models', () => {
  const model = buildJobModel({ model: 'mlp', hidden: 7, seed: 1 }, SHAPE);
  expect(model.variables[0]!.shape).toEqual([784, 7]);
  model.dispose();
  expect(() => buildJobModel({ model: 'gpt' as 'mlp', hidden: 64, seed: 1 }, SHAPE)).toThrow(UsageError);
});

describe('crossEntropySum', () => {
  test('is a weighted sum of cross-entropies, and has the gradient weight * (softmax - target)', () => {
    const logits = [
      [1, 2, 0.5],
      [-1, 0, 3],
    ];
    const softmax = logits.map((row) => {
      const sum = row.reduce((total, x) => total + Math.exp(x), 0);
      return row.map((x) => Math.exp(x) / sum);
    });
    const { value, gradient } = lossOf(logits, [1, 0], [1, 0.5]);
    expect(value).toBeCloseTo(-Math.log(softmax[0]![1]!) - 0.5 * Math.log(softmax[1]![0]!), 5);
    [1, 0].forEach((label, row) =>
      [0, 1, 2].forEach((k) => {
        const expected = (row === 0 ? 1 : 0.5) * (softmax[row]![k]! - (k === label ? 1 : 0));
        expect(gradient[row]![k]).toBeCloseTo(expected, 5);
      }),
    );
  });

  test('does not overflow for large logits', () => {
    const { value, gradient } = lossOf([[1e4, -1e4, 0]], [1], [1]);
    expect(value).toBeCloseTo(2e4, 0);
    expect(gradient[0]).toEqual([1, -1, 0]);
  });
});

describe('countCorrect', () => {
  test('counts rows whose label has the largest logit; of equal logits, the first is the largest; no row with NaN counts', () => {
    const logits = Float32Array.of(3, 1, 2, 0, 5, 5, 5, 5, 0, NaN, 0, 1, 0, NaN, 1);
    expect(countCorrect(logits, [0, 1, 0, 2, 2], 3)).toBe(3);
    expect(countCorrect(logits, [0, 2, 1, 0, 1], 3)).toBe(1);
  });

  test('skips rows of weight 0 and logits without a label; it rejects superfluous labels and missing weights', () => {
    const logits = [0, 1, 0, 1, 0, 1];
    expect(countCorrect(logits, [1, 1], 2, [1, 0, 1])).toBe(1);
    expect(countCorrect(logits, [1, 1, 1], 2)).toBe(3);
    expect(() => countCorrect(logits, [1, 1, 1, 1], 2)).toThrow(UsageError);
    expect(() => countCorrect(logits, [1, 1], 2, [1])).toThrow(UsageError);
  });
});

describe('countConfusion', () => {
  test('counts the predictions for each label; of equal logits, the first wins; rows of weight 0 or with NaN are skipped', () => {
    const logits = Float32Array.of(3, 1, 2, 0, 5, 5, 5, 5, 0, NaN, 0, 1, 0, 1, NaN, 0, 1, 2);
    const labels = [0, 2, 2, 2, 2, 1];
    expect([...countConfusion(logits, labels, 3)]).toEqual([1, 0, 0, 0, 0, 1, 1, 1, 0]);
    expect([...countConfusion(logits, labels, 3, [1, 1, 0, 1, 1, 0])]).toEqual([1, 0, 0, 0, 0, 0, 0, 1, 0]);
    expect(() => countConfusion(logits, [...labels, 0], 3)).toThrow(UsageError);
  });
});

test('the lesson gives the true size of the smallest built-in model', () => {
  const sizes = (['mlp', 'cnn'] as const).map((model) => {
    const built = buildJobModel({ model, hidden: 64, seed: 1 }, SHAPE);
    return built.variables.reduce((sum, { size }) => sum + size, 0);
  });
  const digits = String(Math.min(...sizes));
  for (const { lesson } of [en, zh]) {
    const { text } = lesson.thoughts.training();
    expect(JSON.stringify(text).replace(/\s/g, '')).toContain(digits);
  }
});
