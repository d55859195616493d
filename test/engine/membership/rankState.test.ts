import { expect, test } from 'vitest';
import {
  nextMembership,
  INITIAL_MEMBERSHIP,
  type MembershipEvent,
  type MembershipState,
} from '../../../src/engine/membership/membership.ts';
import { rankStateOf } from '../../../src/engine/membership/rankState.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';

const HERE = { isServerAway: false, outcome: null, isSpectator: false };
const prepare = (generation: number, ...ids: string[]): MembershipEvent => ({
  ...{ type: 'prepare', generation, run: 1, job: DEFAULT_JOB, relayed: [], separated: [], served: [] },
  members: ids.map((member) => ({ member, name: member, device: null, browser: 0, rank: null })),
});
const after = (...events: MembershipEvent[]): MembershipState =>
  events.reduce((state, event) => nextMembership(state, event).state, INITIAL_MEMBERSHIP);

const LINKING = [{ type: 'admitted', member: 'Ada' }, prepare(1, 'Ada', 'Bo')] as const;
const SYNCING = [...LINKING, { type: 'linked', generation: 1 }, { type: 'sync', generation: 1 }] as const;
const RUNNING = [
  ...SYNCING,
  { type: 'entered', generation: 1, step: 0, stateHash: 'x' },
  { type: 'go', generation: 1 },
] as const;

test.each<[string, readonly MembershipEvent[], Partial<typeof HERE> | { outcome: string }, string, string]>([
  ['a tab that is not connected', [], {}, 'OFFLINE', 'not connected'],
  ['a member before a run', LINKING.slice(0, 1), {}, 'WAITING', 'waiting for the run to start'],
  ['a member after a run', LINKING.slice(0, 1), { outcome: 'It has finished.' }, 'WAITING', 'It has finished.'],
  ['a spectator', LINKING.slice(0, 1), { isSpectator: true }, 'WAITING', 'watching'],
  ['one of two ranks that link', LINKING, {}, 'LINKING', 'connecting to the other rank'],
  ['a rank that compares states', SYNCING, {}, 'SYNCING', 'loading the job and comparing states'],
  ['a rank that trains', RUNNING, {}, 'RUNNING', 'training'],
  [
    'a rank that trains while others join',
    [...RUNNING, prepare(2, 'Ada', 'Bo', 'Cy')],
    {},
    'RUNNING',
    'training; the next ring is being connected',
  ],
  [
    'a rank whose neighbour has left',
    [...RUNNING, { type: 'broken', generation: 1, peers: ['Bo'] }],
    {},
    'WAITING',
    'a rank has left: waiting for the next generation',
  ],
  [
    'a rank of a run with too few ranks',
    [...RUNNING, { type: 'pause', run: 1, generation: 1, waitingFor: 2 }],
    {},
    'WAITING',
    'paused: waiting for 2 more',
  ],
  [
    'a rank of a run that the host has paused',
    [...RUNNING, { type: 'pause', run: 1, generation: 1, waitingFor: 0 }],
    {},
    'WAITING',
    'paused by the host',
  ],
])('%s has the right state and detail', (_, events, circumstances, state, detail) => {
  expect(rankStateOf(after(...events), { ...HERE, ...circumstances })).toMatchObject({ state, detail });
});

test('without the server, the detail of a rank says either that the server cannot be reached or that the rank waits for it', () => {
  const away = { ...HERE, isServerAway: true };
  expect(rankStateOf(after(...RUNNING), away).detail).toMatch(/^training; the signaling server cannot be reached/);
  expect(rankStateOf(after(...LINKING.slice(0, 1)), away).detail).toMatch(/^waiting for the signaling server/);
});
