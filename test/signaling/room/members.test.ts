import { describe, expect, test } from 'vitest';
import { ABANDONED_MS, COOLING_MS, LINKING_MS } from '../../../signaling/room/index.ts';
import { OPEN, grow, left, away, missed, open } from './elasticRoom.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { join, Play, ready } from './play.ts';

describe('a rank that leaves', () => {
  test.each([
    ['LINKING', (play: Play) => play],
    ['SYNCING', (play: Play) => play.linkAll()],
    ['RUNNING', (play: Play) => play.train()],
  ] as const)('lets the others begin another generation in the same order if it leaves while %s', (phase, reach) => {
    const play = reach(new Play(OPEN).enter(3).start());
    expect(play.state.phase).toBe(phase);
    play.do(left('Bo'));
    expect(play.received('Ada', 'prepare')).toMatchObject({ generation: 2, run: 1, relayed: [] });
    expect(play.ring).toEqual(['Ada', 'Cy']);
    expect(play.timer('deadline')).toMatchObject({ ms: LINKING_MS, event: { generation: 2, phase: 'LINKING' } });
    play.train();
    expect(play.received('Cy', 'go').generation).toBe(2);
  });

  test('does not stop the other ranks from finishing if it has finished, even if fewer ranks than the minimum are left', () => {
    const play = Play.running(2, { nodes: { min: 2, max: 2 } });
    play.do({ type: 'finished', member: 'Ada', generation: 1, step: 4, stateHash: 'x' }, left('Ada'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do({ type: 'finished', member: 'Bo', generation: 1, step: 4, stateHash: 'x' });
    expect(play.received('Bo', 'ended').outcome).toBe('finished');
    // If Ada's links broke before its report arrived, the others continue without it.
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

  test('invalidates later reports about the old generation', () => {
    const play = open(3).do(left('Bo'));
    const { state } = play;
    play.do({ type: 'broken', member: 'Ada', generation: 1, peers: ['Cy'] });
    play.do({ type: 'failed', member: 'Ada', generation: 1, message: 'Timed out.', scope: 'generation' });
    play.do({ type: 'linked', member: 'Ada', generation: 1 }, { type: 'deadline', generation: 1, phase: 'LINKING' });
    expect([play.state, play.effects]).toEqual([state, []]);
  });

  test('ends the run if it was the last rank; if it only loses its connection, the run is paused', () => {
    const play = open(1).do(left('Ada'));
    expect(play.state).toMatchObject({ phase: 'FORMING', members: [] });
    play.enter(1).start().train().do(away('Ada'), missed('Ada'));
    expect(play.state).toMatchObject({ phase: 'PAUSED', run: 2, members: [] });
    expect(play.effects).toContainEqual({ type: 'empty' });
    expect(play.timer('abandoned').ms).toBe(ABANDONED_MS);
  });
});

describe('newcomers', () => {
  test('join together after the latest generation has trained for a moment', () => {
    const play = open(1);
    expect(play.timer('grow').ms).toBe(COOLING_MS);
    play.enter(3);
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do(grow);
    expect(play.state).toMatchObject({ phase: 'LINKING', generation: 2, run: 1 });
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('join immediately if the latest generation has trained for long enough', () => {
    const play = open(1).do(grow).enter(2);
    expect(play.received('Bo', 'prepare').generation).toBe(2);
  });

  test('wait for another generation if they arrive while one begins', () => {
    const play = open(1).do(grow).enter(2).do(join('Cy'), ready('Cy'));
    expect(play.sentTo('Cy').map((m) => m.type)).toEqual(['room']);
    play.train().do(grow);
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('wait until a rank leaves if the ring has its maximum size', () => {
    const play = open(2, { nodes: { min: 1, max: 2 } })
      .do(grow)
      .enter(3);
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do(left('Ada'));
    expect(play.ring).toEqual(['Bo', 'Cy']);
  });

  test('get no rank at the start of the run beyond the maximum number of ranks', () => {
    const play = new Play({ nodes: { min: 1, max: 2 } }).enter(3).start();
    expect(play.ring).toEqual(['Ada', 'Bo']);
    expect(new Play({ nodes: { min: 1, max: 2 }, startAt: 3 }).enter(3).ring).toEqual(['Ada', 'Bo']);
  });

  test('get no rank if they request an unavailable one, and get a rank in the next run', () => {
    const play = open(1, { capacity: 4 }).do(
      join('Bo', { rank: 1 }),
      join('Cy', { rank: 1 }),
      join('Di', { rank: 40 }),
    );
    expect(play.state.members.map((m) => m.rank)).toEqual([null, 1, null, null]);
    play.do(ready('Bo'), ready('Cy'), ready('Di'), { type: 'stop', member: 'Ada' });
    play.do({ type: 'configure', member: 'Ada', job: { ...DEFAULT_JOB, strategy: 'parameter-server' } }).start();
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy', 'Di']);
  });

  test('do not interrupt training if they are not ready or not connected', () => {
    const play = open(1).do(join('Bo'), join('Cy'), ready('Cy'), away('Cy'), grow);
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
  });
});

describe('a fixed world', () => {
  test('refuses newcomers during a run, and ends the run when a rank is lost', () => {
    const play = Play.running(3).do(join('Di'));
    expect(play.received('Di', 'refused').code).toBe('room-running');
    play.do(away('Bo'));
    expect(play.state.phase).toBe('RUNNING');
    play.do(missed('Bo'));
    expect(play.received('Ada', 'ended')).toMatchObject({ run: 1, outcome: 'failed' });
    const broken = Play.running(3).do({ type: 'broken', member: 'Ada', generation: 1, peers: ['Bo'] });
    expect(broken.received('Cy', 'ended').message).toMatch(/^Rank 0 \(Ada\) and rank 1 \(Bo\) lost the link/);
  });

  test("is used if the job's strategy is not elastic, even in an elastic room", () => {
    const job = { ...DEFAULT_JOB, strategy: 'parameter-server' as const };
    const play = Play.running(2, { ...OPEN, job }).do(left('Bo'));
    expect(play.received('Ada', 'ended').outcome).toBe('failed');
  });
});
