import { describe, expect, test } from 'vitest';
import {
  agreement,
  edgeRates,
  endsByTimeOnly,
  goneRanks,
  neighbours,
  samplesPerSecond,
  communication,
  theoreticalBytes,
  timeLeft,
} from '../../../src/app/state/derive.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { RESULT, stepEvent } from '../events.ts';
import { fold, GENERATION, MEMBERS, room } from './roomOfFour.ts';

function statistics(step: number, gradientBytesSent: number): EngineEvent {
  const ranks = [
    {
      rank: 0,
      computeMs: 1,
      communicateMs: 10,
      stepMs: 20,
      gradientBytesSent,
      gradientBytesReceived: 0,
      otherBytesSent: 0,
      memoryBytes: 0,
    },
  ];
  return { type: 'ranks', step, ranks };
}

describe('rates', () => {
  const run = fold(GENERATION, ...[0, 1, 2, 3, 4].map(stepEvent)).run!;

  test('of samples per second are computed from the time between steps', () => {
    expect(samplesPerSecond(run)).toBe(2000);
    expect(samplesPerSecond(fold(GENERATION, stepEvent(0)).run!)).toBe(2500);
    expect(samplesPerSecond(fold(GENERATION).run!)).toBeNull();
  });

  test('determine the time left from the number of steps left', () => {
    expect(timeLeft(run, 25)).toBe(1000);
    expect(timeLeft(run, 5)).toBe(0);
    expect(timeLeft(run, null)).toBeNull();
  });

  test('are not needed if a run ends only by its time, without epochs or maximum steps', () => {
    expect(endsByTimeOnly(parseJob({ job: 'gpt', maxMinutes: 15, maxSteps: null }))).toBe(true);
    expect(endsByTimeOnly(parseJob({ job: 'gpt', maxMinutes: 15, maxSteps: null, epochs: 2 }))).toBe(false);
    expect(endsByTimeOnly(parseJob({ maxMinutes: 15 }))).toBe(false);
    expect(endsByTimeOnly(parseJob({ job: 'gpt' }))).toBe(false);
  });

  test('of communication are a share of the step, and overlapped communication is a share of communication', () => {
    expect(communication(run)).toEqual({ share: 0.25, overlapped: 0.6 });
    expect(communication(fold(GENERATION).run!)).toBeNull();
  });

  test('of an edge are its bytes divided by the time of communication', () => {
    const later = fold(GENERATION, statistics(19, 1_000_000), statistics(39, 3_000_000));
    expect(edgeRates(later.run!)).toEqual([10, null, null, null]);
  });

  test('have a theoretical value: 2(n-1)/n times the gradient bytes per step', () => {
    expect(theoreticalBytes(4, 1000, 10)).toBe(15_000);
    expect(theoreticalBytes(1, 1000, 10)).toBe(0);
  });
});

describe('agreement', () => {
  test('is unknown before the first comparison', () => {
    expect(agreement(null)).toEqual({ kind: 'unknown' });
    expect(agreement({ step: 1, hashes: ['a', 'a'], agree: true })).toEqual({ kind: 'agree' });
    expect(agreement({ step: 1, hashes: ['a', 'b'], agree: false })).toEqual({ kind: 'differ', ranks: [1] });
  });
});

test('the neighbours of a rank are the ranks on both sides', () => {
  expect(neighbours(0, 4)).toEqual([1, 3]);
  expect(neighbours(1, 2)).toEqual([0]);
  expect(neighbours(0, 1)).toEqual([]);
});

test('ranks whose member is not in the room count as left until the run is over', () => {
  const view = fold(GENERATION, room({ members: MEMBERS.slice(1) }));
  expect(goneRanks(view.run!, view.lobby)).toEqual([0]);
  expect(goneRanks({ ...view.run!, result: RESULT }, view.lobby)).toEqual([]);
});
