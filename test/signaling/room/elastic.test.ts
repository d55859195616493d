import { describe, expect, test } from 'vitest';
import {
  ABANDONED_MS,
  AWAY_MS,
  COOLING_MS,
  LINKING_MS,
  MAX_RETRIES,
  restore,
  RESTORE_MS,
  SYNCING_MS,
  type RoomEvent,
  type RoomOptions,
} from '../../../signaling/room/index.ts';
import { enteringMs } from '../../../signaling/room/timers.ts';
import { breaksOf, MAX_OUTAGES } from '../../../signaling/room/faults.ts';
import type { Fault } from '../../../signaling/room/records.ts';
import { MAX_REMOVED, withRemoved } from '../../../signaling/room/state.ts';
import { settingsOf, type ReconnectState } from '../../../src/protocol/room.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { join, Play, ready } from './play.ts';

/** A room whose ranks come and go. */
const OPEN = { nodes: { min: 1, max: 4 } } satisfies Partial<RoomOptions>;
const grow: RoomEvent = { type: 'grow' };
const left = (member: string): RoomEvent => ({ type: 'left', member, reason: 'left' });
const away = (member: string): RoomEvent => ({ type: 'away', member });
const missed = (member: string): RoomEvent => ({ type: 'missed', member });

/** What it says of itself when it comes back. */
const back = (play: Play, member: string, reconnectState: Partial<ReconnectState> = {}): RoomEvent => {
  const { run, generation } = play.state;
  const settings = settingsOf(play.state);
  return {
    ...{ type: 'reconnect', member, name: member, holdsKey: false },
    reconnectState: { settings, run, isRunOn: run > 0, generation, active: null, ...reconnectState },
  };
};

const open = (n: number, options: Partial<RoomOptions> = {}): Play => Play.running(n, { ...OPEN, ...options });

const breakLink = (play: Play, member: string, peer: string): Play =>
  play.do({ type: 'broken', member, generation: play.state.generation, peers: [peer] }).gather();

/** Three that train, until the link between two of them breaks twice, and Bo is suspended. */
const withoutBo = (options: Partial<RoomOptions> = {}): Play =>
  breakLink(breakLink(open(3, options), 'Ada', 'Bo'), 'Bo', 'Ada');

const deadline = (phase: 'LINKING' | 'SYNCING', generation = 1): RoomEvent => ({ type: 'deadline', generation, phase });

const fail = (scope: 'rank' | 'generation' | 'run', generation = 1): RoomEvent => ({
  ...{ type: 'failed', member: 'Bo', generation, message: 'The GPU was lost.', scope },
});

/**
 * The members of `before`, back in a new server's room, one by one with what each of them knows.
 */
function restored(before: Play, ...returns: RoomEvent[]): Play {
  const play = new Play();
  play.state = restore(settingsOf(before.state), { capacity: 4 }, 1000);
  return play.do(...returns);
}
const active = (play: Play, isSteady = true): ReconnectState['active'] => {
  return { generation: play.state.generation, ring: [...play.state.ring], isSteady };
};
const steady = (play: Play, member: string): RoomEvent => back(play, member, { active: active(play) });

