import { describe, expect, test } from 'vitest';
import {
  stateAgreementOf,
  edgeMegabytesPerSecond,
  hasOnlyTimeLimit,
  ranksThatLeft,
  isRunEndedEarly,
  wouldLoseByLeaving,
  ringNeighboursOf,
  samplesPerSecond,
  communicationShares,
  theoreticalAllReduceBytes,
  timeLeftMs,
} from '../../../src/app/state/derive.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { RESULT, stepEvent } from '../events.ts';
import { fold, GENERATION, MEMBERS, room } from './roomOfFour.ts';

function statistics(step: number, gradientBytesSent: number): EngineEvent {
  const ranks = [
    {
      rank: 0,
      dataMs: 0,
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

describe('the statistics of a run', () => {
  const run = fold(GENERATION, ...[0, 1, 2, 3, 4].map(stepEvent)).run!;

  test('have samples per second, computed from the time between steps', () => {
    expect(samplesPerSecond(run)).toBe(2000);
    expect(samplesPerSecond(fold(GENERATION, stepEvent(0)).run!)).toBe(2500);
    expect(samplesPerSecond(fold(GENERATION).run!)).toBeNull();
  });

  test('have the time left, computed from the number of steps left', () => {
    expect(timeLeftMs(run, 25)).toBe(1000);
    expect(timeLeftMs(run, 5)).toBe(0);
    expect(timeLeftMs(run, null)).toBeNull();
  });

  test('hasOnlyTimeLimit is true only for a job that has neither epochs nor a maximum of steps', () => {
    expect(hasOnlyTimeLimit(parseJob({ job: 'gpt', maxMinutes: 15, maxSteps: null }))).toBe(true);
    expect(hasOnlyTimeLimit(parseJob({ job: 'gpt', maxMinutes: 15, maxSteps: null, epochs: 2 }))).toBe(false);
    expect(hasOnlyTimeLimit(parseJob({ maxMinutes: 15 }))).toBe(false);
    expect(hasOnlyTimeLimit(parseJob({ job: 'gpt' }))).toBe(false);
  });

  test('have the share of communication in the step time, and the part of communication that computation hides', () => {
    expect(communicationShares(run)).toEqual({ share: 0.25, overlapped: 0.6 });
    expect(communicationShares(fold(GENERATION).run!)).toBeNull();
  });

  test('have the rate of an edge: its bytes divided by the time of communication', () => {
    const later = fold(GENERATION, statistics(19, 1_000_000), statistics(39, 3_000_000));
    expect(edgeMegabytesPerSecond(later.run!)).toEqual([10, null, null, null]);
  });

  test('have the bytes that theory predicts: 2(n-1)/n times the gradient bytes, for each step', () => {
    expect(theoreticalAllReduceBytes(4, 1000, 10)).toBe(15_000);
    expect(theoreticalAllReduceBytes(1, 1000, 10)).toBe(0);
  });
});

describe('the agreement of state hashes', () => {
  test('is unknown before the first comparison; afterwards it names the ranks that differ', () => {
    expect(stateAgreementOf(null)).toEqual({ kind: 'unknown' });
    expect(stateAgreementOf({ step: 1, hashes: ['a', 'a'], agree: true })).toEqual({ kind: 'agree' });
    expect(stateAgreementOf({ step: 1, hashes: ['a', 'b'], agree: false })).toEqual({ kind: 'differ', ranks: [1] });
  });
});

test('the neighbours of a rank are the ranks on both sides in the ring', () => {
  expect(ringNeighboursOf(0, 4)).toEqual([1, 3]);
  expect(ringNeighboursOf(1, 2)).toEqual([0]);
  expect(ringNeighboursOf(0, 1)).toEqual([]);
});

test('a rank counts as gone if its member is not in the room and the run is not over', () => {
  const view = fold(GENERATION, room({ members: MEMBERS.slice(1) }));
  expect(ranksThatLeft(view.run!, view.lobby)).toEqual([0]);
  expect(ranksThatLeft({ ...view.run!, result: RESULT }, view.lobby)).toEqual([]);
});

const failed = (name: string): EngineEvent => ({ type: 'failed', name, message: 'Why.', fatal: false });

test('a run that the host stopped has ended early; a run that failed for another reason has not', () => {
  expect(isRunEndedEarly(fold(GENERATION, failed('RunOverError')))).toBe(true);
  expect(isRunEndedEarly(fold(GENERATION, failed('DeviceError')))).toBe(false);
  expect(isRunEndedEarly(fold(room({}), failed('RunOverError')))).toBe(false);
});

test('in a room, wouldLoseByLeaving is true during a run or if there are other members; it is false for a spectator', () => {
  const wu = { member: 'wu', name: 'Wu' };
  const watches: EngineEvent = { type: 'admitted', member: 'wu', room: 'AAAAAA', hostKey: null };
  expect(wouldLoseByLeaving(fold(GENERATION))).toBe(false);
  expect(wouldLoseByLeaving(fold(room({}), GENERATION))).toBe(true);
  expect(wouldLoseByLeaving(fold(room({})))).toBe(true);
  expect(wouldLoseByLeaving(fold(room({ members: MEMBERS.slice(0, 1) })))).toBe(false);
  expect(wouldLoseByLeaving(fold(watches, room({ spectators: [wu] }), GENERATION))).toBe(false);
});
