import { expect, test } from 'vitest';
import { rateFor, soonerOf, type Learned } from '../../bench/auto.ts';
import { section } from '../../bench/auto.ts';
import { section as orderSection } from '../../bench/order.ts';

const learned = (codec: string, reachedMs: number | null): Learned => ({
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

test('lines are so slow that a rank’s bytes take four times its own work', () => {
  // 2 (n-1)/n of 800 kB, in 4 x 300 ms: 1000 bytes a millisecond.
  expect(rateFor(800_000, 4, 300)).toBe(8000);
});

test('how much sooner is of all rounds together, and unknown where one did not get there', () => {
  const fp32 = [learned('fp32', 30_000), learned('fp32', 34_000)];
  expect(soonerOf({ fp32, auto: [learned('auto', 10_000), learned('auto', 6000)] })).toBe(4);
  expect(soonerOf({ fp32, auto: [learned('auto', 10_000), learned('auto', null)] })).toBeNull();
});

test('the parts of docs/BENCHMARKS.md say what was found', () => {
  const [fp32, auto] = [[learned('fp32', 30_000)], [learned('auto', null)]];
  const text = section({ tabs: 4, ownMs: 300, rateKbit: 8000, fp32, auto, sooner: null });
  expect(text).toContain('8000 kbit/s');
  expect(text).toContain('not both got there');
  const order = ['tab-1', 'tab-0', 'tab-2', 'tab-3'];
  const rate = { rest: 20, between: 4 };
  const said = orderSection({ rate, order, steps: 10, beforeMs: 600, afterMs: 200, ratio: 3 });
  expect(said).toContain('tab-0, tab-1, tab-2, tab-3, for 10 steps');
  expect(said).toContain('tab-1, tab-0, tab-2, tab-3');
});
