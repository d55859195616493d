import { expect, test } from 'vitest';
import { compareCpu, compareStretches } from '../../bench/telemetry/stretches.ts';

test('stretches that tell are compared with their quiet neighbours; the first, and what was tested, are left out', () => {
  // Four steps a stretch: 10 ms where quiet, 11 where told, 1 ms between steps; comparing takes 5,
  // with an exchange 9.
  const taken = [];
  let at = 0;
  for (let step = 0; step < 32; step++) {
    const isTold = Math.floor(step / 4) % 2 === 0;
    const ms = isTold ? 11 : 10;
    at += ms;
    taken.push({ step, at, ms });
    at += 1 + (step % 4 === 3 ? (isTold ? 9 : 5) : 0) + (step === 7 || step === 17 ? 500 : 0);
  }
  const result = compareStretches(taken, new Set([7, 17]), 4);
  expect(result.toldMs).toBeCloseTo(12);
  expect(result.quietMs).toBeCloseTo(11);
  expect(result.exchangeMs).toBeCloseTo(4);
  expect(result.overhead).toBeCloseTo(2 / 11);
  // All pairs say the same.
  for (const end of result.interval) expect(end).toBeCloseTo(2 / 11);
  expect(result.pairs).toBe(6);
  expect(result.quickOverhead).toBeCloseTo(2 / 11);
});

test('what processors did is compared by whole stretches, but for the first and those with a test', () => {
  // Four steps a stretch: 20 ms each where quiet, 22 where told, half of each shaders', which a
  // test adds 300 to.
  const times = [{ total: 500, besideShaders: 200 }];
  for (let stretch = 0; stretch < 8; stretch++) {
    const { total, besideShaders } = times.at(-1)!;
    const more = stretch % 2 === 0 ? 8 : 0;
    times.push({ total: total + 80 + more + (stretch === 4 ? 300 : 0), besideShaders: besideShaders + 40 + more });
  }
  const { toldMs, quietMs, overhead, interval, pairs } = compareCpu(times, new Set([17]), 4);
  expect([toldMs, quietMs]).toEqual([22, 20]);
  expect(overhead).toBeCloseTo(0.1);
  for (const end of interval) expect(end).toBeCloseTo(0.1);
  // 1-2, 2-3, 5-6, 6-7.
  expect(pairs).toBe(4);
});
