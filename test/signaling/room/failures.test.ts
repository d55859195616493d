import { describe, expect, test } from 'vitest';
import { MAX_RETRIES, SYNCING_MS, type RoomEvent } from '../../../signaling/room/index.ts';
import { enteringMs } from '../../../signaling/room/timers.ts';
import { breaksOf, MAX_OUTAGES } from '../../../signaling/room/faults.ts';
import type { Fault } from '../../../signaling/room/records.ts';
import { OPEN, grow, away, open, breakLink } from './elasticRoom.ts';
import { join, Play, ready } from './play.ts';

const deadline = (phase: 'LINKING' | 'SYNCING', generation = 1): RoomEvent => ({ type: 'deadline', generation, phase });

const fail = (scope: 'rank' | 'generation' | 'run', generation = 1): RoomEvent => ({
  type: 'failed',
  member: 'Bo',
  generation,
  message: 'The GPU was lost.',
  scope,
});

describe('a link that breaks', () => {
  test('is opened again in the same order after the first break', () => {
    const play = breakLink(open(4), 'Ada', 'Bo');
    expect(play.received('Cy', 'prepare')).toMatchObject({ generation: 2, relayed: [] });
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy', 'Di']);
    expect(play.effects.some((effect) => effect.type === 'expel')).toBe(false);
  });

  test('counts once if both ends report the break', () => {
    const play = open(4).do(
      { type: 'broken', member: 'Ada', generation: 1, peers: ['Bo'] },
      { type: 'broken', member: 'Bo', generation: 1, peers: ['Ada'] },
    );
    play.gather();
    expect(play.state.generation).toBe(2);
    expect([...breaksOf(play.state.faults).values()]).toEqual([1]);
  });

  test('is avoided by another ring order after its second break, with four ranks', () => {
    const play = breakLink(breakLink(open(4), 'Ada', 'Bo'), 'Bo', 'Ada');
    expect(play.state.members).toHaveLength(4);
    expect(Math.abs(play.ring.indexOf('Ada') - play.ring.indexOf('Bo'))).toBe(2);
  });

  test('leads to the suspension of one of three ranks after its second break, even if newcomers wait', () => {
    const play = open(3, { nodes: { min: 1, max: 3 }, capacity: 5 }).enter(5);
    breakLink(breakLink(play, 'Ada', 'Bo'), 'Bo', 'Ada');
    expect(play.ring).toEqual(['Ada', 'Cy', 'Di']);
    expect(play.state.members.map((m) => m.member)).toEqual(['Ada', 'Bo', 'Cy', 'Di', 'Ed']);
  });

  test('is replaced by a relayed link after its second break, with three ranks and a relay', () => {
    const play = breakLink(breakLink(open(3, { hasRelay: true }), 'Ada', 'Bo'), 'Bo', 'Ada');
    expect(play.received('Cy', 'prepare')).toMatchObject({ generation: 3, relayed: [['Ada', 'Bo']] });
  });

  test('leads to a short suspension of one of three ranks after its second break, without a relay', () => {
    const play = breakLink(breakLink(open(3), 'Ada', 'Bo'), 'Bo', 'Ada');
    expect(play.received('Bo', 'suspended').message).toMatch(/^Links between this tab and other ranks failed/);
    expect(play.ring).toEqual(['Ada', 'Cy']);
    play.train().do(ready('Bo'), { type: 'suspension-end', id: 1 }, grow);
    expect(play.ring).toEqual(['Ada', 'Cy', 'Bo']);
  });

  test('leads to the suspension of a rank if the links to both its neighbours have broken twice', () => {
    let play = open(4);
    for (const peer of ['Ada', 'Cy']) play = breakLink(breakLink(play, 'Bo', peer), 'Bo', peer);
    expect(play.received('Bo', 'suspended')).toMatchObject({ generation: 4 });
    expect([...play.ring].sort()).toEqual(['Ada', 'Cy', 'Di']);
  });

  test('is forgotten if it has not broken again for a while', () => {
    const play = breakLink(open(3), 'Ada', 'Bo');
    expect(play.timer('age-faults').event).toEqual({ type: 'age-faults' });
    play.train().do({ type: 'age-faults' }, { type: 'age-faults' });
    expect(breakLink(play, 'Bo', 'Ada').ring).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('does not count if one end has lost the server; this rank then counts as gone', () => {
    const play = breakLink(open(3).do(away('Bo')), 'Ada', 'Bo');
    expect(breaksOf(play.state.faults).size).toBe(0);
    expect(play.ring).toEqual(['Ada', 'Cy']);
  });

  test('is ignored if its two ends are not different ranks', () => {
    const play = open(2).do(join('Cy'), away('Bo'));
    expect(breakLink(play, 'Cy', 'Bo').effects).toEqual([]);
    expect(breakLink(play, 'Ada', 'Cy').effects).toEqual([]);
    expect(breakLink(play, 'Ada', 'Ada').effects).toEqual([]);
  });
});

describe('a missed deadline', () => {
  test('while LINKING counts a link as broken if neither end has reported that it is linked', () => {
    const play = new Play(OPEN).enter(4).start();
    // No rank reaches Bo.
    play.do({ type: 'linked', member: 'Di', generation: 1 }, deadline('LINKING'));
    expect([...breaksOf(play.state.faults)]).toEqual([
      ['Ada Bo', 1],
      ['Bo Cy', 1],
    ]);
    // Bo has other neighbours now. The next failure shows which end of the links was at fault.
    expect(play.ring).toEqual(['Bo', 'Ada', 'Cy', 'Di']);
    play.do({ type: 'linked', member: 'Cy', generation: 2 }, deadline('LINKING', 2));
    expect([...play.ring].sort()).toEqual(['Ada', 'Cy', 'Di']);
  });

  test('while LINKING excludes the only rank that has reported nothing', () => {
    const play = new Play(OPEN).enter(3).start();
    for (const member of ['Ada', 'Cy']) play.do({ type: 'linked', member, generation: 1 });
    play.do(deadline('LINKING'));
    expect(play.ring).toEqual(['Ada', 'Cy']);
    expect(play.received('Bo', 'room').members[1]).toMatchObject({ member: 'Bo', device: null });
    // Bo joins again when it is ready.
    play.train().do(ready('Bo'), grow);
    expect(play.ring).toEqual(['Ada', 'Cy', 'Bo']);
  });

  test('while SYNCING excludes the only rank that has reported nothing', () => {
    const play = new Play(OPEN).enter(2).start().linkAll();
    expect(play.timer('deadline').ms).toBe(SYNCING_MS);
    play.do({ type: 'synced', member: 'Bo', generation: 1, step: 0, stateHash: 'x' }, deadline('SYNCING'));
    expect(play.ring).toEqual(['Bo']);
  });

  test('is postponed when a rank of this generation reports progress', () => {
    const play = new Play(OPEN).enter(2).start().linkAll();
    play.do({ type: 'syncing', member: 'Bo', generation: 1 });
    expect(play.timer('deadline')).toMatchObject({ ms: SYNCING_MS, event: { generation: 1, phase: 'SYNCING' } });
    play.do({ type: 'syncing', member: 'Bo', generation: 0 });
    expect(play.effects).toEqual([]);
    play.report('synced', ['x']).do({ type: 'syncing', member: 'Bo', generation: 1 });
    expect(play.effects).toEqual([]);
  });

  test('ends the run if all ranks miss it again in the last retry', () => {
    const play = new Play(OPEN).enter(2).start();
    for (let generation = 1; generation <= MAX_RETRIES; generation++) {
      play.linkAll().do(deadline('SYNCING', generation));
      expect(play.state).toMatchObject({ phase: 'LINKING', generation: generation + 1 });
    }
    play.linkAll().do(deadline('SYNCING', MAX_RETRIES + 1));
    expect(play.received('Ada', 'ended').message).toMatch(
      /^The run ended after 5 attempts to continue: Rank 0 \(Ada\) and rank 1 \(Bo\) made no progress and reported no state for 120 s/,
    );
  });
});

describe('a reported failure', () => {
  test('excludes the rank that failed until this rank is ready again', () => {
    const play = open(3).do(fail('rank'));
    expect(play.ring).toEqual(['Ada', 'Cy']);
    play.train().do(grow);
    expect(play.state.generation).toBe(2);
    play.do(ready('Bo'));
    expect(play.ring).toEqual(['Ada', 'Cy', 'Bo']);
  });

  test('excludes the rank that failed, even if its report names the previous generation', () => {
    const play = open(3).do({ type: 'left', member: 'Cy', reason: 'left' }).do(fail('rank'));
    expect(play.state).toMatchObject({ phase: 'LINKING', generation: 3 });
    expect(play.ring).toEqual(['Ada']);
    play.train().do(grow, ready('Bo')).train();
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test('with scope generation is followed by another generation of the same ranks', () => {
    const play = open(3).do(fail('generation')).gather();
    expect(play.state).toMatchObject({ phase: 'LINKING', generation: 2, retries: 1 });
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy']);
    expect(play.train().state.retries).toBe(0);
  });

  test.each([
    ['ends the run of two ranks if it occurs six times and no step is completed in between', 0, 'FORMING'],
    ['does not end the run of two ranks if it occurs six times and a step is completed in between', 1, 'LINKING'],
  ])('%s', (_, stepsInBetween, phase) => {
    const play = open(2);
    for (let outage = 0; outage <= MAX_OUTAGES; outage++) {
      expect(play.state.phase).toBe('RUNNING');
      const [member, peer] = outage % 2 === 0 ? ['Ada', 'Bo'] : ['Bo', 'Ada'];
      play.do({ type: 'late', member, generation: play.state.generation, peers: [peer] }).gather();
      if (outage < MAX_OUTAGES) play.train((outage + 1) * stepsInBetween);
    }
    expect(play.state.phase).toBe(phase);
    if (stepsInBetween > 0) return;
    expect(play.received('Bo', 'ended').message).toMatch(/^The run ended after 6 failures in a row/);
  });

  test('with scope run ends the run for all ranks', () => {
    const play = open(3).do(fail('run'));
    expect(play.received('Cy', 'ended')).toMatchObject({ outcome: 'failed' });
    expect(play.received('Cy', 'ended').message).toMatch(/could not continue, so the run ended: The GPU was lost\.$/);
  });

  test('is followed by a retry if ranks begin with different states, and by the end of the run if they finish with different ones', () => {
    const play = new Play(OPEN).enter(2).start().linkAll().report('synced', ['x', 'y']);
    expect(play.state).toMatchObject({ phase: 'LINKING', generation: 2, retries: 1 });
    play.train().report('finished', ['x', 'y'], 9);
    expect(play.received('Ada', 'ended').outcome).toBe('failed');
  });
});

const late = (by: string, generation: number): Fault => ({
  kind: 'late',
  generation,
  by,
  about: 'Bo',
  byBrowser: by,
  aboutBrowser: 'Bo',
  isCredible: true,
  age: 0,
});

describe('a rank that does not begin to compare states', () => {
  test.each([
    ['no rank', [], 65_000],
    ['one rank, however often', [late('Ada', 1), late('Ada', 2), late('Ada', 3)], 20_000],
    ['another rank in each generation', [late('Ada', 1), late('Cy', 2)], 20_000],
    ['two ranks in each of two generations', [late('Ada', 1), late('Cy', 1), late('Ada', 2), late('Cy', 2)], 2_000],
  ])('has less time if more ranks reported it as late in the same generations: %s', (_, faults, ms) => {
    expect(enteringMs({ ...open(4).state, faults }, 'Bo')).toBe(ms);
  });
});
