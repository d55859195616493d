import { describe, expect, test } from 'vitest';
import { AWAY_MS } from '../../../signaling/room/index.ts';
import { OPEN, grow, left, away, missed, back, open, breakLink } from './elasticRoom.ts';
import { join, Play, ready } from './play.ts';

describe('a lost connection of a member', () => {
  test('changes nothing for a moment', () => {
    const play = open(2).do(away('Bo'));
    expect(play.timer('away Bo')).toMatchObject({ ms: AWAY_MS, event: { type: 'missed', member: 'Bo' } });
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do(missed('Bo'));
    expect(play.ring).toEqual(['Ada']);
    play.do(missed('Bo'));
    expect(play.effects).toEqual([]);
  });

  test("changes nothing for as long as a busy line may delay the member's return", () => {
    const pulse = { task: '', progress: 0, isSilent: false, ms: 0, limitMs: 60_000, lateMs: 90_000 };
    const play = open(2).do({ type: 'heartbeat', member: 'Bo', pulse }, away('Bo'));
    expect(play.timer('away Bo')).toMatchObject({ ms: 90_000 });
    // The link is lost, too.
    expect(play.do({ type: 'broken', member: 'Ada', generation: 1, peers: ['Bo'] }).ring).toEqual(['Ada']);
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

  test('changes nothing if the member returns before the server notices the loss', () => {
    const play = open(2).do(back(open(2), 'Bo', { active: { generation: 1, ring: [], isSteady: true } }));
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['go', 'room']);
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
  });

  test('delays the start of a run until the member has returned', () => {
    const play = new Play({ startAt: 2 }).enter(1).do(away('Ada'), join('Bo'), ready('Bo'));
    expect(play.received('Bo', 'room')).toMatchObject({ phase: 'FORMING', waitingFor: 1 });
    play.do(back(play, 'Ada'));
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test("delays a newcomer's entry into the run until the newcomer has returned", () => {
    const play = open(1).do(join('Bo'), ready('Bo'), away('Bo'), grow, back(new Play(OPEN), 'Bo'));
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test("keeps the member's place in a paused run for a moment, because its state may be a step ahead", () => {
    const play = Play.running(2, { nodes: { min: 2, max: 2 } }).do(away('Bo'));
    play.do({ type: 'failed', member: 'Ada', generation: 1, message: 'No memory.', scope: 'rank' });
    expect(play.state.phase).toBe('PAUSED');
    play.do(ready('Ada', 1), join('Cy'), ready('Cy'));
    expect(play.ring).toEqual(['Ada', 'Bo']);
    play.do(missed('Bo'));
    expect(play.ring).toEqual(['Ada', 'Cy']);
  });

  test('keeps a run that needs a newcomer paused until the newcomer has returned and is ready', () => {
    const play = Play.running(2, { nodes: { min: 2, max: 2 } }).do(left('Bo'), join('Cy'), away('Cy'));
    play.do(join('Di'), away('Di'), back(play, 'Di'));
    expect(play.state.phase).toBe('PAUSED');
    play.do(ready('Di'));
    expect(play.ring).toEqual(['Ada', 'Di']);
  });

  test('does not end the run if only this member has the state and it returns', () => {
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
  test('learns that its run has ended', () => {
    const play = open(2).do(away('Bo'));
    const missedIt = back(play, 'Bo', { active: { generation: 1, ring: [], isSteady: true } });
    play.report('finished', ['x'], 9).do(missedIt);
    expect(play.received('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'finished' });
    const stopped = open(2).do(away('Bo'), missed('Bo'), { type: 'stop', member: 'Ada' }, missedIt);
    expect(stopped.received('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'stopped' });
    stopped.do({ type: 'start', member: 'Ada' }, away('Bo'), missedIt);
    expect(stopped.received('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'stopped' });
  });

  test('learns that its run has ended before it hears of the next run', () => {
    const play = Play.running(2).do(away('Bo'), missed('Bo'), { type: 'start', member: 'Ada' });
    play.do(back(play, 'Bo', { run: 1, active: { generation: 1, ring: [], isSteady: true } }));
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['ended', 'room']);
  });

  test('learns that the run is paused', () => {
    const play = Play.running(3, { nodes: { min: 3, max: 3 } }).do(away('Bo'), left('Cy'));
    expect(play.state.phase).toBe('PAUSED');
    play.do(back(play, 'Bo', { active: { generation: 1, ring: [], isSteady: true } }));
    expect(play.received('Bo', 'pause')).toEqual({ type: 'pause', run: 1, generation: 1, waitingFor: 1 });
  });

  test('gets a rank like a newcomer, and still has its state', () => {
    const play = open(2)
      .do(away('Bo'), missed('Bo'))
      .train()
      .do(grow, back(open(2), 'Bo'));
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Bo' });
    play.do(ready('Bo', 1));
    expect(play.ring).toEqual(['Ada', 'Bo']);
  });

  test('is refused if the host has removed it meanwhile', () => {
    const play = open(2).do({ type: 'remove', member: 'Ada', whom: 'Bo' }, back(open(2), 'Bo'));
    expect(play.received('Bo', 'refused').code).toBe('removed');
    expect(play.state.members).toHaveLength(1);
  });
});
