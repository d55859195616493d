/** A room's invariants, checked for random events of a few members. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { DEFAULT_JOB, type JobSpec } from '../../../src/spec/job.ts';
import { createRoom, hostsOf, step, type RoomEvent, type RoomState } from '../../../signaling/room/index.ts';
import { DEVICE, join, NAMES as ALL_NAMES, ready } from './play.ts';

const FILES_JOB: JobSpec = { ...DEFAULT_JOB, job: 'mnist', data: { kind: 'files' } };
const NAMES = ALL_NAMES.slice(0, 4);
const BROWSERS = ['browser-of-the-lab', 'browser-at-home'];

/** Any event. Only few members and generations are used, so that many events fit the room. */
const member = fc.constantFrom(...NAMES, 'nobody');
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
const script = fc.array(fc.tuple(anyEvent, fc.integer({ min: 0, max: 99 })), { maxLength: 120, size: 'max' });

/** Returns the next event of a correct member. `pick` chooses the member. */
function helpful(state: RoomState, pick: number): RoomEvent {
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

test('a room satisfies its invariants for random events', () => {
  const phases = new Set<string>();
  const outcomes = new Set<string>();
  let mixedRings = 0;
  let startedAgain = 0;
  fc.assert(
    fc.property(script, fc.constantFrom(null, 1, 2, 3), (events, startAt) => {
      let state = createRoom({ job: DEFAULT_JOB, startAt, nodes: null, capacity: 4 });
      let isTimed = false;
      for (const [wild, pick] of events) {
        const event = pick < 15 ? wild : helpful(state, pick / 100);
        const before = state;
        const { state: after, effects } = step(before, event);
        state = after;
        phases.add(after.phase);

        expect(after.generation - before.generation === 0 || after.generation - before.generation === 1).toBe(true);
        expect(after.members.length).toBeLessThanOrEqual(4);
        expect(new Set(ids(after.members)).size).toBe(after.members.length);
        expect(after.ring.length > 0).toBe(after.phase !== 'FORMING');
        const [wereHere, areHere] = [before, after].map((room) => [...ids(room.members), ...ids(room.spectators)]);
        expect([...after.hidden.keys()].sort()).toEqual(areHere!.toSorted());
        expect(after.ring.some(({ member: id }) => ids(after.spectators).includes(id))).toBe(false);
        const asked = after.members.flatMap((m) => m.rank ?? []);
        expect(new Set(asked).size).toBe(asked.length);
        for (const name of BROWSERS) expect(JSON.stringify(effects)).not.toContain(name);
        expect(after.phase !== 'FORMING' && after.reports.size >= after.ring.length).toBe(false);

        for (const effect of effects) {
          if (effect.type === 'setTimer') isTimed ||= effect.key === 'deadline';
          else if (effect.type === 'clearTimer') isTimed &&= effect.key !== 'deadline';
          else if (effect.type === 'send' && effect.message.type === 'prepare') {
            // The index is the rank: the requested rank or, without a request, the next one in the
            // order of joining. All ranks receive the message.
            expect(effect.message.members).toEqual(after.ring);
            expect(effect.to).toEqual(ids(after.ring));
            for (const [rank, one] of after.ring.entries()) expect(one.rank ?? rank).toBe(rank);
            const others = after.members.filter((m) => m.rank === null && effect.to.includes(m.member));
            expect(after.ring.filter((m) => m.rank === null)).toEqual(others);
            expect(after.ring.every((m) => m.device !== null)).toBe(true);
            if (event.type !== 'start') expect(after.ring.length).toBe(startAt);
            if (others.length > 0 && others.length < after.ring.length) mixedRings++;
            if (startAt !== null && after.generation > 1 && event.type !== 'start') startedAgain++;
          } else if (effect.type === 'send' && effect.message.type !== 'refused') {
            for (const id of effect.to) expect(areHere).toContain(id);
            if (effect.message.type === 'spectator-update') expect(effect.to).toEqual(ids(after.spectators));
          }
        }
        // LINKING and SYNCING have deadlines on the server; training has none.
        expect(isTimed).toBe(after.phase === 'LINKING' || after.phase === 'SYNCING');

        // If all ranks have left, a room may start again in the same step.
        const isOff = after.phase === 'FORMING' || after.generation > before.generation;
        const isOver = before.phase !== 'FORMING' && isOff && areHere!.length > 0;
        const endings = effects.flatMap((e) => (e.type === 'send' && e.message.type === 'ended' ? [e] : []));
        expect(endings.length).toBe(isOver ? 1 : 0);
        for (const { to, message } of endings) {
          if (message.type === 'ended') outcomes.add(message.outcome);
          expect(message).toMatchObject({ run: before.run });
          expect(to).toEqual(areHere);
        }
        if (areHere!.length === 0 && wereHere!.length > 0) {
          expect(effects).toContainEqual({ type: 'empty' });
        }
      }
    }),
    { numRuns: 200 },
  );
  // The random events must reach every phase.
  expect([...phases].sort()).toEqual(['FORMING', 'LINKING', 'RUNNING', 'SYNCING']);
  expect([...outcomes].sort()).toEqual(['failed', 'finished']);
  expect(mixedRings).toBeGreaterThan(0);
  expect(startedAgain).toBeGreaterThan(0);
});

function ids(members: readonly { member: string }[]): string[] {
  return members.map((m) => m.member);
}
