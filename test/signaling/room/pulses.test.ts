/** What a room does with the pulses of its ranks. Ids of members are their names. */
import { describe, expect, test } from 'vitest';
import { LINKING_MS, SYNCING_MS, type RoomEvent } from '../../../signaling/room/index.ts';
import type { Pulse } from '../../../src/protocol/room.ts';
import { open, OPEN } from './elasticRoom.ts';
import { Play, ready } from './play.ts';

const IDLE: Pulse = { task: '', progress: 0, isSilent: false, ms: 0, limitMs: 600_000 };
const WORKS: Pulse = { ...IDLE, task: 'step 12', isSilent: true, ms: 50_000, limitMs: 60_000 };
const HANGS: Pulse = { ...WORKS, ms: 95_000 };

const pulse = (member: string, of: Partial<Pulse> = {}): RoomEvent => ({
  type: 'heartbeat',
  member,
  pulse: { ...IDLE, ...of },
});
const late = (member: string, peer: string): RoomEvent => ({ type: 'late', member, generation: 1, peers: [peer] });
/** Whom Ada and Di have reported when they wait for Bo. */
const lateIn = (play: Play): string[] =>
  play
    .do(late('Ada', 'Bo'), late('Di', 'Bo'))
    .gather()
    .state.faults.map(({ about }) => about);
const fixed = (n: number): Play => new Play().enter(n).start();
/** The deadlines that the latest event has set. */
const deadlines = ({ effects }: Play): number[] =>
  effects.flatMap((effect) => (effect.type === 'setTimer' && effect.key === 'deadline' ? [effect.ms] : []));

describe('the deadline of a phase', () => {
  test.each([
    ['begins again if an awaited rank works without an answer', WORKS, 1],
    ['begins again if an awaited rank is in a task and answers', { task: 'load the data', ms: 9_000 }, 1],
    ['does not begin again if an awaited rank is in a task for too long', { task: 'load the data', ms: 700_000 }, 0],
    ['begins again if an awaited rank makes progress', { progress: 5 }, 1],
    ['does not begin again if an awaited rank does nothing', {}, 0],
  ] as const)('%s', (_, of, times) => {
    const linking = new Play(OPEN).enter(2).start().do(pulse('Bo'), pulse('Bo', of));
    expect(deadlines(linking)).toEqual(Array.from({ length: times }, () => LINKING_MS));
    const syncing = new Play(OPEN).enter(2).start().linkAll().do(pulse('Bo'), pulse('Bo', of));
    expect(deadlines(syncing)).toEqual(Array.from({ length: times }, () => SYNCING_MS));
  });

  test('does not begin again if the working rank has already reported that it is linked', () => {
    const play = new Play(OPEN).enter(2).start();
    play.do({ type: 'linked', member: 'Bo', generation: 1 }, pulse('Bo', WORKS));
    expect(deadlines(play)).toEqual([]);
  });
});

