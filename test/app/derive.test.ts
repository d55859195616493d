import { describe, expect, test } from 'vitest';
import {
  agreement,
  edgeRates,
  missingToStart,
  neighbours,
  samplesPerSecond,
  spokenState,
  startNote,
  startObstacle,
  talking,
  theoreticalBytes,
  timeLeft,
} from '../../src/app/derive.ts';
import { initialView, reduce, type Lobby, type View } from '../../src/app/view.ts';
import type { EngineEvent, RankState } from '../../src/protocol/events.ts';
import { DEFAULT_JOB, parseJob } from '../../src/protocol/job.ts';
import { member, stepEvent } from './events.ts';

const MEMBERS = [member('Ada'), member('Grace'), member('Edsger'), member('Barbara')];
const EPOCH: EngineEvent = {
  ...{ type: 'epoch', epoch: 1, rank: 0, worldSize: 4, localRank: 0, localWorldSize: 4 },
  ...{ members: MEMBERS, job: DEFAULT_JOB },
};

function fold(...events: EngineEvent[]): View {
  return events.reduce(reduce, initialView);
}

function lobby(change: Partial<Lobby>): Lobby {
  return {
    ...{ phase: 'FORMING', hosts: [MEMBERS[0]!.member], members: MEMBERS, job: DEFAULT_JOB, startAt: null },
    ...{ isLocked: false, waitingFor: 0, ...change },
  };
}

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
    },
  ];
  return { type: 'ranks', step, ranks };
}

function state(name: RankState): EngineEvent {
  return { type: 'state', state: name, epoch: 1, detail: '' };
}

function link(peerRank: number, up: boolean): EngineEvent {
  return { type: 'link', peerRank, up, route: 'direct', roundTripMs: null };
}

/** What the page says after these events. */
function said(...events: EngineEvent[]): string {
  return spokenState(fold(...events)).text;
}

describe('rates', () => {
  const run = fold(EPOCH, ...[0, 1, 2, 3, 4].map(stepEvent)).run!;

  test('samples a second come from the time between steps', () => {
    expect(samplesPerSecond(run)).toBe(2000);
    expect(samplesPerSecond(fold(EPOCH, stepEvent(0)).run!)).toBe(2500);
    expect(samplesPerSecond(fold(EPOCH).run!)).toBeNull();
  });

  test('time left is the steps left at this pace', () => {
    expect(timeLeft(run, 25)).toBe(1000);
    expect(timeLeft(run, 5)).toBe(0);
    expect(timeLeft(run, null)).toBeNull();
  });

  test('talking is a share of the step, hidden a share of the talking', () => {
    expect(talking(run)).toEqual({ share: 0.25, hidden: 0.6 });
    expect(talking(fold(EPOCH).run!)).toBeNull();
  });

  test('an edge’s rate is what went over it in the time spent talking', () => {
    const later = fold(EPOCH, statistics(19, 1_000_000), statistics(39, 3_000_000));
    expect(edgeRates(later.run!)).toEqual([10, null, null, null]);
  });

  test('theory: 2(n-1)/n of the gradient for each step', () => {
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

test('neighbours are the ranks on both sides', () => {
  expect(neighbours(0, 4)).toEqual([1, 3]);
  expect(neighbours(1, 2)).toEqual([0]);
  expect(neighbours(0, 1)).toEqual([]);
});

describe('starting', () => {
  test('needs the host; others may be left out, by name', () => {
    const unready = [member('Ada'), member('Grace', false)];
    expect(startObstacle(lobby({}))).toBeNull();
    expect(startObstacle(lobby({ members: unready }))).toBeNull();
    expect(startNote(lobby({ members: unready }))).toBe('Grace is not ready, and would sit this run out.');
    expect(startObstacle(lobby({ members: [member('Ada', false), member('Grace')] }))).toContain('still getting ready');
    expect(startObstacle(lobby({ phase: 'LINKING' }))).toBe('Starting …');
    expect(startNote(lobby({ members: [member('Ada')] }))).toContain('alone');
  });

  test('workers in one tab start from one tab only', () => {
    const job = parseJob({ strategy: 'data-parallel', replicas: 3 });
    const [ada, grace] = [member('Ada'), member('Grace')];
    expect(startObstacle(lobby({ job, members: [ada, grace] }))).toMatch(/2 tabs are ready: choose another strategy/);
    expect(startObstacle(lobby({ job, members: [ada, member('Grace', false)] }))).toBeNull();
    expect(startNote(lobby({ job, members: [ada] }))).toBe('This tab starts 3 workers.');
  });

  test('by itself counts those who are ready', () => {
    expect(missingToStart(lobby({}))).toBeNull();
    expect(missingToStart(lobby({ startAt: 6 }))).toBe(2);
    expect(missingToStart(lobby({ startAt: 2 }))).toBe(0);
  });
});

describe('spoken states', () => {
  test('name the ranks that are not connected yet', () => {
    expect(said(EPOCH, state('LINKING'))).toBe('connecting to ranks 1 and 3');
    expect(said(EPOCH, state('LINKING'), link(1, true))).toBe('connecting to rank 3');
    expect(said(EPOCH, state('LINKING'), link(1, true), link(3, true))).toContain('waiting for the others');
  });

  test('know the neighbours before the epoch is announced: who is ready, in the room’s order', () => {
    const members = [member('Ada'), member('Late', false), member('Grace'), member('Edsger'), member('Barbara')];
    const admitted: EngineEvent = { type: 'admitted', member: 'member-grace', room: 'K7F3QX', hostKey: null };
    const room: EngineEvent = { type: 'room', ...lobby({ phase: 'LINKING' }), members };
    expect(said(admitted, room, state('LINKING'))).toBe('connecting to ranks 0 and 2');
    const asked = members.map((one, i) => (i === 2 ? { ...one, rank: 2 } : one));
    expect(said(admitted, { ...room, members: asked }, state('LINKING'))).toBe('connecting to ranks 1 and 3');
    // Also when another run was before.
    expect(said(admitted, { ...EPOCH, epoch: 0 }, room, state('LINKING'))).toBe('connecting to ranks 0 and 2');
  });

  test('say what is compiled, and when training is on', () => {
    const warm: EngineEvent = { type: 'warmup', message: 'compiling shaders' };
    expect(said(EPOCH, state('SYNCING'), warm)).toBe('warming up: compiling shaders');
    expect(said(EPOCH, warm, state('RUNNING'))).toBe('training');
    const away: EngineEvent = { type: 'state', state: 'RUNNING', epoch: 1, detail: 'training; the server is away' };
    expect(said(EPOCH, away)).toBe('training; the server is away');
  });

  test('say for whom a lobby waits', () => {
    const admitted: EngineEvent = { type: 'admitted', member: MEMBERS[1]!.member, room: 'K7F3QX', hostKey: null };
    const room: EngineEvent = { type: 'room', ...lobby({}), members: MEMBERS };
    const on: EngineEvent = { ...room, phase: 'RUNNING' };
    expect(said(admitted, state('WAITING'), on)).toContain('for the next start');
    expect(said(admitted, state('WAITING'), room)).toBe('waiting for the host to start');
    expect(said(admitted, state('WAITING'), { ...room, startAt: 5 })).toBe('waiting for 1 more tab');
    expect(said({ ...admitted, member: MEMBERS[0]!.member }, state('WAITING'), room)).toBe('waiting for you to start');
  });
});
