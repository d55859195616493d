import { describe, expect, test } from 'vitest';
import { OPEN, left, away, open, restored, steady } from './elasticRoom.ts';
import { join, Play } from './play.ts';

describe('hosts', () => {
  test('are the members with the host key, or the oldest present member if there are none', () => {
    const play = new Play().enter(2);
    expect(play.received('Ada', 'room').hosts).toEqual(['Ada']);
    play.do(join('Cy', { holdsKey: true }), join('Di', { holdsKey: true }));
    expect(play.received('Ada', 'room').hosts).toEqual(['Cy', 'Di']);
    play.do(left('Di'), away('Cy'));
    expect(play.received('Ada', 'room').hosts).toEqual(['Ada']);
    play.do(away('Ada'));
    expect(play.received('Bo', 'room').hosts).toEqual(['Bo']);
  });

  test('stop a run for all members, even if the run is paused', () => {
    const play = open(2).do({ type: 'stop', member: 'Bo' });
    expect(play.received('Bo', 'refused').code).toBe('not-host');
    play.do({ type: 'stop', member: 'Ada' });
    expect(play.received('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'stopped' });
    play.do({ type: 'stop', member: 'Ada' });
    expect(play.effects).toEqual([]);
    const paused = Play.running(2, { nodes: { min: 2, max: 2 } }).do(left('Bo'), { type: 'stop', member: 'Ada' });
    expect(paused.received('Ada', 'ended').outcome).toBe('stopped');
  });

  test('pause a run, and resume it with all members that are present then', () => {
    const play = open(2).do({ type: 'pause', member: 'Bo' });
    expect(play.received('Bo', 'refused')).toMatchObject({
      code: 'not-host',
      message: 'Only the host may pause the run.',
    });
    play.do({ type: 'pause', member: 'Ada' });
    expect(play.received('Bo', 'pause')).toEqual({ type: 'pause', run: 1, generation: 1, waitingFor: 0 });
    expect(play.received('Bo', 'room')).toMatchObject({ phase: 'PAUSED', isPausedByHost: true, waitingFor: 0 });
    play.do({ type: 'pause', member: 'Ada' });
    expect(play.effects).toEqual([]);
    play.enter(3).do(left('Bo'));
    expect(play.state).toMatchObject({ phase: 'PAUSED', generation: 1, isPausedByHost: true });
    play.do({ type: 'resume', member: 'Ada' });
    expect(play.received('Cy', 'prepare')).toMatchObject({ run: 1, generation: 2 });
    expect(play.ring).toEqual(['Ada', 'Cy']);
    play.train().do({ type: 'resume', member: 'Ada' });
    expect([play.effects, play.state.isPausedByHost]).toEqual([[], false]);
  });

  test('pause a run that waits for members; it resumes when the host allows it and enough members are ready', () => {
    const play = Play.running(2, { nodes: { min: 2, max: 2 } }).do(left('Bo'));
    expect(play.received('Ada', 'pause').waitingFor).toBe(1);
    play.do({ type: 'pause', member: 'Ada' }).enter(2);
    expect(play.state).toMatchObject({ phase: 'PAUSED', generation: 1 });
    play.do(left('Bo'), { type: 'resume', member: 'Ada' });
    // Without this message, the member would assume that the run waits for the host.
    expect(play.received('Ada', 'pause').waitingFor).toBe(1);
    expect(play.enter(2).state).toMatchObject({ phase: 'LINKING', generation: 2 });
  });

  test('can pause a run before its first step; the paused run ends only when all its members have left', () => {
    const play = new Play(OPEN).enter(2).start().do({ type: 'pause', member: 'Ada' });
    expect(play.effects.filter(({ type }) => type === 'setTimer')).toEqual([]);
    expect(play.do({ type: 'resume', member: 'Ada' }).ring).toEqual(['Ada', 'Bo']);
    // The run ends if no member that could resume it is left.
    play.do({ type: 'pause', member: 'Ada' }, left('Bo'), left('Ada'));
    expect(play.state).toMatchObject({ phase: 'FORMING', isPausedByHost: false });
  });

  test('cannot pause a fixed world, or a run that is being restored', () => {
    const fixed = Play.running(2).do({ type: 'pause', member: 'Ada' });
    expect(fixed.received('Ada', 'refused')).toMatchObject({
      code: 'not-now',
      message: expect.stringMatching(/^A run with a fixed world/),
    });
    const before = open(2);
    const play = restored(before, steady(before, 'Ada')).do({ type: 'pause', member: 'Ada' });
    expect(play.received('Ada', 'refused').message).toMatch(/^The server has just restarted/);
    play.do(steady(before, 'Bo'), { type: 'pause', member: 'Ada' });
    expect(play.state).toMatchObject({ phase: 'PAUSED', isPausedByHost: true });
  });

  test('can remove other members; a member that is not a host cannot', () => {
    const play = open(3).do({ type: 'remove', member: 'Bo', whom: 'Ada' });
    expect(play.received('Bo', 'refused').code).toBe('not-host');
    play.do({ type: 'remove', member: 'Ada', whom: 'Bo' });
    expect(play.effects[0]).toMatchObject({ type: 'expel', member: 'Bo', code: 'removed' });
    expect(play.ring).toEqual(['Ada', 'Cy']);
    play.do({ type: 'remove', member: 'Ada', whom: 'Ada' }, { type: 'remove', member: 'Ada', whom: 'nobody' });
    expect(play.state.members).toHaveLength(2);
  });

  test('leave the room unlocked if they locked it and no member remains', () => {
    const play = open(1).do({ type: 'lock', member: 'Ada', isLocked: true }, left('Ada'), join('Bo'));
    expect(play.state).toMatchObject({ isLocked: false, members: [{ member: 'Bo' }] });
  });

  test('lock the room, and then only newcomers with the host key are admitted', () => {
    const play = open(1).do({ type: 'lock', member: 'Ada', isLocked: true });
    expect(play.received('Ada', 'room').isLocked).toBe(true);
    play.do(join('Bo'));
    expect(play.received('Bo', 'refused').code).toBe('room-locked');
    play.do(join('Cy', { holdsKey: true }));
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Cy' });
    play.do({ type: 'lock', member: 'Cy', isLocked: false }, join('Bo'));
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Bo' });
  });
});