describe('a rank that works, although it does not answer,', () => {
  test('is not excluded: the others wait for it', () => {
    const play = open(3);
    play
      .do({ type: 'broken', member: 'Ada', generation: 1, peers: ['Bo'] })
      .gather()
      .linkAll();
    play.do({ type: 'syncing', member: 'Ada', generation: 2 }, { type: 'syncing', member: 'Cy', generation: 2 });
    play.do(pulse('Bo', WORKS), { type: 'entering', generation: 2, ms: 65_000 });
    expect(play.ring).toHaveLength(3);
    play.do(pulse('Bo', { ...IDLE }), { type: 'entering', generation: 2, ms: 65_000 });
    expect(play.ring).toEqual(['Ada', 'Cy']);
  });

  test('is not blamed for links that did not open, and their attempts are not counted', () => {
    const play = new Play(OPEN).enter(3).start();
    for (let generation = 1; generation < 20; generation++) {
      play.do(pulse('Bo', WORKS), { type: 'broken', member: 'Ada', generation, peers: ['Bo'] });
      play.do({ type: 'broken', member: 'Cy', generation, peers: ['Bo'] }).gather();
    }
    expect(play.state).toMatchObject({ phase: 'LINKING', generation: 20, retries: 0, faults: [] });
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('does not count as late', () => {
    const play = open(3).do(pulse('Bo', WORKS));
    play.do({ type: 'late', member: 'Ada', generation: 1, peers: ['Bo'] });
    play.do({ type: 'late', member: 'Cy', generation: 1, peers: ['Bo'] }).gather();
    expect(play.ring).toHaveLength(3);
    expect(play.state.faults.filter(({ kind }) => kind === 'late')).toEqual([]);
  });

  test('excuses a rank that waits for it: this rank is not late either', () => {
    const play = open(4).do(pulse('Bo', { awaits: ['Cy'] }), pulse('Cy', WORKS));
    play
      .do(...['Ada', 'Di'].map((member): RoomEvent => ({ type: 'late', member, generation: 1, peers: ['Bo'] })))
      .gather();
    expect(play.ring).toHaveLength(4);
    expect(play.state.faults.filter(({ kind }) => kind === 'late')).toEqual([]);
  });
});

describe('ranks that wait for a rank that has stopped', () => {
  const STOPPED: Partial<Pulse> = { task: 'step 12', ms: 700_000 };
  test.each([
    ['directly and through others', { Ada: ['Bo'], Bo: ['Cy'], Di: ['Cy'] }],
    ['and for each other', { Ada: ['Bo'], Bo: ['Ada', 'Cy'], Di: ['Cy'] }],
  ])('%s do not count as late', (_, awaits: Record<string, string[]>) => {
    const play = open(4).do(
      ...Object.entries(awaits).map(([member, others]) => pulse(member, { awaits: others })),
      pulse('Cy', STOPPED),
    );
    expect(lateIn(play)).toEqual(['Cy', 'Cy']);
  });

  test.each([
    ['wait for each other', { Bo: ['Cy'], Cy: ['Bo'] }],
    ['wait for those that report them', { Bo: ['Ada', 'Di'] }],
  ])('count as late if they %s', (_, awaits: Record<string, string[]>) => {
    const play = open(4).do(...Object.entries(awaits).map(([member, others]) => pulse(member, { awaits: others })));
    expect(lateIn(play)).toEqual(['Bo', 'Bo']);
  });

  test('end a run with a fixed world; the message names the rank that has stopped', () => {
    const play = fixed(4)
      .train()
      .do(pulse('Bo', { awaits: ['Cy'] }), pulse('Cy', STOPPED), late('Ada', 'Bo'));
    expect(play.received('Ada', 'ended').message).toMatch(/^Rank 2 \(Cy\) did not answer Rank 0 \(Ada\) in time/);
  });
});

describe('a rank that hangs', () => {
  const HANGING = { code: 'hangs', rank: 1, name: 'Bo', task: 'step 12', seconds: 95, isOver: false };
  const named = /^Rank 1 \(Bo\) has computed "step 12" for 95 s without an answer/;

  test.each([2, 3])('is left out of a run of %i ranks; the others learn its name and task', (n) => {
    const play = open(n).do(pulse('Bo', WORKS), pulse('Bo', HANGS));
    expect(play.received('Ada', 'note')).toMatchObject({ message: expect.stringMatching(named), notice: HANGING });
    expect(play.received('Bo', 'suspended')).toMatchObject({
      message: expect.stringMatching(/^This tab computed without an answer/),
      notice: { code: 'suspended', reason: 'hanging', seconds: 120 },
    });
    expect(play.ring).toEqual(['Ada', 'Cy'].slice(0, n - 1));
  });

  test('ends a run with a fixed world, and the error names the hanging member', () => {
    const play = fixed(2).train().do(pulse('Bo', HANGS));
    expect(play.received('Ada', 'ended')).toMatchObject({
      message: expect.stringMatching(named),
      notice: { ...HANGING, isOver: true },
    });
  });

  test.each(['LINKING', 'SYNCING'] as const)('is also left out in %s', (phase) => {
    const play = new Play(OPEN).enter(3).start();
    if (phase === 'SYNCING') play.linkAll();
    play.do(pulse('Bo', HANGS));
    expect(play.ring).toEqual(['Ada', 'Cy']);
  });

  test('stays in its run if it is the only rank', () => {
    expect(open(1).do(pulse('Ada', HANGS)).state.phase).toBe('RUNNING');
  });

  test('returns when its suspension is over and it is ready', () => {
    const play = open(3).do(pulse('Bo', HANGS)).train();
    play.do(pulse('Bo'), ready('Bo'), { type: 'suspension-end', id: 1 }, { type: 'grow' });
    expect(play.ring).toContain('Bo');
  });
});

test('a member learns the pulses of those peers that are connected', () => {
  const play = open(3).do(pulse('Bo', WORKS), { type: 'away', member: 'Cy' });
  play.do({ type: 'ask-pulses', member: 'Ada', peers: ['Bo', 'Cy', 'Di'] });
  expect(play.received('Ada', 'pulses').pulses).toEqual([{ member: 'Bo', pulse: WORKS }]);
});

test('a member also learns the pulses of ranks for which its peers wait', () => {
  const play = open(3).do(pulse('Bo', { awaits: ['Cy'] }), pulse('Cy', WORKS));
  play.do({ type: 'ask-pulses', member: 'Ada', peers: ['Bo'] });
  expect(play.received('Ada', 'pulses').pulses.map(({ member }) => member)).toEqual(['Bo', 'Cy']);
});
