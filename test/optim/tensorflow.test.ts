import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createTensorflowRule, type OptimizerConfig } from '../../src/optim/index.ts';
import { UsageError } from '../../src/util/errors.ts';
import { hashOfArrays } from '../../src/util/hash.ts';
import { createRng } from '../../src/util/rng.ts';

const RULES: readonly [string, OptimizerConfig][] = [
  ['SGD', {}],
  ['Momentum', { momentum: 0.9, useNesterov: false }],
  ['Momentum', { momentum: 0.9, useNesterov: true }],
  ['Adagrad', { initialAccumulatorValue: 0.1 }],
  ['Adadelta', { rho: 0.95, epsilon: 1e-7 }],
  ['Adam', { beta1: 0.9, beta2: 0.999, epsilon: 1e-7 }],
  ['Adamax', { beta1: 0.9, beta2: 0.999, epsilon: 1e-7, decay: 0.01 }],
  ['RMSProp', { decay: 0.9, momentum: 0.3, epsilon: 1e-7, centered: false }],
  ['RMSProp', { decay: 0.9, momentum: 0.3, epsilon: 1e-9, centered: true }],
];

const SIZE = 257;

const create = (name: string, config: OptimizerConfig, size = SIZE, learningRate = 0.003) =>
  createTensorflowRule(name, { ...config, learningRate }, size)!;

function gradientOf(step: number): Float32Array {
  const rng = createRng(step + 100);
  return Float32Array.from({ length: SIZE }, () => (rng.next() - 0.5) * (rng.below(3) - 0.5));
}

function run(name: string, config: OptimizerConfig, steps: number) {
  const rng = createRng(1);
  const params = Float32Array.from({ length: SIZE }, () => rng.next() - 0.5);
  const optimizer = create(name, config);
  for (let step = 0; step < steps; step++) optimizer.apply(params, gradientOf(step));
  const { scalars, slots } = optimizer.state();
  return { params, optimizer, parts: [params, scalars, ...slots] };
}

describe('the state of a TensorFlow.js optimizer', () => {
  /**
   * Hashes after 100 steps, computed on x64. Every machine must compute the same hashes. They
   * change only if a formula changes.
   */
  const BITS = [
    'ea74a89ebc29b298',
    'a86c2bf55b681fe2',
    'b307614e86130f41',
    '700536037f05499c',
    '1f1fb70a9c7627f4',
    '97b3dd53519e9ea0',
    '4e271fb8a375b125',
    'c339d38fe68af1d6',
    'd47427d554513d80',
  ];

  test.each(RULES.map((rule, i) => [...rule, BITS[i]!] as const))(
    'has the same hash on every machine after 100 steps: %s %o',
    (name, config, bits) => {
      const { params, parts } = run(name, config, 100);
      expect(params.every(Number.isFinite)).toBe(true);
      expect(hashOfArrays(parts)).toBe(bits);
    },
  );

  test.each(RULES)('continues with the same bits after it is loaded: %s %o', (name, config) => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 12 }), (at) => {
        const whole = run(name, config, 12);
        const first = run(name, config, at);
        const resumed = create(name, config, SIZE, 1);
        resumed.load(structuredClone(first.optimizer.state()));
        for (let step = at; step < 12; step++) resumed.apply(first.params, gradientOf(step));
        expect(first.params).toEqual(whole.params);
        expect(resumed.state()).toEqual(whole.optimizer.state());
      }),
      { numRuns: 13 },
    );
  });

  test.each(RULES)('changes only in the given ranges: %s %o', (name, config) => {
    const ranges = [
      { start: 0, end: 2 },
      { start: 3, end: 4 },
      { start: 5, end: 5 },
    ];
    const [whole, ranged] = [create(name, config, 5), create(name, config, 5)];
    const untouched = structuredClone(ranged.state().slots);
    const [params, parts] = [Float32Array.of(1, 2, 3, 4, 5), Float32Array.of(1, 2, 3, 4, 5)];
    for (let step = 1; step <= 3; step++) {
      const gradient = Float32Array.of(0.1 * step, -1, 2, 0.3, -step);
      whole.apply(params, gradient);
      ranged.apply(parts, gradient, ranges);
    }
    const rows: [Float32Array, Float32Array, ArrayLike<number>][] = [
      [parts, params, [1, 2, 3, 4, 5]],
      ...ranged.state().slots.map((slot, i): (typeof rows)[number] => [slot, whole.state().slots[i]!, untouched[i]!]),
    ];
    for (const [part, all, before] of rows) {
      expect(Array.from(part)).toEqual([all[0], all[1], before[2], all[3], before[4]]);
    }
    expect(ranged.state().scalars).toEqual(whole.state().scalars);
  });

  test.each(RULES)('does not change if arrays of another length are rejected: %s %o', (name, config) => {
    const optimizer = create(name, config, 3);
    const before = structuredClone(optimizer.state());
    expect(() => optimizer.apply(new Float32Array(4), new Float32Array(3))).toThrow('created for 3 parameters');
    expect(() => optimizer.apply(new Float32Array(3), new Float32Array(2))).toThrow(UsageError);
    expect(optimizer.state()).toEqual(before);
  });
});

test.each(RULES)('a learning rate of 0, as at the start of a warm-up, changes no parameter: %s %o', (name, config) => {
  const optimizer = create(name, config, 2, 0);
  const params = Float32Array.of(1, -2);
  optimizer.apply(params, Float32Array.of(0.5, -3));
  expect(params).toEqual(Float32Array.of(1, -2));
});

test.each(RULES)('NaN and infinity affect only their own parameter: %s %o', (name, config) => {
  const params = Float32Array.of(1, 1, 1, Infinity);
  const optimizer = create(name, config, 4);
  optimizer.apply(params, Float32Array.of(NaN, Infinity, 0.5, 0.5));
  optimizer.apply(params, Float32Array.of(1, 1, 0.5, 0.5));
  expect(params[0]).toBeNaN();
  expect(params[2]).toBeLessThan(1);
  expect(params[3]).toBe(Infinity);
});

test('createTensorflowRule returns null for an unknown class', () => {
  expect(createTensorflowRule('Lion', { learningRate: 1 }, 1)).toBeNull();
});
