import { expect, test } from 'vitest';
import { createOptimizer } from '../../../src/optim/index.ts';
import { ScheduledOptimizer } from '../../../src/parallel/flat/scheduledOptimizer.ts';

const sgd = (clipNorm: number | null) =>
  new ScheduledOptimizer(createOptimizer('sgd', { learningRate: 1 }, 2), clipNorm);

test('a new learning rate takes effect with the next step, and is part of the optimizer state only from then on', () => {
  const rule = sgd(null);
  rule.learningRate = 0.5;
  expect([rule.learningRate, rule.state().scalars[0]]).toEqual([1, 1]);
  const params = Float32Array.of(1, 1);
  rule.apply(params, Float32Array.of(1, 0));
  expect([...params]).toEqual([0.5, 1]);
  expect([rule.learningRate, rule.state().scalars[0]]).toEqual([0.5, 0.5]);
});

test('a large gradient is clipped in a copy, and is itself unchanged', () => {
  const gradient = Float32Array.of(3, 4);
  const params = new Float32Array(2);
  sgd(1).apply(params, gradient);
  expect(params[0]).toBeCloseTo(-0.6, 5);
  expect(params[1]).toBeCloseTo(-0.8, 5);
  expect([...gradient]).toEqual([3, 4]);
  const short = new Float32Array(2);
  sgd(10).apply(short, gradient);
  expect([...short]).toEqual([-3, -4]);
});

test('an optimizer state is loaded together with its learning rate', () => {
  const [from, to] = [sgd(null), sgd(null)];
  from.learningRate = 0.25;
  from.apply(new Float32Array(2), new Float32Array(2));
  to.load(from.state());
  const params = Float32Array.of(0, 0);
  to.apply(params, Float32Array.of(1, 1));
  expect([...params]).toEqual([-0.25, -0.25]);
});
