import { describe, expect, test } from 'vitest';
import { roomSettingsOf } from '../../../src/protocol/room.ts';
import { DEFAULT_JOB, type JobSpec } from '../../../src/spec/job.ts';
import { LINKING_MS, SYNCING_MS } from '../../../signaling/room/index.ts';
import { DEVICE, join, NAMES, Play, ready } from './play.ts';

const FILES_JOB: JobSpec = { ...DEFAULT_JOB, job: 'mnist', data: { kind: 'files' } };
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

  test('starts its first run by itself when startAt members are ready', () => {
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

  test('is empty and has no run after its last member has left; the next newcomer is host', () => {
    const play = Play.running(1).do({ type: 'left', member: 'Ada', reason: 'left' });
    expect(play.effects).toContainEqual({ type: 'clearTimer', key: 'deadline' });
    expect(play.effects.at(-1)).toEqual({ type: 'empty' });
    expect(play.state).toMatchObject({ phase: 'FORMING', generation: 1, members: [], ring: [] });
    play.do(join('Bo'));
    expect(play.received('Bo', 'room').hosts).toEqual(['Bo']);
    play.do(ready('Bo'), { type: 'start', member: 'Bo' });
    expect(play.received('Bo', 'prepare').generation).toBe(2);
  });

  test('sends no message if a member repeats that it is ready', () => {
    const play = new Play().enter(2).do({ type: 'ready', member: 'Ada', device: { ...DEVICE }, stateOfRun: null });
    expect(play.effects).toEqual([]);
    play.do({ type: 'ready', member: 'Ada', device: { ...DEVICE, adapter: 'other' }, stateOfRun: null });
    expect(play.received('Bo', 'room').members[0]?.device?.adapter).toBe('other');
  });

  test('marks all members as not ready when the host chooses a job with other data', () => {
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

  test('gives members the ranks that they request, and gives the free ranks in the order of joining', () => {
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

  test('refuses a rank that no world can have, without naming a world size that it does not know', () => {
    const play = new Play({ capacity: 256 }).do(join('Ada'), join('Bo', { rank: 255 }), join('Cy', { rank: 256 }));
    expect(play.received('Cy', 'refused').message).toBe('There is no rank 256. Request one from 0 to 255.');
    expect(play.state.members.map(({ rank }) => rank)).toEqual([null, 255]);
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

  test('is not empty if a newcomer takes the rank of the only member, which is disconnected', () => {
    const play = new Play({ startAt: 1 }).do(join('Ada', { rank: 0 }), { type: 'away', member: 'Ada' });
    play.do(join('Bo', { rank: 0 }));
    expect(play.effects).not.toContainEqual({ type: 'empty' });
    play.do({ type: 'missed', member: 'Ada' });
    expect(play.effects).not.toContainEqual({ type: 'empty' });
    expect(play.state.members.map((m) => m.name)).toEqual(['Bo']);
  });

  test('readmits a returning member whose rank was taken: without this rank, but still as host', () => {
    const play = new Play({ startAt: 2 }).do(join('Ada', { rank: 0 }), join('Bo', { rank: 1 }));
    play.do({ type: 'away', member: 'Ada' }, join('Cy', { rank: 0 }));
    expect(play.received('Bo', 'room').hosts).toEqual(['Bo']);
    const settings = roomSettingsOf(play.state);
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

  test('refuses to start a run whose algorithm the ready members cannot run', () => {
    const play = new Play({ job: { ...DEFAULT_JOB, algorithm: 'two-level' } }).enter(3);
    play.do({ type: 'start', member: 'Ada' });
    expect(play.received('Ada', 'refused')).toMatchObject({
      code: 'not-now',
      message:
        "The job's algorithm cannot run: two-level needs groups of equal size, but 3 ranks cannot be divided into " +
        'several groups of 2 or more. Choose the ring, or wait for more members.',
    });
    play.do(join('Di'), ready('Di'));
    play.do({ type: 'start', member: 'Ada' });
    expect(play.received('Ada', 'prepare').members).toHaveLength(4);
  });

  test('starts a run whose strategy has no all-reduces, whatever algorithm the job names', () => {
    const play = new Play({ job: { ...DEFAULT_JOB, strategy: 'parameter-server', algorithm: 'two-level' } }).enter(3);
    play.do({ type: 'start', member: 'Ada' });
    expect(play.received('Ada', 'prepare').members).toHaveLength(3);
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

  test('sends members numbers instead of the ids of browsers', () => {
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

  test('relays signals only between ranks of this generation', () => {
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
