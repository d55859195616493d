/** Random events of a few members, for properties of a room. */
import * as fc from 'fast-check';
import { DEFAULT_JOB, type JobSpec } from '../../../src/spec/job.ts';
import { hostsOf, type RoomEvent, type RoomState } from '../../../signaling/room/index.ts';
import { DEVICE, join, NAMES as ALL_NAMES, ready } from './play.ts';

const FILES_JOB: JobSpec = { ...DEFAULT_JOB, job: 'mnist', data: { kind: 'files' } };
/** Ids of members, which are also their names. */
const NAMES = ALL_NAMES.slice(0, 4).map((name) => `member-${name}`);
export const BROWSERS = ['browser-of-the-lab', 'browser-at-home'];

/** Any event. Only few members and generations are used, so that many events fit the room. */
const member = fc.constantFrom(...NAMES, 'member-nobody');
const generation = fc.integer({ min: 0, max: 4 });
const report = {
  member,
  generation,
  step: fc.integer({ min: 0, max: 1 }),
  stateHash: fc.constantFrom('x', 'x', 'x', 'y'),
};
const anyEvent: fc.Arbitrary<RoomEvent> = fc.oneof(
  fc.record(
    {
      type: fc.constant('join' as const),
      member,
      name: fc.constant('Ada'),
      holdsKey: fc.boolean(),
      browser: fc.constantFrom(...BROWSERS),
      rank: fc.integer({ min: 0, max: 4 }),
      worldSize: fc.integer({ min: 1, max: 4 }),
      isSpectator: fc.boolean(),
    },
    { requiredKeys: ['type', 'member', 'name', 'holdsKey'] },
  ),
  fc.record({
    type: fc.constant('ready' as const),
    member,
    device: fc.constant(DEVICE),
    stateOfRun: fc.constant(null),
  }),
  fc.record({ type: fc.constant('configure' as const), member, job: fc.constantFrom(DEFAULT_JOB, FILES_JOB) }),
  fc.record({ type: fc.constant('start' as const), member }),
  fc.record({ type: fc.constantFrom('pause' as const, 'resume' as const), member }),
  fc.record({ type: fc.constant('spectator-update' as const), member, update: fc.constant('[]') }),
  fc.record({ type: fc.constant('linked' as const), member, generation }),
  fc.record({ type: fc.constant('synced' as const), ...report }),
  fc.record({ type: fc.constant('syncing' as const), member, generation }),
  fc.record({ type: fc.constant('finished' as const), ...report }),
  fc.oneof(
    fc.record({
      type: fc.constant('heartbeat' as const),
      member,
      pulse: fc.record({
        task: fc.constantFrom('', 'step 3'),
        progress: fc.nat(3),
        isSilent: fc.boolean(),
        ms: fc.constantFrom(0, 4_000, 95_000),
        limitMs: fc.constant(60_000),
      }),
    }),
    fc.record({ type: fc.constant('ask-pulses' as const), member, peers: fc.array(member) }),
  ),
  fc.record({
    type: fc.constant('failed' as const),
    member,
    generation,
    message: fc.string({ maxLength: 1000 }),
    scope: fc.constantFrom('rank', 'generation', 'run'),
  }),
  fc.record({ type: fc.constant('left' as const), member, reason: fc.constantFrom('left', 'silent', 'dropped') }),
  fc.record({ type: fc.constant('deadline' as const), generation, phase: fc.constantFrom('LINKING', 'SYNCING') }),
  fc.record({
    type: fc.constant('signal' as const),
    member,
    to: member,
    generation,
    attempt: fc.constant(0),
    signal: fc.constant({ type: 'offer' as const, sdp: '' }),
  }),
);

/**
 * The number decides which event follows: usually one that advances the run, sometimes any event.
 */
export const script = fc.array(fc.tuple(anyEvent, fc.integer({ min: 0, max: 99 })), { maxLength: 120, size: 'max' });

/** Returns the next event of a correct member. `pick` chooses the member. */
export function helpful(state: RoomState, pick: number): RoomEvent {
  const silent = state.ring.filter(
    (m) => !state.reports.has(m.member) && state.members.some((x) => x.member === m.member),
  );
  const next = silent[Math.floor(pick * silent.length)];
  const reported = { generation: state.generation, step: 0, stateHash: 'x' };
  if (next !== undefined && state.phase === 'LINKING')
    return { type: 'linked', member: next.member, generation: state.generation };
  if (next !== undefined && state.phase === 'SYNCING') return { type: 'synced', member: next.member, ...reported };
  if (next !== undefined && state.phase === 'RUNNING') return { type: 'finished', member: next.member, ...reported };
  const cold = state.members.find((m) => m.device === null);
  if (cold !== undefined) return ready(cold.member);
  const outside = NAMES.findIndex((name) => !state.members.some((m) => m.member === name));
  if (outside >= 0) {
    // Half of the members request a rank. The later the name, the lower the requested rank.
    const request = pick < 0.5 ? { rank: NAMES.length - 1 - outside, browser: BROWSERS[outside % 2] } : {};
    return join(NAMES[outside]!, request);
  }
  return { type: 'start', member: hostsOf(state)[0]! };
}
