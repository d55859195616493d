import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { encodedGradients } from '../../../src/parallel/costs/exchangeCosts.ts';
import { chooseMethods, methodCosts, type MeasuredMethodCosts } from '../../../src/parallel/costs/methodCosts.ts';
import { LEARNING_METHOD_NAMES } from '../../../src/spec/methods.ts';

/** Four ranks and a model of 800 kB, whose steps take 20 ms. */
const ROOM = {
  worldSize: 4,
  learner: 'classifier' as const,
  gradients: encodedGradients([tf.variable(tf.zeros([400, 500]))], 2),
  ownMs: 20,
  busyMs: 0,
};
const LAN: MeasuredMethodCosts = { ...ROOM, ownMs: 200, latencyMs: 2, bytesPerMs: 100_000 };
/** 15 Mbit/s and 30 ms of round trip, so that the six hops of an all-reduce take 90 ms. */
const HOME: MeasuredMethodCosts = { ...ROOM, latencyMs: 90, bytesPerMs: 1900 };

const costOf = (measured: MeasuredMethodCosts, name: string) =>
  methodCosts(measured).find(({ method }) => method === name)!;

test('an all-reduce costs its latency and the time of 2(n-1)/n of its bytes', () => {
  const { stepMs, bytesPerStep } = costOf(HOME, 'ddp');
  expect(bytesPerStep).toBe(1_200_000);
  expect(stepMs).toBeCloseTo(20 + 90 + 1_200_000 / 1900, 6);
});

test('a method that exchanges every 20 steps sends per step a twentieth of the bytes of DDP', () => {
  const [dense, rare] = [costOf(HOME, 'ddp-int8'), costOf(HOME, 'diloco')];
  expect(rare.bytesPerStep).toBeCloseTo(dense.bytesPerStep / 20, 6);
  expect(rare.stepMs).toBeLessThan(dense.stepMs / 5);
});

test('streaming costs nothing if a fragment arrives within the delay', () => {
  expect(costOf(LAN, 'streaming-diloco').stepMs).toBe(LAN.ownMs);
  expect(costOf(HOME, 'streaming-diloco').stepMs).toBeGreaterThan(HOME.ownMs);
});

test('a fragment waits half a step at each hop if steps block the thread', () => {
  const [free, busy] = [0, HOME.ownMs].map((busyMs) => costOf({ ...HOME, busyMs }, 'streaming-diloco').stepMs);
  // Two all-reduces with six hops each, every five steps.
  expect(busy! - free!).toBeCloseTo((2 * 6 * 10) / 5, 6);
});

test('ddp is best on a LAN, and a method that sends less is best over a home line', () => {
  expect(chooseMethods(methodCosts(LAN))).toEqual({ best: 'ddp', unchanged: 'ddp' });
  const { best, unchanged } = chooseMethods(methodCosts(HOME));
  expect(best).toBe('sparseloco');
  expect(unchanged).toMatch(/^ddp-/);
});

test('times are given as multiples of the shortest time, which is 1', () => {
  for (const measured of [LAN, HOME]) {
    const times = methodCosts(measured).map(({ timeToGoal }) => timeToGoal);
    expect(Math.min(...times)).toBe(1);
    expect(times).toHaveLength(LEARNING_METHOD_NAMES.length);
  }
});

test('a rank that is alone has no communication costs', () => {
  const costs = methodCosts({ ...ROOM, worldSize: 1, latencyMs: 0, bytesPerMs: Infinity });
  for (const { stepMs, bytesPerStep } of costs) expect([stepMs, bytesPerStep]).toEqual([ROOM.ownMs, 0]);
  expect(chooseMethods(costs).best).toBe('ddp');
});

test.each([
  ['language model', 'sparseloco'],
  ['classifier', 'diloco'],
] as const)('of the methods with rare exchanges, a %s needs the fewest steps with %s', (learner, expected) => {
  // A rank that is alone communicates nothing, so only numbers of steps count.
  const costs = methodCosts({ ...ROOM, learner, worldSize: 1, latencyMs: 0, bytesPerMs: Infinity });
  const rare = costs.filter(({ method }) => method === 'diloco' || method === 'sparseloco');
  rare.sort((a, b) => a.timeToGoal - b.timeToGoal);
  expect(rare[0]!.method).toBe(expected);
});
