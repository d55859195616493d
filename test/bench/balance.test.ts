import { expect, test } from 'vitest';
import { largestDifference, rateOf, runOf, section, type BalanceResult } from '../../bench/balance.ts';
import type { Observation } from '../../tools/chaos/report.ts';
import type { EventOf } from '../../src/protocol/events.ts';

/** Steps of a tab. The first 12 of them are not timed. */
function stepsOf(computeMs: number, offsets: readonly number[]): EventOf<'step'>[] {
  return offsets.map((offset, step) => ({
    ...{ type: 'step', step, epoch: 0, offset, loss: 1, samples: 64, at: 1000 * step },
    ms: { total: 900, compute: computeMs, readback: 0, communicate: 0, exposed: 0, update: 0 },
  }));
}

/** The events of tabs that take these steps. An epoch has the samples of 16 steps. */
function seen(...tabs: EventOf<'step'>[][]): Observation[] {
  const model = { type: 'model', trainSamples: 16 * 64 } as EventOf<'model'>;
  const begun = tabs.map((_, tab) => ({ at: 0, tab: String(tab), event: model }));
  const steps = tabs.flatMap((own, tab) => own.map((event) => ({ at: event.at, tab: String(tab), event })));
  return [...begun, ...steps];
}

const contiguous = Array.from({ length: 16 }, (_, step) => 64 * step);
const END = { worldSize: 2, stateHash: ['a', 'a'], shares: [7, 1] };
const DECISIONS = [
  { step: 0, shares: [4, 4], reason: 'unknown' },
  { step: 8, shares: [7, 1], reason: 'speed' },
] as const;

test('a run has the rate of its timed steps, and speeds by the samples that each rank computed', () => {
  const run = runOf('speed', seen(stepsOf(500, contiguous), stepsOf(250, contiguous)), DECISIONS, END);
  expect(run).toMatchObject({ samples: 192, seconds: 3, stepMs: 900, computeMs: [500, 250], speeds: [112, 32] });
  expect(run).toMatchObject({
    shares: [7, 1],
    balancedFrom: 8,
    samplesSkipped: 0,
    samplesRepeated: 0,
    hashMismatches: 0,
  });
  expect(rateOf([run, { ...run, balance: 'equal', seconds: 12 }], 'equal')).toBe(16);
});

test('a run counts samples that windows leave out or repeat, and different hashes', () => {
  const offsets = contiguous.map((offset, step) => offset + (step >= 3 ? 5 : 0) - (step >= 6 ? 7 : 0));
  const steps = stepsOf(500, offsets);
  const run = runOf('equal', seen(steps, steps), [], { worldSize: 2, stateHash: ['a', 'b'] });
  expect(run).toMatchObject({
    samplesSkipped: 5,
    samplesRepeated: 7,
    hashMismatches: 1,
    shares: [4, 4],
    balancedFrom: null,
  });
});

test('the section for docs/BENCHMARKS.md contains the quotient, the bound and the difference of losses', () => {
  const run = runOf('equal', seen(stepsOf(500, contiguous), stepsOf(500, contiguous)), [], {
    worldSize: 2,
    stateHash: [],
  });
  const samplesPerSecond = { equal: 100, speed: 250 };
  const result: BalanceResult = {
    ...{ tabs: 4, batch: 32, steps: 16, runs: [run], samplesPerSecond, speedUp: 2.5 },
    lossDifference: largestDifference([2, 1], [2, 1.00001]),
  };
  const text = section(result);
  expect(text).toContain('2.50 times as many');
  expect(text).toContain('3.25 times as many');
  expect(text).toContain('1.0e-5');
});
