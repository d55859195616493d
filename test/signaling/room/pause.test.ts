import { describe, expect, test } from 'vitest';
import { ABANDONED_MS } from '../../../signaling/room/index.ts';
import { OPEN, left, away, missed, back, open } from './elasticRoom.ts';
import { join, Play, ready } from './play.ts';

describe('a run with too few ready members', () => {
  const NEEDS_TWO = { nodes: { min: 2, max: 3 } };

  test('does not start by itself below the minimum number of ranks, even if startAt is lower', () => {
    const play = new Play({ ...NEEDS_TWO, startAt: 1 }).enter(1);
    expect(play.received('Ada', 'room')).toMatchObject({ phase: 'FORMING', waitingFor: 1 });
    play.enter(2);
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test('cannot be started by the host', () => {
    const play = new Play(NEEDS_TWO).enter(1).start();
    expect(play.received('Ada', 'refused')).toMatchObject({
      code: 'not-now',
      message: 'This room needs 2 members, and only 1 member is ready. Wait for more.',
    });
  });

  test('pauses when ranks leave, and continues when enough members are ready', () => {
    const play = Play.running(2, NEEDS_TWO).do(left('Bo'));
    expect(play.received('Ada', 'pause')).toEqual({ type: 'pause', run: 1, generation: 1, waitingFor: 1 });
    expect(play.received('Ada', 'room')).toMatchObject({ phase: 'PAUSED', waitingFor: 1 });
    const late = open(2).do(away('Bo'), missed('Bo'), back(open(2), 'Bo'), left('Ada'));
    expect(late.received('Bo', 'pause')).toMatchObject({ generation: 2 });
    expect(play.effects).toContainEqual({ type: 'clearTimer', key: 'abandoned' });
    expect(play.effects.some((effect) => effect.type === 'setTimer')).toBe(false);
    play.do(join('Cy'));
    expect(play.state.phase).toBe('PAUSED');
    play.do(ready('Cy'));
    expect(play.received('Ada', 'prepare')).toMatchObject({ generation: 2, run: 1 });
    expect(play.ring).toEqual(['Ada', 'Cy']);
  });

  test('ends some time after the last member with its state has left', () => {
    const play = Play.running(2, NEEDS_TWO).do(left('Bo'), join('Cy'), left('Ada'));
    expect(play.timer('abandoned').ms).toBe(ABANDONED_MS);
    // Newcomers do not postpone the end.
    play.do(ready('Cy'), join('Di'), ready('Di'));
    expect(play.state.phase).toBe('PAUSED');
    expect(play.effects.filter((effect) => 'key' in effect && effect.key === 'abandoned')).toEqual([]);
    play.do({ type: 'abandoned' });
    expect(play.received('Cy', 'ended')).toMatchObject({ run: 1, outcome: 'failed' });
    expect(play.received('Cy', 'ended').message).toMatch(/^All members with the state of this run have left/);
    expect(play.state.phase).toBe('FORMING');
  });

  test('waits for the member with the latest state, instead of continuing with an older one', () => {
    const play = open(2)
      .do({ type: 'failed', member: 'Bo', generation: 1, message: 'No memory.', scope: 'rank' })
      .train();
    expect(play.ring).toEqual(['Ada']);
    play.do(ready('Bo', 1), away('Ada'), missed('Ada'));
    expect(play.received('Bo', 'room').phase).toBe('PAUSED');
    play.do(back(play, 'Ada'), ready('Ada', 1));
    expect([...play.ring].sort()).toEqual(['Ada', 'Bo']);
  });

  test('continues with any member if it has not trained yet', () => {
    const play = new Play(OPEN).enter(1).start().do(join('Bo'), ready('Bo'), left('Ada'));
    expect(play.ring).toEqual(['Bo']);
  });
});
