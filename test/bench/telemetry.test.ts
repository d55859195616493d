import { expect, test } from 'vitest';
import { compareCpu, compareStretches } from '../../bench/telemetry/stretches.ts';

test('stretches with telemetry are compared with neighbours without; the first one and evaluations are left out', () => {
  // Four steps a stretch: 10 ms without telemetry, 11 with it, 1 ms between steps. Comparing ranks
  // takes 5 ms, 9 with an exchange.
  const taken = [];
  let at = 0;
  for (let step = 0; step < 32; step++) {
    const isFull = Math.floor(step / 4) % 2 === 0;
    const ms = isFull ? 11 : 10;
    at += ms;
    taken.push({ step, at, ms });
    at += 1 + (step % 4 === 3 ? (isFull ? 9 : 5) : 0) + (step === 7 || step === 17 ? 500 : 0);
  }
  const result = compareStretches(taken, new Set([7, 17]), 4);
  expect(result.fullMs).toBeCloseTo(12);
  expect(result.reducedMs).toBeCloseTo(11);
  expect(result.exchangeMs).toBeCloseTo(4);
  expect(result.overhead).toBeCloseTo(2 / 11);
  // All pairs are equal.
  for (const end of result.interval) expect(end).toBeCloseTo(2 / 11);
  expect(result.pairs).toBe(6);
  expect(result.fastOverhead).toBeCloseTo(2 / 11);
});

test('CPU time is compared by whole stretches, without the first one and those with an evaluation', () => {
  // Four steps a stretch: 20 ms each without telemetry, 22 with it. Half of it is shaders, to which
  // an evaluation adds 300 ms.
  const times = [{ total: 500, besideShaders: 200 }];
  for (let stretch = 0; stretch < 8; stretch++) {
    const { total, besideShaders } = times.at(-1)!;
    const more = stretch % 2 === 0 ? 8 : 0;
    times.push({ total: total + 80 + more + (stretch === 4 ? 300 : 0), besideShaders: besideShaders + 40 + more });
  }
  const { fullMs, reducedMs, overhead, interval, pairs } = compareCpu(times, new Set([17]), 4);
  expect([fullMs, reducedMs]).toEqual([22, 20]);
  expect(overhead).toBeCloseTo(0.1);
  for (const end of interval) expect(end).toBeCloseTo(0.1);
  // 1-2, 2-3, 5-6, 6-7.
  expect(pairs).toBe(4);
});
