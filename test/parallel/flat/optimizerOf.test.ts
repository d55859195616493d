import * as tf from '@tensorflow/tfjs';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createOptimizer } from '../../../src/optim/index.ts';
import { optimizerOf } from '../../../src/parallel/flat/optimizerOf.ts';
import { MismatchError, UsageError } from '../../../src/util/errors.ts';
import { createRng } from '../../../src/util/rng.ts';

const STEPS = 50;
const SIZE = 64;
const RELATIVE = 1e-6;

const OPTIMIZERS: readonly [string, () => tf.Optimizer][] = [
  ['sgd', () => tf.train.sgd(0.1)],
  ['momentum', () => tf.train.momentum(0.05, 0.9)],
  ['momentum with Nesterov', () => tf.train.momentum(0.05, 0.8, true)],
  ['adagrad', () => tf.train.adagrad(0.1)],
  ['adagrad from 0', () => tf.train.adagrad(0.01, 0)],
  ['adadelta', () => tf.train.adadelta()],
  ['adadelta with settings', () => tf.train.adadelta(1, 0.9, 1e-5)],
  ['adam', () => tf.train.adam()],
  ['adam with settings', () => tf.train.adam(0.01, 0.8, 0.95, 1e-4)],
  ['adamax', () => tf.train.adamax()],
  ['adamax with settings', () => tf.train.adamax(0.01, 0.85, 0.99, 1e-6, 0.1)],
  ['rmsprop', () => tf.train.rmsprop(0.01)],
  ['rmsprop with momentum', () => tf.train.rmsprop(0.01, 0.95, 0.5, 1e-5)],
  ['centered rmsprop', () => tf.train.rmsprop(0.01, 0.9, 0.3, 1e-6, true)],
];

afterEach(() => {
  vi.restoreAllMocks();
});

/** Random values: an eighth of them is large, and a quarter is zero in half of the steps. */
function gradientOf(step: number, hasZeros = true): Float32Array {
  const rng = createRng(step + 7);
  return Float32Array.from({ length: SIZE }, (_, i) => {
    const value = (rng.next() - 0.5) * (i % 8 === 1 ? 1e4 : 2);
    return hasZeros && i % 4 === 2 && rng.below(2) === 0 ? 0 : value;
  });
}

/** A quarter of the parameters starts at zero, like biases. */
function start(): Float32Array<ArrayBuffer> {
  const rng = createRng(1);
  return Float32Array.from({ length: SIZE }, (_, i) => (i % 4 === 3 ? 0 : rng.next() - 0.5));
}

/** TensorFlow.js's parameters after each step. */
function trainWithTensorflow(
  optimizer: tf.Optimizer,
  gradients: readonly Float32Array[],
  before: (step: number) => void = () => {},
): Float32Array[] {
  const variable = tf.variable(tf.tensor1d(start()));
  const values = gradients.map((gradient, step) => {
    before(step);
    const tensor = tf.tensor1d(gradient);
    optimizer.applyGradients([{ name: variable.name, tensor }]);
    tensor.dispose();
    return Float32Array.from(variable.dataSync());
  });
  variable.dispose();
  return values;
}

/**
 * The largest difference of an element, relative to the sum of its distance from zero and of its
 * way so far: a parameter that crosses zero has no relative error of its own.
 */
function differenceOf(mine: readonly Float32Array[], theirs: readonly Float32Array[]): number {
  let largest = 0;
  const way = new Float64Array(SIZE);
  let last = start();
  for (const [step, expected] of theirs.entries()) {
    for (const [i, value] of expected.entries()) {
      way[i]! += Math.abs(value - last[i]!);
      const error = Math.abs(mine[step]![i]! - value);
      if (error > 0) largest = Math.max(largest, error / (Math.abs(value) + way[i]!));
      if (!Number.isFinite(error)) return NaN;
    }
    last = Float32Array.from(expected);
  }
  return largest;
}

function train(
  optimizer: ReturnType<typeof optimizerOf>,
  gradients: readonly Float32Array[],
  before: (step: number) => void = () => {},
): Float32Array[] {
  const params = start();
  return gradients.map((gradient, step) => {
    before(step);
    optimizer.apply(params, gradient);
    return params.slice();
  });
}

