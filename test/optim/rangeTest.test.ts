import { describe, expect, test } from 'vitest';
import { findLearningRate, hasLossExploded } from '../../src/optim/rangeTest.ts';
import { rangeTestRate } from '../../src/optim/schedule.ts';
import { createRng } from '../../src/util/rng.ts';

const STEPS = 100;

/**
 * The losses of a test: they fall from `high` to `low` in an S-curve with its middle at the rate
 * `at`, and explode from ten times that rate on.
 */
function curve({ high = 2.3, low = 0.3, at = 0.01, noise = 0, steps = STEPS }): number[] {
  const rng = createRng(5);
  return Array.from({ length: steps }, (_, step) => {
    const decades = Math.log10(rangeTestRate(step / steps) / at);
    const fallen = 1 / (1 + Math.exp(-6 * decades));
    const over = Math.max(0, decades - 1);
    return high + (low - high) * fallen + over ** 2 * 100 * high + noise * (rng.next() + rng.next() - 1);
  });
}

const untilExplosion = (losses: readonly number[], steps = STEPS): number[] => {
  const end = losses.findIndex((_, i) => hasLossExploded(losses.slice(0, i + 1), steps));
  return losses.slice(0, end < 0 ? undefined : end + 1);
};

describe('a range test', () => {
  test.each([0.001, 0.01, 0.1])('suggests the rate at which the loss falls steepest: %d', (at) => {
    for (const noise of [0, 0.2]) {
      const tested = untilExplosion(curve({ at, noise }));
      expect(tested.length).toBeLessThan(STEPS);
      const { rates, losses, suggested, reason } = findLearningRate(tested, STEPS);
      expect(Math.abs(Math.log10(suggested! / at))).toBeLessThan(0.35);
      expect(reason).toBeNull();
      expect([rates.length, losses.length]).toEqual([tested.length, tested.length]);
    }
  });

  test.each([20, 50, 400])('has nearly the same result with %d steps', (steps) => {
    const { suggested } = findLearningRate(untilExplosion(curve({ noise: 0.1, steps }), steps), steps);
    expect(Math.abs(Math.log10(suggested! / 0.01))).toBeLessThan(0.45);
  });

  test('rounds the suggestion to two significant digits', () => {
    const { suggested } = findLearningRate(untilExplosion(curve({ at: 0.0123 })), STEPS);
    expect(suggested).toBe(Number(suggested!.toPrecision(2)));
  });

  test('ends only when the smoothed loss exceeds four times its lowest value', () => {
    const falling = Array.from({ length: 60 }, (_, i) => 2 - i / 50);
    expect(hasLossExploded([...falling, 2.5], STEPS)).toBe(false);
    expect(hasLossExploded([...falling, 40], STEPS)).toBe(true);
    expect(hasLossExploded([], STEPS)).toBe(false);
  });

  test('ends when a loss is NaN or infinite', () => {
    for (const none of [NaN, Infinity]) expect(hasLossExploded([2, 2, none], STEPS)).toBe(true);
  });

  test('does not end because losses are negative, or because one early loss is low', () => {
    expect(
      hasLossExploded(
        Array.from({ length: 60 }, (_, i) => -i / 10),
        STEPS,
      ),
    ).toBe(false);
    expect(hasLossExploded([0.1, ...Array.from({ length: 60 }, () => 2)], STEPS)).toBe(false);
  });

  test('suggests nothing if losses never clearly fall, even if they are noisy, and gives this reason', () => {
    const rng = createRng(3);
    const noisy = Array.from({ length: STEPS }, () => 2.3 + rng.next());
    const rising = untilExplosion(curve({ low: 2.3 }));
    for (const losses of [noisy, rising, noisy.map(() => 2.3)]) {
      expect(findLearningRate(losses, STEPS)).toMatchObject({ suggested: null, reason: 'flat' });
    }
  });

  test('suggests nothing if the test ended too early, and gives this reason', () => {
    for (const losses of [[2.3], [2.3, 2.2, 2.1, 40], Array.from({ length: 20 }, (_, i) => 3 - i / 10)]) {
      expect(findLearningRate(losses, STEPS)).toMatchObject({ suggested: null, reason: 'short' });
    }
  });
});
