import { expect, test } from 'vitest';
import { rateFor, speedUpOf, type CodecRun, section } from '../../bench/auto.ts';
import { section as orderSection } from '../../bench/order.ts';

const runOf = (codec: string, reachedMs: number | null): CodecRun => ({
  codec,
  reachedMs,
  steps: 18,
  accuracy: 0.91,
  stepMs: 100,
  ownMs: 80,
  exposedMs: 20,
  chosenAt: 0,
  choice: null,
});

test('rateFor returns the rate at which the sending time of a rank is four times its computing time', () => {
  // 2(n-1)/n of 800 kB are 1.2 MB. In 4 x 300 ms, that is 1000 bytes per millisecond.
  expect(rateFor(800_000, 4, 300)).toBe(8000);
});

test('the speed-up compares the mean times of all rounds, and is null if a run did not reach the goal', () => {
  const fp32 = [runOf('fp32', 30_000), runOf('fp32', 34_000)];
  expect(speedUpOf({ fp32, auto: [runOf('auto', 10_000), runOf('auto', 6000)] })).toBe(4);
  expect(speedUpOf({ fp32, auto: [runOf('auto', 10_000), runOf('auto', null)] })).toBeNull();
});

test('the sections for docs/BENCHMARKS.md contain the results', () => {
  const [fp32, auto] = [[runOf('fp32', 30_000)], [runOf('auto', null)]];
  const text = section({ tabs: 4, ownMs: 300, rateKbit: 8000, fp32, auto, speedUp: null });
  expect(text).toContain('8000 kbit/s');
  expect(text).toContain('unknown, because a run did not reach the goal');
  const order = ['tab-1', 'tab-0', 'tab-2', 'tab-3'];
  const rate = { rest: 20, between: 4 };
  const orderText = orderSection({ rate, order, steps: 10, beforeMs: 600, afterMs: 200, ratio: 3 });
  expect(orderText).toContain('tab-0, tab-1, tab-2, tab-3, for 10 steps');
  expect(orderText).toContain('tab-1, tab-0, tab-2, tab-3');
});