function gradientsFor(name: string, steps = STEPS): Float32Array[] {
  // A gradient of zero in the first step makes centered RMSProp NaN; see the test below.
  return Array.from({ length: steps }, (_, step) => gradientOf(step, !name.startsWith('centered')));
}

describe('optimizerOf', () => {
  test.each(OPTIMIZERS)('computes the values of TensorFlow.js in 50 steps: %s', (name, create) => {
    const gradients = gradientsFor(name);
    const theirs = trainWithTensorflow(create(), gradients);
    expect(differenceOf(train(optimizerOf(create(), SIZE), gradients), theirs)).toBeLessThan(RELATIVE);
  });

  test.each(['sgd', 'adagrad', 'adadelta', 'adam', 'adamax', 'rmsprop'] as const)(
    'recognizes the optimizer of a model compiled with %s',
    (name) => {
      const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1] })] });
      model.compile({ optimizer: name, loss: 'meanSquaredError' });
      const gradients = gradientsFor(name, 5);
      const mine = train(optimizerOf(model.optimizer, SIZE), gradients);
      expect(differenceOf(mine, trainWithTensorflow(model.optimizer, gradients))).toBeLessThan(RELATIVE);
      model.dispose();
    },
  );

  test('makes the same parameters NaN as centered RMSProp of TensorFlow.js', () => {
    const [a, b] = [tf.train.rmsprop(0.01, 0.9, 0, 1e-7, true), tf.train.rmsprop(0.01, 0.9, 0, 1e-7, true)];
    const gradient = gradientOf(0);
    gradient[5] = 0;
    const [theirs] = trainWithTensorflow(a, [gradient]);
    const [mine] = train(optimizerOf(b, SIZE), [gradient]);
    expect(theirs![5]).toBeNaN();
    expect(Array.from(mine!, Number.isNaN)).toEqual(Array.from(theirs!, Number.isNaN));
  });

  test.each(OPTIMIZERS)('follows a change of the learning rate: %s', (name, create) => {
    const gradients = gradientsFor(name);
    const [theirs, mine] = [create(), create()];
    const expected = trainWithTensorflow(theirs, gradients, (step) => changeRate(theirs, step));
    const flat = optimizerOf(mine, SIZE);
    expect(
      differenceOf(
        train(flat, gradients, (step) => changeRate(mine, step)),
        expected,
      ),
    ).toBeLessThan(RELATIVE);
    expect(flat.learningRate).toBe(0.004);
    expect(flat.state().scalars[0]).toBe(0.004);
  });

  test.each(OPTIMIZERS)('sets its learning rate on the optimizer of TensorFlow.js, too: %s', (_, create) => {
    const source = create();
    const flat = optimizerOf(source, SIZE);
    flat.learningRate = 0.25;
    expect(source.getConfig()['learningRate']).toBe(0.25);
    expect(() => (flat.learningRate = NaN)).toThrow(UsageError);
    expect(flat.learningRate).toBe(0.25);
  });

  test.each(OPTIMIZERS)('continues from the state of another rank with the same bits: %s', (name, create) => {
    const gradients = gradientsFor(name, 6);
    const first = optimizerOf(create(), SIZE);
    first.learningRate = 0.125;
    train(first, gradients);
    const source = create();
    const second = optimizerOf(source, SIZE);
    second.load(structuredClone(first.state()));
    expect(source.getConfig()['learningRate']).toBe(0.125);
    expect(train(second, gradients)).toEqual(train(first, gradients));
    expect(second.state()).toEqual(first.state());
  });

  test('creates no tensors, and does not change the optimizer of TensorFlow.js', () => {
    const source = tf.train.adam();
    const { numTensors } = tf.memory();
    train(optimizerOf(source, SIZE), gradientsFor('adam', 3));
    expect(tf.memory().numTensors).toBe(numTensors);
    expect(source.iterations).toBe(0);
  });

  test('has the same bits on a 16-bit device, where the default epsilon of TensorFlow.js is larger', () => {
    const gradients = gradientsFor('adam', 5);
    const expected = train(optimizerOf(tf.train.adam(), SIZE), gradients);
    vi.spyOn(tf.backend(), 'epsilon').mockReturnValue(1e-4);
    const source = tf.train.adam();
    expect(source.getConfig()['epsilon']).toBe(1e-4);
    expect(train(optimizerOf(source, SIZE), gradients)).toEqual(expected);
  });

  test('rejects the states of other optimizers, including those of PyTorch', () => {
    const adam = optimizerOf(tf.train.adam(), SIZE);
    for (const other of [
      createOptimizer('adam', { learningRate: 0.1 }, SIZE),
      optimizerOf(tf.train.adamax(), SIZE),
      optimizerOf(tf.train.adam(), SIZE + 1),
    ]) {
      expect(() => adam.load(other.state())).toThrow(MismatchError);
    }
  });
});

