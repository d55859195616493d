import { describe, expect, test } from 'vitest';
import {
  nextMembership,
  INITIAL_MEMBERSHIP,
  reconnectStateOf,
  type MembershipEvent,
  type MembershipState,
} from '../../src/engine/membership/membership.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';

const ring = ['A1', 'B1'].map((member) => ({ member, name: member, device: null, browser: 0, rank: null }));
const prepare = (generation: number, run = 1, members = ring): MembershipEvent => {
  return { type: 'prepare', generation, run, members, job: DEFAULT_JOB, relayed: [], separated: [], served: [] };
};
const ended = (run: number): MembershipEvent => ({ type: 'ended', run, outcome: 'finished', message: 'Done.' });
const room = {
  job: DEFAULT_JOB,
  startAt: null,
  nodes: null,
  isLocked: false,
  isPausedByHost: false,
  spectators: [],
  hosts: [],
  members: ring,
  waitingFor: 0,
};

/** Returns the state after some events, and the effects of the last one. */
function after(...events: MembershipEvent[]): { state: MembershipState; effects: string[] } {
  let state = INITIAL_MEMBERSHIP;
  let effects: string[] = [];
  for (const event of [{ type: 'admitted', member: 'A1' } as const, ...events]) {
    const step = nextMembership(state, event);
    state = step.state;
    effects = step.effects.map((effect) => (effect.type === 'send' ? `send ${effect.message.type}` : effect.type));
  }
  return { state, effects };
}

const LOST = { run: 1, outcome: 'finished', notice: { code: 'lost-place' } };
const pause = (run: number, generation: number): MembershipEvent => ({ type: 'pause', run, generation, waitingFor: 1 });

const ROOM: Parameters<typeof reconnectStateOf>[1] = {
  ...room,
  type: 'room',
  phase: 'RUNNING',
  run: 1,
  generation: 7,
  hasTrained: true,
};

const reported = (state: MembershipState, run: number, phase: 'FORMING' | 'RUNNING') => {
  const { active, ...reconnectState } = reconnectStateOf(state, { ...ROOM, phase, run });
  return { ...reconnectState, isSteady: active?.isSteady };
};

const RUNNING: MembershipEvent[] = [
  prepare(1),
  { type: 'linked', generation: 1 } as const,
  { type: 'sync', generation: 1 } as const,
  { type: 'entered', generation: 1, step: 0, stateHash: 'x' } as const,
  { type: 'go', generation: 1 } as const,
];

test('a member links, enters and trains a generation, in this order', () => {
  expect(RUNNING.map((_, i) => after(...RUNNING.slice(0, i + 1)).effects)).toEqual([
    ['link'],
    ['send linked'],
    ['enter'],
    ['send synced'],
    ['train'],
  ]);
});

test('a generation continues while newcomers link, and ends when one of its ranks has left', () => {
  const cy = { ...ring[0]!, member: 'C1' };
  expect(after(...RUNNING, prepare(2, 1, [...ring, cy])).effects).toEqual(['link']);
  expect(after(...RUNNING, prepare(2, 1, [ring[0]!, cy])).effects).toEqual(['drop', 'link']);
});

test('a report that a member makes without a connection is sent after the member has reconnected', () => {
  const { effects } = after(...RUNNING, { type: 'lost' }, { type: 'broken', generation: 1, peers: ['B1'] });
  expect(effects).toEqual([]);
  const back: MembershipEvent = { type: 'admitted', member: 'A1' };
  expect(after(...RUNNING, { type: 'lost' }, { type: 'broken', generation: 1, peers: ['B1'] }, back).effects).toEqual([
    'send broken',
  ]);
});

test('only the first message about the end of the current run has an effect', () => {
  expect(after(...RUNNING, ended(1)).effects).toEqual(['drop', 'end']);
  expect(after(...RUNNING, ended(1), ended(1)).effects).toEqual([]);
  expect(after(...RUNNING, ended(1), prepare(2, 2), ended(2)).effects).toEqual(['drop', 'end']);
  expect(after(...RUNNING, ended(0)).effects).toEqual([]);
});

