import { expect, test } from 'vitest';
import { finalHistory } from '../../tools/pipelineRecovery/finalHistory.ts';
import { reportOf as reportOfTrials } from '../../tools/pipelineRecovery/pipelineRecovery.ts';
import type { Trial } from '../../tools/pipelineRecovery/trial.ts';
import { reportOf, type Observation, type ReportedEvent } from '../../tools/chaos/report.ts';

const SAMPLES = 4;

/** A step of a tab, and the state after it. */
function step(tab: string, number: number, hash = 'a'): Observation[] {
  const events = [
    { type: 'step', step: number, epoch: 0, offset: SAMPLES * number, samples: SAMPLES },
    { type: 'hashes', step: number, hashes: [hash, hash], agree: true },
  ] as ReportedEvent[];
  return events.map((event) => ({ at: number, tab, event }));
}

/** An epoch is longer than all histories here. */
const MODEL: Observation = { at: 0, tab: 'a', event: { type: 'model', trainSamples: 100 } as ReportedEvent };

const steps = (tab: string, numbers: readonly number[], hash?: string): Observation[] =>
  numbers.flatMap((number) => step(tab, number, hash));

test('the final history contains all events if no step was lost', () => {
  const all = [...steps('a', [0, 1, 2]), ...steps('b', [0, 1, 2])];
  expect(finalHistory(all)).toEqual({ observations: all, stepsLost: 0 });
});

test('a repeated step and its state replace the earlier ones, which count as lost', () => {
  const before = [MODEL, ...steps('a', [0, 1, 2, 3]), ...steps('b', [0, 1, 2])];
  // Fewer stages round differently, so the states differ from those that were undone.
  const after = [...steps('a', [1, 2, 3], 'other'), ...steps('b', [1, 2, 3], 'other')];
  const { observations, stepsLost } = finalHistory([...before, ...after]);
  expect(stepsLost).toBe(3);
  expect(observations).toEqual([MODEL, ...step('a', 0), ...step('b', 0), ...after]);
  expect(reportOf(observations, [])).toMatchObject({
    ...{ steps: 4, samplesSkipped: 0, samplesRepeated: 0, hashMismatches: 0 },
  });
});

test('a gap, an overlap and different states in the final history are reported', () => {
  const moved = step('a', 2).map(({ event, ...rest }) => ({
    ...rest,
    event: event.type === 'step' ? { ...event, offset: event.offset + 3 } : event,
  }));
  const all = [MODEL, ...steps('a', [0, 1]), ...moved, ...step('a', 3), ...step('b', 3, 'other')];
  const { observations } = finalHistory(all);
  expect(reportOf(observations, [])).toMatchObject({ samplesSkipped: 3, samplesRepeated: 3, hashMismatches: 1 });
});

const TRIAL: Trial = {
  ...{ seed: 1, kill: 'crash', victim: 2, killedAt: 3, delayMs: 10, recoveryMs: 900, ranks: 3, stages: 3, steps: 12 },
  ...{ stepsLost: 1, samplesSkipped: 0, samplesRepeated: 0, hashMismatches: 0 },
};

test('the report adds up samples and steps, and counts runs with different states or an early end', () => {
  const trials: Trial[] = [
    TRIAL,
    { ...TRIAL, stepsLost: 2, recoveryMs: 1100, samplesSkipped: 4, hashMismatches: 3 },
    { ...TRIAL, stepsLost: 0, recoveryMs: null, steps: 3, samplesRepeated: 8 },
  ];
  expect(reportOfTrials(trials, { tabs: 4, stages: 4, steps: 12 })).toMatchObject({
    ...{ seeds: 3, samplesSkipped: 4, samplesRepeated: 8, hashMismatches: 1, unfinished: 1 },
    ...{ stepsLost: { max: 2, total: 3 }, recoveryMs: { median: 900, max: 1100 } },
  });
  const failed = [{ ...TRIAL, recoveryMs: null }];
  expect(reportOfTrials(failed, { tabs: 4, stages: 4, steps: 12 })).toMatchObject({
    unfinished: 1,
    recoveryMs: null,
  });
});