describe('optimizerOf rejects', () => {
  class Lion extends tf.Optimizer {
    static readonly className = 'Lion';
    applyGradients(): void {}
    getConfig() {
      return {};
    }
  }

  class ClippedAdam extends tf.AdamOptimizer {
    override applyGradients(): void {}
  }

  const patched = tf.train.sgd(0.1);
  patched.applyGradients = () => {};

  test.each([
    ['another class', new Lion(), 'Lion is a custom tf.Optimizer'],
    ['a subclass', new ClippedAdam(0.1, 0.9, 0.999), 'ClippedAdam is a custom tf.Optimizer'],
    ['a replaced method', patched, 'SGDOptimizer is a custom tf.Optimizer'],
  ])('%s, with its name and the optimizers that work', (_, optimizer, text) => {
    const call = (): unknown => optimizerOf(optimizer, 1);
    expect(call).toThrow(UsageError);
    expect(call).toThrow(text);
    expect(call).toThrow('tf.train.sgd, momentum, adagrad, adadelta, adam, adamax or rmsprop');
  });

  test.each([[undefined], [null], ['adam'], [{}]])('%o, which is not an optimizer', (value) => {
    const call = (): unknown => optimizerOf(value as unknown as tf.Optimizer, 1);
    expect(call).toThrow(UsageError);
    expect(call).toThrow('is not an optimizer');
  });

  test('an optimizer that has already stepped', () => {
    const optimizer = tf.train.adam();
    const variable = tf.variable(tf.scalar(1));
    optimizer.minimize(() => variable.square().asScalar(), false, [variable]);
    expect(() => optimizerOf(optimizer, 1)).toThrow('Adam has already done 1 steps');
  });

  test.each([
    [() => tf.train.sgd(-1), 'learningRate is -1'],
    [() => tf.train.adagrad(NaN), 'learningRate is NaN'],
    [() => tf.train.momentum(0.1, 1), 'momentum is 1'],
    [() => tf.train.adagrad(0.1, -1), 'initialAccumulatorValue is -1'],
    [() => tf.train.adadelta(0.1, 1.5), 'rho is 1.5'],
    [() => tf.train.adam(0.1, 2), 'beta1 is 2'],
    [() => tf.train.adamax(0.1, 0.9, 1), 'beta2 is 1'],
    [() => tf.train.adamax(0.1, 0.9, 0.9, 0, -1), 'decay is -1'],
    [() => tf.train.rmsprop(0.1, 0.9, 0, -1), 'epsilon is -1'],
  ])('a setting out of range: %o', (create, text) => {
    const call = (): unknown => optimizerOf(create(), 1);
    expect(call).toThrow(UsageError);
    expect(call).toThrow(text);
  });

  test('a size that is not a whole number', () => {
    expect(() => optimizerOf(tf.train.adam(), 1.5)).toThrow(UsageError);
  });
});

/** Sets a rate at step 20, as a callback of a page does it. */
function changeRate(optimizer: tf.Optimizer, step: number): void {
  if (step !== 20) return;
  if (optimizer instanceof tf.SGDOptimizer && 'setLearningRate' in optimizer) optimizer.setLearningRate(0.004);
  else Reflect.set(optimizer, 'learningRate', 0.004);
}