test('a pause ends the generation; the member then waits until the run resumes or ends', () => {
  expect(after(...RUNNING, pause(1, 1))).toMatchObject({ state: { pausedFor: 1, active: null }, effects: ['drop'] });
  expect(after(...RUNNING, ended(1), pause(1, 1)).state.pausedFor).toBeNull();
  const later = after(...RUNNING, ended(1), pause(2, 5), ended(2));
  expect(later).toMatchObject({ state: { pausedFor: null, isOver: true }, effects: ['end'] });
});

test('a member that is admitted under a new id forgets its run and generation', () => {
  const newcomer = after(...RUNNING, { type: 'admitted', member: 'A2' });
  expect(newcomer.effects).toEqual(['drop']);
  expect(newcomer.state).toEqual({ ...INITIAL_MEMBERSHIP, member: 'A2', isConnected: true, lostRun: 1 });
});

const inRoom = (run: number, phase: 'FORMING' | 'RUNNING'): MembershipEvent => ({ type: 'room', run, phase });

describe('a member that is admitted under a new id', () => {
  const lost: MembershipEvent[] = [...RUNNING, { type: 'admitted', member: 'A2' }];
  const stopped: MembershipEvent = { type: 'ended', run: 1, outcome: 'stopped', message: 'The host.' };

  test.each<[string, MembershipEvent[], { outcome: string; notice?: { code: string } }[]]>([
    ['waits while its run is on', [inRoom(1, 'RUNNING')], []],
    ['waits until a restarted server knows its run', [inRoom(0, 'FORMING')], []],
    ['is told once if its run is over', [inRoom(1, 'FORMING'), inRoom(1, 'FORMING')], [LOST]],
    ['is told if a later run is on', [inRoom(2, 'RUNNING')], [LOST]],
    ['is told if its run finishes', [inRoom(1, 'RUNNING'), ended(1), inRoom(1, 'FORMING')], [LOST]],
    ['is told why its run is stopped', [stopped, inRoom(1, 'FORMING')], [{ outcome: 'stopped' }]],
    ['is told if it is lost twice', [{ type: 'admitted', member: 'A3' }, inRoom(1, 'FORMING')], [LOST]],
    ['ignores the end of another run', [ended(2), inRoom(1, 'RUNNING')], []],
    ['takes part again', [prepare(2, 1), inRoom(1, 'RUNNING'), ended(1)], [{ outcome: 'finished' }]],
  ])('%s', (_, events, told) => {
    let { state } = after(...lost);
    const ends = events.flatMap((event) => {
      const step = nextMembership(state, event);
      state = step.state;
      return step.effects.filter(({ type }) => type === 'end');
    });
    expect(ends).toEqual(told.map((end) => expect.objectContaining(end) as unknown));
  });

  test('is told nothing if it already knows that its run has ended', () => {
    expect(after(...RUNNING, ended(1), { type: 'admitted', member: 'A2' }, inRoom(1, 'FORMING')).effects).toEqual([]);
  });
});

test('the reconnect state says whether the run continues', () => {
  const { settings: _, ...running } = reported(after(...RUNNING).state, 1, 'RUNNING');
  expect(running).toEqual({ run: 1, isRunOn: true, hasTrained: true, generation: 7, isSteady: true });
  // The message about the end of the run may have been lost, so the phase of the room does not
  // matter.
  expect(reported(after(...RUNNING).state, 1, 'FORMING')).toMatchObject({ isRunOn: true });
  expect(reported(after(...RUNNING, ended(1)).state, 1, 'RUNNING')).toMatchObject({
    isRunOn: false,
    isSteady: undefined,
  });
  expect(reported(after(...RUNNING, ended(1)).state, 2, 'RUNNING')).toMatchObject({ run: 2, isRunOn: true });
  expect(reported(after().state, 2, 'FORMING')).toMatchObject({ run: 2, isRunOn: false });
  expect(reported(after(...RUNNING.slice(0, 3)).state, 1, 'RUNNING')).toMatchObject({ isSteady: false });
});

test("the reconnect state contains the removed members with the server's signature", () => {
  const { state } = after(...RUNNING);
  const removed = { members: ['member-cy'], seal: 'signed-by-the-server' };
  expect(reconnectStateOf(state, { ...ROOM, removed }).settings.removed).toEqual(removed);
  expect(reconnectStateOf(state, ROOM).settings).not.toHaveProperty('removed');
});
