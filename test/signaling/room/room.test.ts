import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { settingsOf } from '../../../src/protocol/room.ts';
import { DEFAULT_JOB, type JobSpec } from '../../../src/spec/job.ts';
import {
  createRoom,
  hostsOf,
  LINKING_MS,
  step,
  SYNCING_MS,
  type RoomEvent,
  type RoomState,
} from '../../../signaling/room/index.ts';
import { DEVICE, join, NAMES as ALL_NAMES, Play, ready } from './play.ts';

const FILES_JOB: JobSpec = { ...DEFAULT_JOB, job: 'mnist', data: { kind: 'files' } };
const NAMES = ALL_NAMES.slice(0, 4);
const BROWSERS = ['browser-of-the-lab', 'browser-at-home'];

describe('a room', () => {
  test('passes through all phases of a run, and back to FORMING', () => {
    const play = new Play().enter(3).do({ type: 'start', member: 'Ada' });
    expect(play.state.phase).toBe('LINKING');
    expect(play.received('Cy', 'prepare').members.map((m) => m.name)).toEqual(['Ada', 'Bo', 'Cy']);
    expect(play.timer('deadline')).toMatchObject({ ms: LINKING_MS, event: { generation: 1, phase: 'LINKING' } });
    play.linkAll();
    expect(play.received('Bo', 'sync').generation).toBe(1);
    expect(play.timer('deadline')).toMatchObject({ ms: SYNCING_MS, event: { generation: 1, phase: 'SYNCING' } });
    play.report('synced', ['same']);
    expect(play.received('Bo', 'go').generation).toBe(1);
    expect(play.effects).toContainEqual({ type: 'clearTimer', key: 'deadline' });
    play.report('finished', ['end'], 40);
    expect(play.received('Ada', 'ended')).toMatchObject({ run: 1, outcome: 'finished' });
    expect(play.state).toMatchObject({ phase: 'FORMING', generation: 1, ring: [] });
    play.do({ type: 'start', member: 'Ada' });
    expect(play.state).toMatchObject({ phase: 'LINKING', generation: 2 });
  });

  test('starts its first run by itself when the number of ready members reaches startAt', () => {
    const play = new Play({ startAt: 2 }).enter(1);
    expect(play.state.phase).toBe('FORMING');
    play.enter(2);
    expect(play.state.phase).toBe('LINKING');
    play.do({ type: 'failed', member: 'Bo', generation: 1, message: 'No GPU.', scope: 'rank' });
    play.do(ready('Bo'));
    expect(play.state.phase).toBe('FORMING');
  });

  test('starts a run without the members that are not ready', () => {
    const play = new Play().enter(2).do(join('Cy'), { type: 'start', member: 'Ada' });
    expect(play.state.ring.map((m) => m.member)).toEqual(['Ada', 'Bo']);
    expect(play.sentTo('Cy').map((m) => m.type)).toEqual(['room']);
    play.do({ type: 'left', member: 'Cy', reason: 'left' });
    expect(play.state.phase).toBe('LINKING');
  });

  test('lets only the host configure the job and start the run, and only when the host is ready', () => {
    const play = new Play().do(join('Ada'), { type: 'start', member: 'Ada' });
    expect(play.received('Ada', 'refused').code).toBe('not-now');
    play.enter(2).do({ type: 'start', member: 'Bo' });
    expect(play.received('Bo', 'refused').code).toBe('not-host');
    const job = { ...DEFAULT_JOB, epochs: 3 };
    play.do({ type: 'configure', member: 'Bo', job });
    expect(play.received('Bo', 'refused').code).toBe('not-host');
    play.do({ type: 'configure', member: 'Ada', job });
    expect(play.received('Bo', 'room').job).toEqual(job);
  });

  test('refuses newcomers when it is full or training', () => {
    const play = new Play({ capacity: 2 }).enter(2).do(join('Cy'));
    expect(play.received('Cy', 'refused').code).toBe('room-full');
    play.do({ type: 'start', member: 'Ada' }, { type: 'left', member: 'nobody', reason: 'left' });
    play.do(join('Cy'));
    expect(play.received('Cy', 'refused').code).toBe('room-running');
  });

  test('ends the run when a rank leaves, and names the rank', () => {
    const play = Play.running(3).do({ type: 'left', member: 'Cy', reason: 'left' });
    const message = 'Rank 2 (Cy) left while training, so the run ended. Start again with the others.';
    expect(play.received('Ada', 'ended')).toEqual({ type: 'ended', run: 1, outcome: 'failed', message });
    expect(play.received('Ada', 'room').members).toHaveLength(2);
    expect(play.state.phase).toBe('FORMING');
  });

  test('ends the run when a rank fails, with the message of this rank', () => {
    const play = Play.running(2).do({
      type: 'failed',
      member: 'Bo',
      generation: 1,
      message: 'The GPU was lost.',
      scope: 'rank',
    });
    expect(play.received('Ada', 'ended').message).toBe(
      'Rank 1 (Bo) could not continue, so the run ended: The GPU was lost.',
    );
    expect(play.received('Bo', 'ended').outcome).toBe('failed');
  });

  test('ends the run when ranks miss a deadline, and names these ranks', () => {
    const play = new Play().enter(3).do({ type: 'start', member: 'Ada' });
    play.do({ type: 'linked', member: 'Bo', generation: 1 }, { type: 'deadline', generation: 1, phase: 'LINKING' });
    expect(play.received('Bo', 'ended').message).toMatch(
      /^Rank 0 \(Ada\) and rank 2 \(Cy\) did not reach the neighbours/,
    );
    play.do({ type: 'deadline', generation: 1, phase: 'LINKING' });
    expect(play.effects).toEqual([]);
  });

  test('ends the run when a rank begins or ends with a different state, and names this rank', () => {
    const play = new Play().enter(3).do({ type: 'start', member: 'Ada' }).linkAll().report('synced', ['x', 'y', 'y']);
    expect(play.received('Ada', 'ended').message).toMatch(/^Rank 0 \(Ada\) began with a different state/);
    const late = Play.running(2).report('finished', ['x', 'z'], 7);
    expect(late.received('Ada', 'ended')).toMatchObject({ outcome: 'failed' });
    expect(late.received('Ada', 'ended').message).toMatch(
      /^Rank 1 \(Bo\) ended with a different state .*step 7, state z/,
    );
  });

  test('continues the run when a rank that has finished leaves', () => {
    const play = Play.running(2);
    play.do({ type: 'finished', member: 'Ada', generation: 1, step: 4, stateHash: 'x' });
    play.do({ type: 'left', member: 'Ada', reason: 'left' });
    expect(play.state.phase).toBe('RUNNING');
    play.do({ type: 'finished', member: 'Bo', generation: 1, step: 4, stateHash: 'x' });
    expect(play.received('Bo', 'ended').outcome).toBe('finished');
  });

  test('makes the oldest member host when the host leaves', () => {
    const play = new Play().enter(3).do({ type: 'left', member: 'Ada', reason: 'left' });
    expect(play.received('Cy', 'room').hosts).toEqual(['Bo']);
  });

  test('is empty and without a run after its last member has left, and makes the next newcomer host', () => {
    const play = Play.running(1).do({ type: 'left', member: 'Ada', reason: 'left' });
    expect(play.effects).toContainEqual({ type: 'clearTimer', key: 'deadline' });
    expect(play.effects.at(-1)).toEqual({ type: 'empty' });
    expect(play.state).toMatchObject({ phase: 'FORMING', generation: 1, members: [], ring: [] });
    play.do(join('Bo'));
    expect(play.received('Bo', 'room').hosts).toEqual(['Bo']);
    play.do(ready('Bo'), { type: 'start', member: 'Bo' });
    expect(play.received('Bo', 'prepare').generation).toBe(2);
  });

  test('sends no message if a member repeats the same ready message', () => {
    const play = new Play().enter(2).do({ type: 'ready', member: 'Ada', device: { ...DEVICE }, stateOfRun: null });
    expect(play.effects).toEqual([]);
    play.do({ type: 'ready', member: 'Ada', device: { ...DEVICE, adapter: 'other' }, stateOfRun: null });
    expect(play.received('Bo', 'room').members[0]?.device?.adapter).toBe('other');
  });

  test('marks all members as not ready when the host configures a job that needs other data', () => {
    const play = new Play({ startAt: 2 }).enter(1).do(join('Bo'));
    play.do({ type: 'configure', member: 'Ada', job: { ...DEFAULT_JOB, epochs: 3 } });
    expect(play.received('Bo', 'room').members[0]?.device).toEqual(DEVICE);
    play.do({ type: 'configure', member: 'Ada', job: FILES_JOB });
    expect(play.received('Bo', 'room').members.map((m) => m.device)).toEqual([null, null]);
    // Files that fit one job may not fit another job or another target column.
    const table = { ...FILES_JOB, job: 'table' as const };
    const priced = { ...table, target: 'price' };
    for (const job of [table, priced, { ...priced, seed: 9 }, FILES_JOB]) {
      play.do(ready('Bo'));
      play.do({ type: 'configure', member: 'Ada', job: { ...job, epochs: 3 } });
      expect(play.received('Bo', 'room').members.map((m) => m.device)).toEqual([null, null]);
    }
    play.do({ type: 'start', member: 'Ada' });
    expect(play.received('Ada', 'refused').code).toBe('not-now');
    play.do(ready('Bo'));
    expect(play.state.phase).toBe('FORMING');
    play.do(ready('Ada'));
    expect(play.state.phase).toBe('LINKING');
  });

  test('assigns the requested ranks, and assigns the free ranks in the order of joining', () => {
    const play = new Play({ startAt: 4 });
    for (const [name, rank] of [['Ada'], ['Bo', 3], ['Cy'], ['Di', 0]] as const) {
      play.do(join(name, { rank }));
    }
    expect(play.received('Ada', 'room').members.map((m) => m.rank)).toEqual([null, 3, null, 0]);
    for (const member of ['Cy', 'Bo', 'Di', 'Ada']) play.do(ready(member));
    expect(play.received('Ada', 'prepare').members.map((m) => m.name)).toEqual(['Di', 'Ada', 'Cy', 'Bo']);
  });

  test.each([
    ['the rank of another member', { rank: 2 }, 'Ada has rank 2 already. Request another rank, or none.'],
    ['a rank beyond the world', { rank: 3 }, 'There is no rank 3 in a world of 3. Request one from 0 to 2.'],
    ['another world size', { worldSize: 4 }, "This room's world size is 3, not 4. Request 3, or join another room."],
  ])('refuses a newcomer that requests %s', (_, asked, sentence) => {
    const play = new Play({ startAt: 3 }).do(join('Ada', { rank: 2, worldSize: 3 }));
    play.do(join('Bo', asked));
    expect(play.received('Bo', 'refused')).toMatchObject({ code: 'mismatch', message: sentence });
    expect(play.state.members.map((m) => m.name)).toEqual(['Ada']);
    // A rank is free again after its member has left.
    play.do({ type: 'left', member: 'Ada', reason: 'left' }, join('Bo', { rank: 2 }));
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Bo' });
  });

  test('lets a newcomer take the rank of a disconnected member before a run', () => {
    const play = new Play({ startAt: 2 }).do(join('Ada', { rank: 0 }), join('Bo', { rank: 1 }));
    play.do({ type: 'away', member: 'Ada' }, join('Cy', { rank: 0 }));
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Cy' });
    play.do({ type: 'missed', member: 'Ada' });
    expect(play.state.members.map((m) => [m.name, m.rank])).toEqual([
      ['Bo', 1],
      ['Cy', 0],
    ]);
    // Di is refused for another reason, so the disconnected member keeps its rank.
    play.do({ type: 'away', member: 'Bo' }, join('Di', { rank: 1, worldSize: 3 }));
    expect(play.received('Di', 'refused').code).toBe('mismatch');
    expect(play.state.members.map((m) => m.name)).toEqual(['Bo', 'Cy']);
  });

  test('is not empty if a newcomer takes the rank of its only member, which is disconnected', () => {
    const play = new Play({ startAt: 1 }).do(join('Ada', { rank: 0 }), { type: 'away', member: 'Ada' });
    play.do(join('Bo', { rank: 0 }));
    expect(play.effects).not.toContainEqual({ type: 'empty' });
    play.do({ type: 'missed', member: 'Ada' });
    expect(play.effects).not.toContainEqual({ type: 'empty' });
    expect(play.state.members.map((m) => m.name)).toEqual(['Bo']);
  });

  test('readmits a returning member whose rank was taken, without a requested rank but still as host', () => {
    const play = new Play({ startAt: 2 }).do(join('Ada', { rank: 0 }), join('Bo', { rank: 1 }));
    play.do({ type: 'away', member: 'Ada' }, join('Cy', { rank: 0 }));
    expect(play.received('Bo', 'room').hosts).toEqual(['Bo']);
    const settings = settingsOf(play.state);
    const reconnectState = { settings, run: 0, isRunOn: false, generation: 0, active: null };
    play.do({ type: 'reconnect', member: 'Ada', name: 'Ada', rank: 0, holdsKey: false, reconnectState });
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Ada' });
    expect(play.received('Ada', 'room').hosts).toEqual(['Ada']);
    expect(play.state.members.map((m) => [m.name, m.rank])).toEqual([
      ['Ada', null],
      ['Bo', 1],
      ['Cy', 0],
    ]);
  });

  test('removes the disconnected member whose rank a newcomer takes if the room is full', () => {
    const play = new Play({ startAt: 2, capacity: 2 }).do(join('Ada', { rank: 0 }), join('Bo', { rank: 1 }));
    play.do({ type: 'away', member: 'Ada' }, join('Cy', { rank: 0 }));
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Cy' });
    expect(play.effects).toContainEqual({ type: 'clearTimer', key: 'away Ada' });
    expect(play.state.members.map((m) => m.name)).toEqual(['Bo', 'Cy']);
  });

  test('refuses to start the run if a ready member expects a larger world, and names this member', () => {
    const play = new Play().enter(1).do(join('Bo', { rank: 2 }));
    play.do(ready('Bo'), { type: 'start', member: 'Ada' });
    expect(play.received('Ada', 'refused')).toMatchObject({
      code: 'not-now',
      message: 'Bo requested rank 2, and 2 members are ready. Start the run when 3 members are ready.',
    });
    play.do(join('Cy', { worldSize: 4 }));
    play.do(ready('Cy'), { type: 'start', member: 'Ada' });
    expect(play.received('Ada', 'refused').message).toBe(
      'Cy expects a world size of 4, and 3 members are ready. Start the run with a world size of 4.',
    );
    play.do({ type: 'left', member: 'Cy', reason: 'left' });
    play.do(join('Di'), ready('Di'));
    play.do({ type: 'start', member: 'Ada' });
    expect(play.received('Ada', 'prepare').members.map((m) => m.name)).toEqual(['Ada', 'Di', 'Bo']);
  });

  test('starts another run by itself only after all former ranks have left', () => {
    const play = new Play({ startAt: 2 }).enter(2).do({ type: 'left', member: 'Bo', reason: 'left' });
    expect(play.received('Ada', 'ended').outcome).toBe('failed');
    for (const name of ['Bo', 'Cy']) {
      play.do(join(name), ready(name));
    }
    expect(play.state).toMatchObject({ phase: 'FORMING', startAt: null });
    play.do({ type: 'left', member: 'Ada', reason: 'left' });
    expect(play.received('Cy', 'prepare')).toMatchObject({ generation: 2, members: [{ name: 'Bo' }, { name: 'Cy' }] });
  });

  test('sends members numbers of browsers instead of browser ids', () => {
    const play = new Play();
    for (const [i, browser] of [BROWSERS[0], BROWSERS[1], BROWSERS[0], undefined].entries()) {
      play.do(join(NAMES[i]!, { browser }));
    }
    const numbers = (): number[] => play.received('Bo', 'room').members.map((m) => m.browser);
    expect(numbers()).toEqual([0, 1, 0, 2]);
    play.do({ type: 'left', member: 'Ada', reason: 'left' }, { type: 'left', member: 'Cy', reason: 'left' });
    play.do(join('Ada'), join('Cy', { browser: BROWSERS[1] }));
    expect(numbers()).toEqual([1, 2, 0, 1]);
  });

  test('relays signals only between ranks of the present generation', () => {
    const play = Play.running(2).do(join('Cy'));
    const signal = { type: 'offer' as const, sdp: 'v=0' };
    play.do({ type: 'signal', member: 'Ada', to: 'Bo', generation: 1, attempt: 2, signal });
    expect(play.sentTo('Bo')).toEqual([{ type: 'signal', from: 'Ada', generation: 1, attempt: 2, signal }]);
    for (const [member, to, generation] of [
      ['Ada', 'Bo', 0],
      ['Ada', 'Cy', 1],
      ['Cy', 'Ada', 1],
    ] as const) {
      play.do({ type: 'signal', member, to, generation, attempt: 2, signal });
      expect(play.effects).toEqual([]);
    }
  });
});

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
