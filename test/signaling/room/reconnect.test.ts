import { describe, expect, test } from 'vitest';
import { AWAY_MS } from '../../../signaling/room/index.ts';
import { OPEN, grow, left, away, missed, back, open, breakLink } from './elasticRoom.ts';
import { join, Play, ready } from './play.ts';

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

  test('is followed by the missed messages when the member returns', () => {
    const play = open(3, { hasRelay: true }).do(away('Bo'));
    for (let i = 0; i < 2; i++) breakLink(play, 'Ada', 'Cy');
    const missing = play.received('Bo', 'prepare');
    expect(missing.relayed).toEqual([['Cy', 'Ada']]);
    play.do(back(play, 'Bo', { active: { generation: 1, ring: [...play.state.ring], isSteady: false } }));
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Bo' });
    expect(play.effects).toContainEqual({ type: 'clearTimer', key: 'away Bo' });
    expect(play.received('Bo', 'prepare')).toEqual(missing);
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['prepare', 'room']);
    play.linkAll().do(away('Bo'), back(play, 'Bo'));
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['prepare', 'sync', 'room']);
    play
      .report('synced', ['x'])
      .do(away('Bo'), back(play, 'Bo', { active: { generation: 3, ring: [], isSteady: false } }));
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['go', 'room']);
  });

  test('changes nothing if the server has not noticed it when the member returns', () => {
    const play = open(2).do(back(open(2), 'Bo', { active: { generation: 1, ring: [], isSteady: true } }));
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['go', 'room']);
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
  });

  test('makes the room wait until the member is back', () => {
    const play = new Play({ startAt: 2 }).enter(1).do(away('Ada'), join('Bo'), ready('Bo'));
    expect(play.received('Bo', 'room')).toMatchObject({ phase: 'FORMING', waitingFor: 1 });
    play.do(back(play, 'Ada'));
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test('delays a newcomer until it is back', () => {
    const play = open(1).do(join('Bo'), ready('Bo'), away('Bo'), grow, back(new Play(OPEN), 'Bo'));
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test('lets a rank in a paused run keep its place for a moment, because it may be a step ahead', () => {
    const play = Play.running(2, { nodes: { min: 2, max: 2 } }).do(away('Bo'));
    play.do({ type: 'failed', member: 'Ada', generation: 1, message: 'No memory.', scope: 'rank' });
    expect(play.state.phase).toBe('PAUSED');
    play.do(ready('Ada', 1), join('Cy'), ready('Cy'));
    expect(play.ring).toEqual(['Ada', 'Bo']);
    play.do(missed('Bo'));
    expect(play.ring).toEqual(['Ada', 'Cy']);
  });

  test('pauses the run until a newcomer that is needed is back', () => {
    const play = Play.running(2, { nodes: { min: 2, max: 2 } }).do(left('Bo'), join('Cy'), away('Cy'));
    play.do(join('Di'), away('Di'), back(play, 'Di'));
    expect(play.state.phase).toBe('PAUSED');
    play.do(ready('Di'));
    expect(play.ring).toEqual(['Ada', 'Di']);
  });

  test('does not end the run if the last member with its state returns', () => {
    const play = open(2, { nodes: { min: 2, max: 2 } }).do(left('Bo'), join('Cy'), ready('Cy'));
    play.do(away('Ada'), missed('Ada'));
    expect(play.timer('abandoned')).toBeDefined();
    play.do(back(play, 'Ada'), ready('Ada'));
    expect(play.state.phase).toBe('PAUSED');
    // Ada reports the same device, but now with the state.
    play.do(ready('Ada', 1));
    expect([...play.ring].sort()).toEqual(['Ada', 'Cy']);
  });
});

describe('a member that returns late', () => {
  test('receives the end of the run', () => {
    const play = open(2).do(away('Bo'));
    const missedIt = back(play, 'Bo', { active: { generation: 1, ring: [], isSteady: true } });
    play.report('finished', ['x'], 9).do(missedIt);
    expect(play.received('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'finished' });
    const stopped = open(2).do(away('Bo'), missed('Bo'), { type: 'stop', member: 'Ada' }, missedIt);
    expect(stopped.received('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'stopped' });
    stopped.do({ type: 'start', member: 'Ada' }, away('Bo'), missedIt);
    expect(stopped.received('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'stopped' });
  });

  test('receives the end of its run before the room message of the next', () => {
    const play = Play.running(2).do(away('Bo'), missed('Bo'), { type: 'start', member: 'Ada' });
    play.do(back(play, 'Bo', { run: 1, active: { generation: 1, ring: [], isSteady: true } }));
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['ended', 'room']);
  });

  test('receives the pause of the run', () => {
    const play = Play.running(3, { nodes: { min: 3, max: 3 } }).do(away('Bo'), left('Cy'));
    expect(play.state.phase).toBe('PAUSED');
    play.do(back(play, 'Bo', { active: { generation: 1, ring: [], isSteady: true } }));
    expect(play.received('Bo', 'pause')).toEqual({ type: 'pause', run: 1, generation: 1, waitingFor: 1 });
  });

  test('rejoins like a newcomer, with its state', () => {
    const play = open(2)
      .do(away('Bo'), missed('Bo'))
      .train()
      .do(grow, back(open(2), 'Bo'));
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Bo' });
    play.do(ready('Bo', 1));
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test('is refused if the host has removed it', () => {
    const play = open(2).do({ type: 'remove', member: 'Ada', whom: 'Bo' }, back(open(2), 'Bo'));
    expect(play.received('Bo', 'refused').code).toBe('removed');
    expect(play.state.members).toHaveLength(1);
  });
});