describe('when a rank goes', () => {
  test.each([
    ['LINKING', (play: Play) => play],
    ['SYNCING', (play: Play) => play.linkAll()],
    ['RUNNING', (play: Play) => play.train()],
  ] as const)('while %s, the others go on in another generation, in their order', (phase, reach) => {
    const play = reach(new Play(OPEN).enter(3).start());
    expect(play.state.phase).toBe(phase);
    play.do(left('Bo'));
    expect(play.said('Ada', 'prepare')).toMatchObject({ generation: 2, run: 1, relayed: [] });
    expect(play.ring).toEqual(['Ada', 'Cy']);
    expect(play.timer('deadline')).toMatchObject({ ms: LINKING_MS, event: { generation: 2, phase: 'LINKING' } });
    play.train();
    expect(play.said('Cy', 'go').generation).toBe(2);
  });

  test('that has finished, the others finish, be they fewer than a run needs', () => {
    const play = Play.running(2, { nodes: { min: 2, max: 2 } });
    play.do({ type: 'finished', member: 'Ada', generation: 1, step: 4, stateHash: 'x' }, left('Ada'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do({ type: 'finished', member: 'Bo', generation: 1, step: 4, stateHash: 'x' });
    expect(play.said('Bo', 'ended').outcome).toBe('finished');
    // And where its last words were missed, they try without it.
    const stuck = open(3).do({ type: 'finished', member: 'Ada', generation: 1, step: 4, stateHash: 'x' }, left('Ada'));
    stuck.do({ type: 'broken', member: 'Bo', generation: 1, peers: ['Ada'] });
    expect(stuck.ring).toEqual(['Bo', 'Cy']);
    const stuckToo = open(3).do(
      { type: 'finished', member: 'Ada', generation: 1, step: 4, stateHash: 'x' },
      away('Ada'),
    );
    stuckToo.do({ type: 'broken', member: 'Bo', generation: 1, peers: ['Ada'] });
    expect(stuckToo.ring).toEqual(['Bo', 'Cy']);
  });

  test('what the others still say of the old generation counts for nothing', () => {
    const play = open(3).do(left('Bo'));
    const { state } = play;
    play.do({ type: 'broken', member: 'Ada', generation: 1, peers: ['Cy'] });
    play.do({ type: 'failed', member: 'Ada', generation: 1, message: 'Timed out.', scope: 'generation' });
    play.do({ type: 'linked', member: 'Ada', generation: 1 }, { type: 'deadline', generation: 1, phase: 'LINKING' });
    expect([play.state, play.effects]).toEqual([state, []]);
  });

  test('the last of them ends the run by leaving, and waits for a while by vanishing', () => {
    const play = open(1).do(left('Ada'));
    expect(play.state).toMatchObject({ phase: 'FORMING', members: [] });
    play.enter(1).start().train().do(away('Ada'), missed('Ada'));
    expect(play.state).toMatchObject({ phase: 'PAUSED', run: 2, members: [] });
    expect(play.effects).toContainEqual({ type: 'empty' });
    expect(play.timer('abandoned').ms).toBe(ABANDONED_MS);
  });
});

describe('newcomers', () => {
  test('wait until the last generation has trained for a moment, and come in together', () => {
    const play = open(1);
    expect(play.timer('grow').ms).toBe(COOLING_MS);
    play.enter(3);
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do(grow);
    expect(play.state).toMatchObject({ phase: 'LINKING', generation: 2, run: 1 });
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('come in at once where the last generation has long been training', () => {
    const play = open(1).do(grow).enter(2);
    expect(play.said('Bo', 'prepare').generation).toBe(2);
  });

  test('who come while a generation begins wait for the next', () => {
    const play = open(1).do(grow).enter(2).do(join('Cy'), ready('Cy'));
    expect(play.sentTo('Cy').map((m) => m.type)).toEqual(['room']);
    play.train().do(grow);
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('beyond the most ranks there may be wait for somebody to leave', () => {
    const play = open(2, { nodes: { min: 1, max: 2 } })
      .do(grow)
      .enter(3);
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do(left('Ada'));
    expect(play.ring).toEqual(['Bo', 'Cy']);
  });

  test('are not taken beyond the most when the run starts either', () => {
    const play = new Play({ nodes: { min: 1, max: 2 } }).enter(3).start();
    expect(play.ring).toEqual(['Ada', 'Bo']);
    expect(new Play({ nodes: { min: 1, max: 2 }, startAt: 3 }).enter(3).ring).toEqual(['Ada', 'Bo']);
  });

  test('who ask for a rank that they cannot have come in without it, and the next run is as large as the room', () => {
    const play = open(1, { capacity: 4 }).do(
      join('Bo', { rank: 1 }),
      join('Cy', { rank: 1 }),
      join('Di', { rank: 40 }),
    );
    expect(play.state.members.map((m) => m.rank)).toEqual([null, 1, null, null]);
    play.do(ready('Bo'), ready('Cy'), ready('Di'), { type: 'stop', member: 'Ada' });
    play.do({ type: 'configure', member: 'Ada', job: { ...DEFAULT_JOB, strategy: 'local-sgd' } }).start();
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy', 'Di']);
  });

  test('who are not ready, or have lost their connection, are not waited for', () => {
    const play = open(1).do(join('Bo'), join('Cy'), ready('Cy'), away('Cy'), grow);
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
  });
});

describe('a run with too few ranks', () => {
  const NEEDS_TWO = { nodes: { min: 2, max: 3 } };

  test('does not start by itself, whatever it was to start at', () => {
    const play = new Play({ ...NEEDS_TWO, startAt: 1 }).enter(1);
    expect(play.said('Ada', 'room')).toMatchObject({ phase: 'FORMING', waitingFor: 1 });
    play.enter(2);
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test('does not start', () => {
    const play = new Play(NEEDS_TWO).enter(1).start();
    expect(play.said('Ada', 'refused')).toMatchObject({
      code: 'not-now',
      message: 'This room needs 2 members, and only 1 member is ready. Wait for more.',
    });
  });

  test('pauses, and goes on when enough are there', () => {
    const play = Play.running(2, NEEDS_TWO).do(left('Bo'));
    expect(play.said('Ada', 'pause')).toEqual({ type: 'pause', run: 1, generation: 1, waitingFor: 1 });
    expect(play.said('Ada', 'room')).toMatchObject({ phase: 'PAUSED', waitingFor: 1 });
    const late = open(2).do(away('Bo'), missed('Bo'), back(open(2), 'Bo'), left('Ada'));
    expect(late.said('Bo', 'pause')).toMatchObject({ generation: 2 });
    expect(play.effects).toContainEqual({ type: 'clearTimer', key: 'abandoned' });
    expect(play.effects.some((effect) => effect.type === 'setTimer')).toBe(false);
    play.do(join('Cy'));
    expect(play.state.phase).toBe('PAUSED');
    play.do(ready('Cy'));
    expect(play.said('Ada', 'prepare')).toMatchObject({ generation: 2, run: 1 });
    expect(play.ring).toEqual(['Ada', 'Cy']);
  });

  test('is over a while after the last who had its state has gone', () => {
    const play = Play.running(2, NEEDS_TWO).do(left('Bo'), join('Cy'), left('Ada'));
    expect(play.timer('abandoned').ms).toBe(ABANDONED_MS);
    // However many come meanwhile.
    play.do(ready('Cy'), join('Di'), ready('Di'));
    expect(play.state.phase).toBe('PAUSED');
    expect(play.effects.filter((effect) => 'key' in effect && effect.key === 'abandoned')).toEqual([]);
    play.do({ type: 'abandoned' });
    expect(play.said('Cy', 'ended')).toMatchObject({ run: 1, outcome: 'failed' });
    expect(play.said('Cy', 'ended').message).toMatch(/^All members with the state of this run have left/);
    expect(play.state.phase).toBe('FORMING');
  });

  test('waits for who has its latest state, not for one that others have trained beyond', () => {
    const play = open(2)
      .do({ type: 'failed', member: 'Bo', generation: 1, message: 'No memory.', scope: 'rank' })
      .train();
    expect(play.ring).toEqual(['Ada']);
    play.do(ready('Bo', 1), away('Ada'), missed('Ada'));
    expect(play.said('Bo', 'room').phase).toBe('PAUSED');
    play.do(back(play, 'Ada'), ready('Ada', 1));
    expect([...play.ring].sort()).toEqual(['Ada', 'Bo']);
  });

  test('that has not trained yet has no state to lose', () => {
    const play = new Play(OPEN).enter(1).start().do(join('Bo'), ready('Bo'), left('Ada'));
    expect(play.ring).toEqual(['Bo']);
  });
});

describe('a link that breaks', () => {
  test('once is made anew, in the same order', () => {
    const play = breakLink(open(4), 'Ada', 'Bo');
    expect(play.said('Cy', 'prepare')).toMatchObject({ generation: 2, relayed: [] });
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy', 'Di']);
    expect(play.effects.some((effect) => effect.type === 'expel')).toBe(false);
  });

  test('and is reported by both ends has broken once', () => {
    const play = open(4).do(
      { type: 'broken', member: 'Ada', generation: 1, peers: ['Bo'] },
      { type: 'broken', member: 'Bo', generation: 1, peers: ['Ada'] },
    );
    play.gather();
    expect(play.state.generation).toBe(2);
    expect([...breaksOf(play.state.faults).values()]).toEqual([1]);
  });

  test('twice is avoided by another order, of four or more', () => {
    const play = breakLink(breakLink(open(4), 'Ada', 'Bo'), 'Bo', 'Ada');
    expect(play.state.members).toHaveLength(4);
    expect(Math.abs(play.ring.indexOf('Ada') - play.ring.indexOf('Bo'))).toBe(2);
  });

  test('twice costs one of three its place for a while, though others wait for one', () => {
    const play = open(3, { nodes: { min: 1, max: 3 }, capacity: 5 }).enter(5);
    breakLink(breakLink(play, 'Ada', 'Bo'), 'Bo', 'Ada');
    expect(play.ring).toEqual(['Ada', 'Cy', 'Di']);
    expect(play.state.members.map((m) => m.member)).toEqual(['Ada', 'Bo', 'Cy', 'Di', 'Ed']);
  });

  test('twice goes over a relay, of three', () => {
    const play = breakLink(breakLink(open(3, { hasRelay: true }), 'Ada', 'Bo'), 'Bo', 'Ada');
    expect(play.said('Cy', 'prepare')).toMatchObject({ generation: 3, relayed: [['Ada', 'Bo']] });
  });

  test('twice costs one of three its place for a while, where there is no relay', () => {
    const play = breakLink(breakLink(open(3), 'Ada', 'Bo'), 'Bo', 'Ada');
    expect(play.said('Bo', 'suspended').message).toMatch(/^Links between this tab and other ranks failed/);
    expect(play.ring).toEqual(['Ada', 'Cy']);
    play.train().do(ready('Bo'), { type: 'suspension-end', id: 1 }, grow);
    expect(play.ring).toEqual(['Ada', 'Cy', 'Bo']);
  });

  test('costs that one its place which has two of them', () => {
    let play = open(4);
    for (const peer of ['Ada', 'Cy']) play = breakLink(breakLink(play, 'Bo', peer), 'Bo', peer);
    expect(play.said('Bo', 'suspended')).toMatchObject({ generation: 4 });
    expect([...play.ring].sort()).toEqual(['Ada', 'Cy', 'Di']);
  });

  test('is forgiven after a while without another', () => {
    const play = breakLink(open(3), 'Ada', 'Bo');
    expect(play.timer('age-faults').event).toEqual({ type: 'age-faults' });
    play.train().do({ type: 'age-faults' }, { type: 'age-faults' });
    expect(breakLink(play, 'Bo', 'Ada').ring).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('to a rank whose connection is gone as well shows that this one is gone', () => {
    const play = breakLink(open(3).do(away('Bo')), 'Ada', 'Bo');
    expect(breaksOf(play.state.faults).size).toBe(0);
    expect(play.ring).toEqual(['Ada', 'Cy']);
  });

  test('is none of the business of who is no rank', () => {
    const play = open(2).do(join('Cy'), away('Bo'));
    expect(breakLink(play, 'Cy', 'Bo').effects).toEqual([]);
    expect(breakLink(play, 'Ada', 'Cy').effects).toEqual([]);
    expect(breakLink(play, 'Ada', 'Ada').effects).toEqual([]);
  });
});

describe('a suspended tab', () => {
  test('that has the state continues the run where nobody else is left that has it', () => {
    const play = withoutBo().do(ready('Bo', 1), left('Ada'), left('Cy'));
    expect([play.state.phase, play.ring]).toEqual(['LINKING', ['Bo']]);
  });

  test('that has the state continues the run once it is ready', () => {
    const play = withoutBo().do(left('Ada'), left('Cy'));
    expect(play.state.phase).toBe('PAUSED');
    expect(play.do(ready('Bo', 1)).ring).toEqual(['Bo']);
  });

  test('that trained an older state waits for those with the latest', () => {
    const play = withoutBo().train().do(ready('Bo', 1), away('Ada'), away('Cy'), missed('Ada'), missed('Cy'));
    expect(play.state.phase).toBe('PAUSED');
    expect(play.ring).toEqual([]);
  });

  test.each([
    ['no longer than before where too few others are left', 3, 1],
    ['twice as long as before where enough others are left', 2, 4],
  ])('that is suspended again is so %s', (_, min, factor) => {
    const play = open(3, { nodes: { min, max: 4 } });
    const lengths: number[] = [];
    for (let i = 0; i < 3; i++) {
      const { generation } = play.state;
      play.do({ type: 'late', member: 'Ada', generation, peers: ['Cy'] });
      play.do({ type: 'late', member: 'Bo', generation, peers: ['Cy'] });
      lengths.push(play.timer('suspended 1').ms);
      play.do(ready('Cy', 1), { type: 'suspension-end', id: 1 });
      if (play.state.phase === 'RUNNING') play.do(grow);
      play.train().do(grow).train();
    }
    expect(lengths[2]).toBe(factor * lengths[0]!);
  });
});

describe('a start beside a suspended tab', () => {
  const pardon: RoomEvent = { type: 'suspension-end', id: 1 };
  const stop: RoomEvent = { type: 'stop', member: 'Ada' };

  test('leaves it out where enough others are ready', () => {
    const play = withoutBo().do(stop, ready('Bo')).start();
    expect(play.ring).toEqual(['Ada', 'Cy']);
  });

  test('is its own where nobody else is left', () => {
    const play = withoutBo().do(stop, ready('Bo'), left('Ada'), left('Cy'), { type: 'start', member: 'Bo' });
    expect(play.ring).toEqual(['Bo']);
    expect(play.train().state.phase).toBe('RUNNING');
  });

  test('counts it where too few others are ready', () => {
    const play = withoutBo({ nodes: { min: 3, max: 3 } }).do(stop, ready('Bo'));
    expect(play.start().ring).toEqual(['Ada', 'Cy', 'Bo']);
  });

  test('comes by itself once as many as it takes are ready with it', () => {
    const play = withoutBo({ startAt: 3 }).do(left('Ada'), left('Bo'), left('Cy'));
    play.enter(2);
    expect(play.said('Ada', 'room')).toMatchObject({ phase: 'FORMING', waitingFor: 1 });
    expect(play.enter(3).ring).toEqual(['Ada', 'Cy', 'Bo']);
  });

  test('that is refused says which tab is suspended, and for how long', () => {
    const play = withoutBo({ nodes: { min: 3, max: 3 } })
      .do(stop)
      .start();
    expect(play.said('Ada', 'refused').message).toBe(
      'This room needs 3 members, and 2 members are ready. Wait for more. Bo is suspended and will be tried again within 30 s.',
    );
  });

  test('is no world of another size than a member counts on', () => {
    for (const isOver of [false, true]) {
      const play = new Play(OPEN).do(join('Ada'), join('Bo'), join('Cy', { worldSize: 3 }));
      for (const member of ['Ada', 'Bo', 'Cy']) play.do(ready(member));
      breakLink(breakLink(play.start().train(), 'Ada', 'Bo'), 'Bo', 'Ada');
      if (isOver) play.do(pardon);
      expect(play.do(stop, ready('Bo')).start().ring.toSorted()).toEqual(['Ada', 'Bo', 'Cy']);
    }
  });
});

test('ranks that one browser reports as late, each time with another tab, keep their place', () => {
  for (const browsers of [
    ['one', 'one'],
    ['one', 'another'],
  ]) {
    const play = Play.running(3, { nodes: { min: 1, max: 8 }, capacity: 8 });
    for (const [i, browser] of browsers.entries()) {
      const tab = `tab ${i}`;
      play.do(grow, join(tab, { browser }), ready(tab)).train();
      const { generation } = play.state;
      play.do({ type: 'late', member: tab, generation, peers: ['Ada'] }).gather();
      if (play.state.phase === 'LINKING') play.train();
      play.do(left(tab)).train();
    }
    expect(play.ring.includes('Ada')).toBe(browsers[0] === browsers[1]);
  }
});

describe('a missed deadline', () => {
  test('of linking breaks the links between those who miss one', () => {
    const play = new Play(OPEN).enter(4).start();
    // Nobody reaches Bo.
    play.do({ type: 'linked', member: 'Di', generation: 1 }, deadline('LINKING'));
    expect([...breaksOf(play.state.faults)]).toEqual([
      ['Ada Bo', 1],
      ['Bo Cy', 1],
    ]);
    // Beside others it shows whether they were to blame.
    expect(play.ring).toEqual(['Bo', 'Ada', 'Cy', 'Di']);
    play.do({ type: 'linked', member: 'Cy', generation: 2 }, deadline('LINKING', 2));
    expect([...play.ring].sort()).toEqual(['Ada', 'Cy', 'Di']);
  });

  test('of linking puts out who alone has said nothing', () => {
    const play = new Play(OPEN).enter(3).start();
    for (const member of ['Ada', 'Cy']) play.do({ type: 'linked', member, generation: 1 });
    play.do(deadline('LINKING'));
    expect(play.ring).toEqual(['Ada', 'Cy']);
    expect(play.said('Bo', 'room').members[1]).toMatchObject({ member: 'Bo', device: null });
    // Ready again it is let in again.
    play.train().do(ready('Bo'), grow);
    expect(play.ring).toEqual(['Ada', 'Cy', 'Bo']);
  });

  test('of comparing puts out who alone has said nothing', () => {
    const play = new Play(OPEN).enter(2).start().linkAll();
    expect(play.timer('deadline').ms).toBe(SYNCING_MS);
    play.do({ type: 'synced', member: 'Bo', generation: 1, step: 0, stateHash: 'x' }, deadline('SYNCING'));
    expect(play.ring).toEqual(['Bo']);
  });

  test('begins anew with the word of a rank of this generation that it gets on', () => {
    const play = new Play(OPEN).enter(2).start().linkAll();
    play.do({ type: 'syncing', member: 'Bo', generation: 1 });
    expect(play.timer('deadline')).toMatchObject({ ms: SYNCING_MS, event: { generation: 1, phase: 'SYNCING' } });
    play.do({ type: 'syncing', member: 'Bo', generation: 0 });
    expect(play.effects).toEqual([]);
    play.report('synced', ['x']).do({ type: 'syncing', member: 'Bo', generation: 1 });
    expect(play.effects).toEqual([]);
  });

  test('by all, again and again, ends the run', () => {
    const play = new Play(OPEN).enter(2).start();
    for (let generation = 1; generation <= MAX_RETRIES; generation++) {
      play.linkAll().do(deadline('SYNCING', generation));
      expect(play.state).toMatchObject({ phase: 'LINKING', generation: generation + 1 });
    }
    play.linkAll().do(deadline('SYNCING', MAX_RETRIES + 1));
    expect(play.said('Ada', 'ended').message).toMatch(
      /^The run ended after 5 attempts to continue: Rank 0 \(Ada\) and rank 1 \(Bo\) did not report a state within 120 s/,
    );
  });
});

describe('a failure', () => {
  test('of a rank takes it out until it is ready again', () => {
    const play = open(3).do(fail('rank'));
    expect(play.ring).toEqual(['Ada', 'Cy']);
    play.train().do(grow);
    expect(play.state.generation).toBe(2);
    play.do(ready('Bo'));
    expect(play.ring).toEqual(['Ada', 'Cy', 'Bo']);
  });

  test('of a rank takes it out also where another generation has begun meanwhile', () => {
    const play = open(3).do({ type: 'left', member: 'Cy', reason: 'left' }).do(fail('rank'));
    expect(play.state).toMatchObject({ phase: 'LINKING', generation: 3 });
    expect(play.ring).toEqual(['Ada']);
    play.train().do(grow, ready('Bo')).train();
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test('of a generation is followed by another with the same ranks', () => {
    const play = open(3).do(fail('generation')).gather();
    expect(play.state).toMatchObject({ phase: 'LINKING', generation: 2, retries: 1 });
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy']);
    expect(play.train().state.retries).toBe(0);
  });

  test.each([
    ['without a step in between, ends the run', 0, 'FORMING'],
    ['with a step in between, does not end the run', 1, 'LINKING'],
  ])('of two ranks to wait for each other, six times %s', (_, stepsInBetween, phase) => {
    const play = open(2);
    for (let outage = 0; outage <= MAX_OUTAGES; outage++) {
      expect(play.state.phase).toBe('RUNNING');
      const [member, peer] = outage % 2 === 0 ? ['Ada', 'Bo'] : ['Bo', 'Ada'];
      play.do({ type: 'late', member, generation: play.state.generation, peers: [peer] }).gather();
      if (outage < MAX_OUTAGES) play.train((outage + 1) * stepsInBetween);
    }
    expect(play.state.phase).toBe(phase);
    if (stepsInBetween > 0) return;
    expect(play.said('Bo', 'ended').message).toMatch(/^The run ended after 6 failures in a row/);
  });

  test('of a run ends it for all', () => {
    const play = open(3).do(fail('run'));
    expect(play.said('Cy', 'ended')).toMatchObject({ outcome: 'failed' });
    expect(play.said('Cy', 'ended').message).toMatch(/could not go on, so the run ended: The GPU was lost\.$/);
  });

  test('to agree on a state is followed by another attempt, and at the end of the run ends it', () => {
    const play = new Play(OPEN).enter(2).start().linkAll().report('synced', ['x', 'y']);
    expect(play.state).toMatchObject({ phase: 'LINKING', generation: 2, retries: 1 });
    play.train().report('finished', ['x', 'y'], 9);
    expect(play.said('Ada', 'ended').outcome).toBe('failed');
  });
});

describe('hosts', () => {
  test('are those who hold the key, and without them the oldest that is there', () => {
    const play = new Play().enter(2);
    expect(play.said('Ada', 'room').hosts).toEqual(['Ada']);
    play.do(join('Cy', { holdsKey: true }), join('Di', { holdsKey: true }));
    expect(play.said('Ada', 'room').hosts).toEqual(['Cy', 'Di']);
    play.do(left('Di'), away('Cy'));
    expect(play.said('Ada', 'room').hosts).toEqual(['Ada']);
    play.do(away('Ada'));
    expect(play.said('Bo', 'room').hosts).toEqual(['Bo']);
  });

  test('stop a run for all, also one that is paused', () => {
    const play = open(2).do({ type: 'stop', member: 'Bo' });
    expect(play.said('Bo', 'refused').code).toBe('not-host');
    play.do({ type: 'stop', member: 'Ada' });
    expect(play.said('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'stopped' });
    play.do({ type: 'stop', member: 'Ada' });
    expect(play.effects).toEqual([]);
    const paused = Play.running(2, { nodes: { min: 2, max: 2 } }).do(left('Bo'), { type: 'stop', member: 'Ada' });
    expect(paused.said('Ada', 'ended').outcome).toBe('stopped');
  });

  test('hold a run, and let it go on with whoever is there', () => {
    const play = open(2).do({ type: 'pause', member: 'Bo' });
    expect(play.said('Bo', 'refused')).toMatchObject({ code: 'not-host', message: 'Only the host may pause the run.' });
    play.do({ type: 'pause', member: 'Ada' });
    expect(play.said('Bo', 'pause')).toEqual({ type: 'pause', run: 1, generation: 1, waitingFor: 0 });
    expect(play.said('Bo', 'room')).toMatchObject({ phase: 'PAUSED', isPausedByHost: true, waitingFor: 0 });
    play.do({ type: 'pause', member: 'Ada' });
    expect(play.effects).toEqual([]);
    play.enter(3).do(left('Bo'));
    expect(play.state).toMatchObject({ phase: 'PAUSED', generation: 1, isPausedByHost: true });
    play.do({ type: 'resume', member: 'Ada' });
    expect(play.said('Cy', 'prepare')).toMatchObject({ run: 1, generation: 2 });
    expect(play.ring).toEqual(['Ada', 'Cy']);
    play.train().do({ type: 'resume', member: 'Ada' });
    expect([play.effects, play.state.isPausedByHost]).toEqual([[], false]);
  });

  test('hold a run that has too few as well: it goes on once there are enough and they let it', () => {
    const play = Play.running(2, { nodes: { min: 2, max: 2 } }).do(left('Bo'));
    expect(play.said('Ada', 'pause').waitingFor).toBe(1);
    play.do({ type: 'pause', member: 'Ada' }).enter(2);
    expect(play.state).toMatchObject({ phase: 'PAUSED', generation: 1 });
    play.do(left('Bo'), { type: 'resume', member: 'Ada' });
    // Else it would take the host to be what it waits for.
    expect(play.said('Ada', 'pause').waitingFor).toBe(1);
    expect(play.enter(2).state).toMatchObject({ phase: 'LINKING', generation: 2 });
  });

  test('hold a run before its first step, and it is not given up', () => {
    const play = new Play(OPEN).enter(2).start().do({ type: 'pause', member: 'Ada' });
    expect(play.effects.filter(({ type }) => type === 'setTimer')).toEqual([]);
    expect(play.do({ type: 'resume', member: 'Ada' }).ring).toEqual(['Ada', 'Bo']);
    // Unless nobody is left to let it go on.
    play.do({ type: 'pause', member: 'Ada' }, left('Bo'), left('Ada'));
    expect(play.state).toMatchObject({ phase: 'FORMING', isPausedByHost: false });
  });

  test('do not hold a fixed world, nor what a restarted server has not heard of yet', () => {
    const fixed = Play.running(2).do({ type: 'pause', member: 'Ada' });
    expect(fixed.said('Ada', 'refused')).toMatchObject({
      code: 'not-now',
      message: expect.stringMatching(/^A run with a fixed world/),
    });
    const before = open(2);
    const play = restored(before, steady(before, 'Ada')).do({ type: 'pause', member: 'Ada' });
    expect(play.said('Ada', 'refused').message).toMatch(/^The server has just restarted/);
    play.do(steady(before, 'Bo'), { type: 'pause', member: 'Ada' });
    expect(play.state).toMatchObject({ phase: 'PAUSED', isPausedByHost: true });
  });

  test('send members out, and nobody else does', () => {
    const play = open(3).do({ type: 'remove', member: 'Bo', whom: 'Ada' });
    expect(play.said('Bo', 'refused').code).toBe('not-host');
    play.do({ type: 'remove', member: 'Ada', whom: 'Bo' });
    expect(play.effects[0]).toMatchObject({ type: 'expel', member: 'Bo', code: 'removed' });
    expect(play.ring).toEqual(['Ada', 'Cy']);
    play.do({ type: 'remove', member: 'Ada', whom: 'Ada' }, { type: 'remove', member: 'Ada', whom: 'nobody' });
    expect(play.state.members).toHaveLength(2);
  });

  test('leave no locked room behind that nobody could ever open', () => {
    const play = open(1).do({ type: 'lock', member: 'Ada', isLocked: true }, left('Ada'), join('Bo'));
    expect(play.state).toMatchObject({ isLocked: false, members: [{ member: 'Bo' }] });
  });

  test('lock the room against newcomers who have no key', () => {
    const play = open(1).do({ type: 'lock', member: 'Ada', isLocked: true });
    expect(play.said('Ada', 'room').isLocked).toBe(true);
    play.do(join('Bo'));
    expect(play.said('Bo', 'refused').code).toBe('room-locked');
    play.do(join('Cy', { holdsKey: true }));
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Cy' });
    play.do({ type: 'lock', member: 'Cy', isLocked: false }, join('Bo'));
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Bo' });
  });
});

describe('a lost connection', () => {
  test('changes nothing for a moment', () => {
    const play = open(2).do(away('Bo'));
    expect(play.timer('away Bo')).toMatchObject({ ms: AWAY_MS, event: { type: 'missed', member: 'Bo' } });
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do(missed('Bo'));
    expect(play.ring).toEqual(['Ada']);
    play.do(missed('Bo'));
    expect(play.effects).toEqual([]);
  });

  test('is made up for when it is back: the generation it missed, and how far that is', () => {
    const play = open(3, { hasRelay: true }).do(away('Bo'));
    for (let i = 0; i < 2; i++) breakLink(play, 'Ada', 'Cy');
    const missing = play.said('Bo', 'prepare');
    expect(missing.relayed).toEqual([['Cy', 'Ada']]);
    play.do(back(play, 'Bo', { active: { generation: 1, ring: [...play.state.ring], isSteady: false } }));
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Bo' });
    expect(play.effects).toContainEqual({ type: 'clearTimer', key: 'away Bo' });
    expect(play.said('Bo', 'prepare')).toEqual(missing);
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['prepare', 'room']);
    play.linkAll().do(away('Bo'), back(play, 'Bo'));
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['prepare', 'sync', 'room']);
    play
      .report('synced', ['x'])
      .do(away('Bo'), back(play, 'Bo', { active: { generation: 3, ring: [], isSteady: false } }));
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['go', 'room']);
  });

  test('that the server has not noticed makes no difference', () => {
    const play = open(2).do(back(open(2), 'Bo', { active: { generation: 1, ring: [], isSteady: true } }));
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['go', 'room']);
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
  });

  test('keeps a member from being counted until it is back', () => {
    const play = new Play({ startAt: 2 }).enter(1).do(away('Ada'), join('Bo'), ready('Bo'));
    expect(play.said('Bo', 'room')).toMatchObject({ phase: 'FORMING', waitingFor: 1 });
    play.do(back(play, 'Ada'));
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test('of a newcomer delays its coming in until it is back', () => {
    const play = open(1).do(join('Bo'), ready('Bo'), away('Bo'), grow, back(new Play(OPEN), 'Bo'));
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test('costs nobody a place in a paused run who is back in time: it may be a step ahead', () => {
    const play = Play.running(2, { nodes: { min: 2, max: 2 } }).do(away('Bo'));
    play.do({ type: 'failed', member: 'Ada', generation: 1, message: 'No memory.', scope: 'rank' });
    expect(play.state.phase).toBe('PAUSED');
    play.do(ready('Ada', 1), join('Cy'), ready('Cy'));
    expect(play.ring).toEqual(['Ada', 'Bo']);
    play.do(missed('Bo'));
    expect(play.ring).toEqual(['Ada', 'Cy']);
  });

  test('of a newcomer that is needed pauses the run until it is back', () => {
    const play = Play.running(2, { nodes: { min: 2, max: 2 } }).do(left('Bo'), join('Cy'), away('Cy'));
    play.do(join('Di'), away('Di'), back(play, 'Di'));
    expect(play.state.phase).toBe('PAUSED');
    play.do(ready('Di'));
    expect(play.ring).toEqual(['Ada', 'Di']);
  });

  test('of the last who has the state does not end a run that it comes back to', () => {
    const play = open(2, { nodes: { min: 2, max: 2 } }).do(left('Bo'), join('Cy'), ready('Cy'));
    play.do(away('Ada'), missed('Ada'));
    expect(play.timer('abandoned')).toBeDefined();
    play.do(back(play, 'Ada'), ready('Ada'));
    expect(play.state.phase).toBe('PAUSED');
    // It says the same device, and that it has the state.
    play.do(ready('Ada', 1));
    expect([...play.ring].sort()).toEqual(['Ada', 'Cy']);
  });
});

describe('after a restart of the server', () => {
  test('who trains goes on, and nobody is disturbed', () => {
    const before = open(3);
    const play = restored(before, steady(before, 'Cy'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1, run: 1 });
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy']);
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Cy' });
    expect(play.timer('away Ada')).toMatchObject({ ms: RESTORE_MS, event: { type: 'missed', member: 'Ada' } });
    expect(play.effects).toContainEqual({ type: 'clearTimer', key: 'away Cy' });
    play.do(steady(before, 'Ada'), steady(before, 'Bo'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1, isRestoring: false });
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['go', 'room']);
    play.report('finished', ['x'], 9);
    expect(play.said('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'finished' });
  });

  test('who does not return has gone, and the next generation has a number that nobody can have heard of', () => {
    const before = open(3);
    const play = restored(before, steady(before, 'Ada'), steady(before, 'Bo'), missed('Cy'));
    expect(play.ring).toEqual(['Ada', 'Bo']);
    expect(play.state.generation).toBe(1000);
  });

  test('newcomers wait until all are back', () => {
    const before = open(2);
    const play = restored(before, steady(before, 'Ada')).do(join('Cy'), ready('Cy'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do(steady(before, 'Bo'));
    expect([...play.ring].sort()).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('while another generation was being made, that one is made again', () => {
    const before = open(2).enter(3).do(grow);
    expect(before.state).toMatchObject({ phase: 'LINKING', generation: 2 });
    const old = { generation: 1, ring: before.state.ring.slice(0, 2), isSteady: true };
    const play = restored(before, back(before, 'Ada', { active: old }), back(before, 'Cy'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do(ready('Cy'), back(before, 'Bo', { active: old }));
    expect(play.state.phase).toBe('LINKING');
    expect([...play.ring].sort()).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('who is in a later generation knows better', () => {
    const before = open(3);
    const late = open(3).do(left('Cy')).train();
    const play = restored(before, back(before, 'Cy', { active: active(before, false) }), steady(late, 'Bo'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 2 });
    expect(play.ring).toEqual(['Ada', 'Bo']);
    play.do(steady(late, 'Ada'));
    // Cy comes in again.
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('a generation that one of its ranks has left is followed by another, whoever returns first', () => {
    const before = open(2);
    for (const order of [
      [back(before, 'Ada'), steady(before, 'Bo')],
      [steady(before, 'Bo'), back(before, 'Ada')],
    ]) {
      const play = restored(before, ...order, ready('Ada', 1));
      expect(play.state).toMatchObject({ phase: 'LINKING', generation: 1000 });
      expect([...play.ring].sort()).toEqual(['Ada', 'Bo']);
    }
  });

  test('a generation that had failed is followed by another once all are back', () => {
    const before = open(2);
    const stalled = { active: active(before, false) };
    const play = restored(before, back(before, 'Ada', stalled));
    play.do({ type: 'failed', member: 'Ada', generation: 1, message: 'Timed out.', scope: 'generation' });
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do(steady(before, 'Bo'));
    expect(play.state.phase).toBe('LINKING');
    const told = restored(before, steady(before, 'Ada'));
    told.do({ type: 'broken', member: 'Ada', generation: 1, peers: ['Bo'] }, steady(before, 'Bo'));
    expect(told.state.phase).toBe('LINKING');
  });

  test('a paused run goes on once those who had its state have said so', () => {
    const before = Play.running(2, { nodes: { min: 2, max: 3 } }).do(left('Bo'));
    const play = restored(before, back(before, 'Ada'), ready('Ada', 1), join('Cy'), ready('Cy'));
    expect(play.state).toMatchObject({ phase: 'PAUSED', run: 1, isRestoring: true });
    play.do({ type: 'restore-timeout' });
    expect(play.ring).toEqual(['Ada', 'Cy']);
    expect(play.state).toMatchObject({ phase: 'LINKING', run: 1 });
  });

  test('a run that the host held waits for its word, and nobody who missed the pause trains on', () => {
    const before = open(2).do({ type: 'pause', member: 'Ada' });
    const held = restored(before, back(before, 'Ada'), back(before, 'Bo'), ready('Ada', 1), ready('Bo', 1), {
      type: 'restore-timeout',
    });
    expect(held.state).toMatchObject({ phase: 'PAUSED', isPausedByHost: true, run: 1 });
    expect(held.do({ type: 'resume', member: 'Ada' }).ring).toEqual(['Ada', 'Bo']);

    const late = open(2);
    late.enter(3).state = { ...late.state, isPausedByHost: true };
    const play = restored(late, back(late, 'Cy'), steady(late, 'Ada'), steady(late, 'Bo'));
    expect(play.state).toMatchObject({ phase: 'PAUSED', isPausedByHost: true });
    expect(play.said('Ada', 'pause').generation).toBe(1);
  });

  test('a paused run goes on with those who had its state, where not all have a place', () => {
    const before = Play.running(2, { nodes: { min: 1, max: 2 } });
    const bystander = [back(before, 'Di'), ready('Di')];
    const ranks = ['Ada', 'Bo'].flatMap((member) => [back(before, member), ready(member, 1)]);
    expect(restored(before, ...bystander, ...ranks, { type: 'restore-timeout' }).ring).toEqual(['Ada', 'Bo']);
  });

  test('a paused run goes on with those who had its state, also with one that returns when nobody waits for it', () => {
    const before = Play.running(2, { nodes: { min: 2, max: 2 } }).do({ type: 'pause', member: 'Ada' });
    const play = restored(before, back(before, 'Di'), back(before, 'Ada'), { type: 'restore-timeout' });
    play.do(ready('Di'), back(before, 'Bo'), ready('Ada', 1), ready('Bo', 1), { type: 'resume', member: 'Di' });
    expect([...play.ring].sort()).toEqual(['Ada', 'Bo']);
  });

  test('nothing starts beside a run whose ranks have not returned yet', () => {
    const before = new Play({ ...OPEN, startAt: 2 }).enter(2).train();
    const bystander = back(before, 'Cy', { run: 0, isRunOn: false, generation: 0 });
    const play = restored(before, bystander, ready('Cy'), { type: 'start', member: 'Cy' });
    expect(play.said('Cy', 'refused').code).toBe('not-now');
    expect(play.state.phase).toBe('FORMING');
    play.do(steady(before, 'Ada'), steady(before, 'Bo'));
    expect([...play.ring].sort()).toEqual(['Ada', 'Bo', 'Cy']);
    // And where nobody comes, it does.
    const alone = restored(
      before,
      bystander,
      ready('Cy'),
      { type: 'restore-timeout' },
      { type: 'start', member: 'Cy' },
    );
    expect(alone.state.phase).toBe('LINKING');
  });

  test('a run that was over stays over, whoever missed its end', () => {
    const before = open(2).report('finished', ['x'], 9);
    const over = { run: 1, isRunOn: false };
    const missedIt = back(before, 'Ada', {
      active: { generation: 1, ring: open(2).state.ring as never, isSteady: true },
    });
    const first = restored(before, back(before, 'Bo', over), missedIt);
    expect(first.said('Ada', 'ended')).toMatchObject({ run: 1 });
    expect(first.state.phase).toBe('FORMING');
    const second = restored(before, missedIt, back(before, 'Bo', over));
    expect(second.state.phase).toBe('FORMING');
    expect(second.effects.some((e) => e.type === 'send' && e.message.type === 'ended' && e.to.includes('Ada'))).toBe(
      true,
    );
  });

  test('the room is locked as it was, and its host is who has the key', () => {
    const before = open(2).do({ type: 'lock', member: 'Ada', isLocked: true });
    const play = restored(before, steady(before, 'Ada'), { ...steady(before, 'Bo'), holdsKey: true } as RoomEvent);
    expect(play.said('Ada', 'room')).toMatchObject({ isLocked: true, hosts: ['Bo'] });
    play.do(join('Cy'));
    expect(play.said('Cy', 'refused').code).toBe('room-locked');
  });

  test('who was sent out stays out, whoever returns first', () => {
    const before = open(3).do({ type: 'remove', member: 'Ada', whom: 'Cy' }).train();
    const removed = { members: ['Cy'], seal: 'good' };
    const knows = (member: string): RoomEvent =>
      back(before, member, {
        active: active(before),
        settings: { ...settingsOf(before.state), removed },
      });
    const missedIt = open(3);
    for (const order of [
      [steady(missedIt, 'Cy'), knows('Bo'), steady(before, 'Ada')],
      [knows('Bo'), steady(missedIt, 'Cy'), steady(before, 'Ada')],
      [steady(before, 'Ada'), steady(missedIt, 'Cy'), knows('Bo')],
    ]) {
      const play = restored(before);
      const codes: string[] = [];
      for (const event of order) {
        for (const effect of play.do(event).effects) {
          if (effect.type === 'expel') codes.push(effect.code);
          if (effect.type === 'send' && effect.message.type === 'refused') codes.push(effect.message.code);
        }
      }
      expect(codes).toEqual(['removed']);
      expect(play.state.members.map(({ member }) => member).sort()).toEqual(['Ada', 'Bo']);
      expect([...play.state.removed]).toEqual(['Cy']);
      expect([...play.ring].sort()).toEqual(['Ada', 'Bo']);
      play.do(steady(missedIt, 'Cy'));
      expect(play.said('Cy', 'refused').code).toBe('removed');
    }
    // Also where it says so itself.
    const play = restored(before, steady(missedIt, 'Cy'), knows('Cy'));
    expect(play.effects).toContainEqual(expect.objectContaining({ type: 'expel', member: 'Cy', code: 'removed' }));
    expect(play.state.hidden.has('Cy')).toBe(false);
  });

  test('a fixed world that was training goes on, and ends as ever when a rank fails', () => {
    const before = Play.running(2);
    const play = restored(before, steady(before, 'Ada'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do({ type: 'failed', member: 'Ada', generation: 1, message: 'Timed out.', scope: 'generation' });
    expect(play.said('Ada', 'ended').message).toMatch(/Timed out/);
    const gone = restored(before, steady(before, 'Ada'), missed('Bo'));
    expect(gone.said('Ada', 'ended').message).toMatch(/^Rank 1 \(Bo\) lost its connection while training/);
  });

  test('a run that all its ranks have left meanwhile is over for who returns later', () => {
    const before = Play.running(2);
    const play = restored(before, steady(before, 'Ada'), left('Ada'), missed('Bo'));
    expect(play.state).toMatchObject({ phase: 'FORMING', isRestoring: false });
    play.do(steady(before, 'Bo'));
    expect(play.said('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'failed' });
  });

  test('a fixed world that had not begun to train is over', () => {
    const linking = new Play().enter(2).start();
    const play = restored(linking, back(linking, 'Ada'), back(linking, 'Bo'));
    expect(play.state.phase).toBe('FORMING');
    play.do({ type: 'restore-timeout' });
    expect(play.said('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'failed' });
    const syncing = new Play().enter(2).start().linkAll();
    const both = ['Ada', 'Bo'].map((member) => back(syncing, member, { active: active(syncing, false) }));
    expect(restored(syncing, ...both).said('Ada', 'ended').outcome).toBe('failed');
  });
});

describe('who comes back late', () => {
  test('is told that the run is over', () => {
    const play = open(2).do(away('Bo'));
    const missedIt = back(play, 'Bo', { active: { generation: 1, ring: [], isSteady: true } });
    play.report('finished', ['x'], 9).do(missedIt);
    expect(play.said('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'finished' });
    const left2 = open(2).do(away('Bo'), missed('Bo'), { type: 'stop', member: 'Ada' }, missedIt);
    expect(left2.said('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'stopped' });
    left2.do({ type: 'start', member: 'Ada' }, away('Bo'), missedIt);
    expect(left2.said('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'stopped' });
  });

  test('is told that its run is over before it hears of the next', () => {
    const play = Play.running(2).do(away('Bo'), missed('Bo'), { type: 'start', member: 'Ada' });
    play.do(back(play, 'Bo', { run: 1, active: { generation: 1, ring: [], isSteady: true } }));
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['ended', 'room']);
  });

  test('is told that the run is paused', () => {
    const play = Play.running(3, { nodes: { min: 3, max: 3 } }).do(away('Bo'), left('Cy'));
    expect(play.state.phase).toBe('PAUSED');
    play.do(back(play, 'Bo', { active: { generation: 1, ring: [], isSteady: true } }));
    expect(play.said('Bo', 'pause')).toEqual({ type: 'pause', run: 1, generation: 1, waitingFor: 1 });
  });

  test('comes in again like a newcomer, with the state it has', () => {
    const play = open(2)
      .do(away('Bo'), missed('Bo'))
      .train()
      .do(grow, back(open(2), 'Bo'));
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Bo' });
    play.do(ready('Bo', 1));
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test('does not come back as who the host has sent out', () => {
    const play = open(2).do({ type: 'remove', member: 'Ada', whom: 'Bo' }, back(open(2), 'Bo'));
    expect(play.said('Bo', 'refused').code).toBe('removed');
    expect(play.state.members).toHaveLength(1);
  });
});

const late = (by: string, generation: number): Fault => ({
  ...{ kind: 'late', generation, by, about: 'Bo', byBrowser: by, aboutBrowser: 'Bo', isCredible: true, age: 0 },
});

describe('a rank that does not begin to compare states', () => {
  test.each([
    ['nobody', [], 65_000],
    ['one rank, however often', [late('Ada', 1), late('Ada', 2), late('Ada', 3)], 20_000],
    ['one rank each time', [late('Ada', 1), late('Cy', 2)], 20_000],
    ['two ranks, twice', [late('Ada', 1), late('Cy', 1), late('Ada', 2), late('Cy', 2)], 2_000],
  ])('has less time the more was reported of it, by %s', (_, faults, ms) => {
    expect(enteringMs({ ...open(4).state, faults }, 'Bo')).toBe(ms);
  });
});

describe('what a returning member remembers', () => {
  const MAX = 2 ** 32 - 1;

  test('of generations that a room never had counts for nothing', () => {
    const play = new Play(OPEN).enter(2).do(away('Bo'));
    play.do(back(play, 'Bo', { generation: MAX, run: MAX, isRunOn: true })).start();
    expect(play.state).toMatchObject({ run: 1, generation: 1, highestReported: 0 });
    play.train().do(away('Bo'), back(play, 'Bo', { generation: MAX }), { type: 'pause', member: 'Ada' });
    expect(play.said('Ada', 'pause').generation).toBe(1);
    play.do({ type: 'resume', member: 'Ada' });
    expect(play.said('Ada', 'prepare').generation).toBe(2);
  });

  test.each([
    ['run', { run: MAX }],
    ['generation', { generation: MAX }],
    ['present generation', { active: { generation: MAX, ring: [...open(3).state.ring], isSteady: true } }],
  ])('of a %s that cannot have been costs it its place in a room that a restarted server learns about', (_, claim) => {
    const before = open(3);
    const liar = back(before, 'Cy', claim);
    for (const order of [
      [liar, steady(before, 'Ada'), steady(before, 'Bo'), missed('Cy')],
      [steady(before, 'Ada'), steady(before, 'Bo'), liar],
      [steady(before, 'Ada'), liar, steady(before, 'Bo')],
    ]) {
      const play = restored(before);
      let code: string | null = null;
      for (const event of order) {
        for (const effect of play.do(event).effects) if (effect.type === 'expel') code = effect.code;
      }
      expect(code).toBe('not-member');
      expect(play.ring).toEqual(['Ada', 'Bo']);
      expect(play.state).toMatchObject({ isRestoring: false, phase: 'LINKING', run: 1, generation: 1000 });
    }
  });

  test('of a generation that it was no rank of counts for nothing, and fills no room', () => {
    const before = open(4);
    const play = restored(before);
    const ring = [...before.state.ring];
    play.do(
      back(before, 'Di', {
        active: { generation: 4, ring: ring.filter(({ member }) => member !== 'Di'), isSteady: true },
      }),
    );
    expect(play.state.members.map(({ member }) => member)).toEqual(['Di']);
    play.do(steady(before, 'Ada'));
    expect(play.state.hidden.get('Ada')).toMatchObject({ isAway: false });
  });

  test('of members that were sent out is bounded, the latest are kept', () => {
    const names = Array.from({ length: MAX_REMOVED + 2 }, (_, i) => `tab-${i}`);
    const removed = names.reduce<ReadonlySet<string>>(withRemoved, new Set());
    expect([...removed]).toEqual(names.slice(2));
    expect(withRemoved(removed, 'tab-5')).toBe(removed);
  });

  test('is believed where another server, whose clock is ahead, has numbered it', () => {
    const before = open(2);
    before.state = { ...before.state, generation: 4600 };
    const play = restored(before, steady(before, 'Ada'), steady(before, 'Bo'));
    expect(play.state).toMatchObject({ isRestoring: false, phase: 'RUNNING', generation: 4600 });
    play.enter(3);
    expect(play.state).toMatchObject({ phase: 'LINKING', generation: 4601 });
  });
});

describe('a fixed world', () => {
  test('lets nobody in during a run, and ends it when one of its ranks has gone', () => {
    const play = Play.running(3).do(join('Di'));
    expect(play.said('Di', 'refused').code).toBe('room-running');
    play.do(away('Bo'));
    expect(play.state.phase).toBe('RUNNING');
    play.do(missed('Bo'));
    expect(play.said('Ada', 'ended')).toMatchObject({ run: 1, outcome: 'failed' });
    const broken = Play.running(3).do({ type: 'broken', member: 'Ada', generation: 1, peers: ['Bo'] });
    expect(broken.said('Cy', 'ended').message).toMatch(/^Rank 0 \(Ada\) and rank 1 \(Bo\) lost the link/);
  });

  test('is what a job has whose ranks cannot come and go, whatever the room allows', () => {
    const job = { ...DEFAULT_JOB, strategy: 'diloco' as const };
    const play = Play.running(2, { ...OPEN, job }).do(left('Bo'));
    expect(play.said('Ada', 'ended').outcome).toBe('failed');
  });
});
