import { describe, expect, test } from 'vitest';
import { restore, type RoomEvent } from '../../../signaling/room/index.ts';
import { roomSettingsOf } from '../../../src/protocol/room.ts';
import { left, OPEN } from './elasticRoom.ts';
import { join, Play, ready } from './play.ts';

const watch = (member: string, holdsKey = false): RoomEvent => join(member, { isSpectator: true, holdsKey });
const update = (member: string): RoomEvent => ({ type: 'spectator-update', member, update: '[]' });

describe('a spectator', () => {
  test('receives the messages of the room, and does not count as a member', () => {
    const play = new Play({ startAt: 2, capacity: 2 }).enter(1).do(watch('Wu'));
    expect(play.effects[0]).toEqual({ type: 'admit', member: 'Wu' });
    expect(play.received('Ada', 'room')).toMatchObject({ spectators: [{ member: 'Wu', name: 'Wu' }], waitingFor: 1 });
    expect(play.received('Wu', 'room').members).toHaveLength(1);
    // The spectator is not counted even if it reports `ready`, and it takes no member's place.
    expect(play.do(ready('Wu')).effects).toEqual([]);
    play.enter(2);
    expect(play.ring).toEqual(['Ada', 'Bo']);
    expect(play.sentTo('Wu').map(({ type }) => type)).toEqual(['room']);
  });

  test('is admitted to a fixed world that trains, but not to a locked room', () => {
    const play = Play.running(2).do(watch('Wu'));
    expect(play.received('Wu', 'room').phase).toBe('RUNNING');
    play.do({ type: 'lock', member: 'Ada', isLocked: true }, watch('Xi'));
    expect(play.received('Xi', 'refused').code).toBe('room-locked');
  });

  test('is refused if the room has its maximum number of spectators', () => {
    const play = new Play({ spectatorCapacity: 1 }).do(watch('Wu'), watch('Xi'));
    expect(play.received('Xi', 'refused')).toMatchObject({
      code: 'room-full',
      message: expect.stringMatching(/^This room has its maximum number of spectators/),
    });
  });

  test('is host only if it has the host key', () => {
    const play = new Play(OPEN).do(watch('Wu', true));
    expect(play.received('Wu', 'room').hosts).toEqual(['Wu']);
    play.do({ type: 'start', member: 'Wu' });
    expect(play.received('Wu', 'refused')).toMatchObject({
      code: 'not-now',
      message: expect.stringMatching(/^No member is ready/),
    });
    play.enter(2).do({ type: 'start', member: 'Wu' });
    expect(play.ring).toEqual(['Ada', 'Bo']);
    play.train().do({ type: 'pause', member: 'Wu' });
    expect(play.received('Wu', 'room')).toMatchObject({ phase: 'PAUSED', isPausedByHost: true });
    play.do({ type: 'resume', member: 'Wu' }).train().do({ type: 'remove', member: 'Wu', whom: 'Ada' });
    expect(play.ring).toEqual(['Bo']);
    play.do(watch('Xi'), { type: 'stop', member: 'Xi' });
    expect(play.received('Xi', 'refused').code).toBe('not-host');
    play.do({ type: 'remove', member: 'Wu', whom: 'Xi' });
    expect(play.effects[0]).toMatchObject({ type: 'expel', member: 'Xi' });
    play.do(left('Wu'));
    expect(play.received('Bo', 'room')).toMatchObject({ hosts: ['Bo'], spectators: [] });
  });

  test('keeps the room open after the last member has left, even if it has locked the room with the host key; the run ends', () => {
    const play = Play.running(1, OPEN).do(
      watch('Wu', true),
      { type: 'lock', member: 'Wu', isLocked: true },
      left('Ada'),
    );
    expect(play.received('Wu', 'ended').outcome).toBe('failed');
    expect(play.received('Wu', 'room')).toMatchObject({ phase: 'FORMING', isLocked: true, members: [] });
    expect(play.effects.map(({ type }) => type)).not.toContain('empty');
    play.do({ type: 'away', member: 'Wu' });
    expect(play.effects).toEqual([{ type: 'empty' }]);
    expect(play.state).toMatchObject({ isLocked: false, spectators: [] });
    expect(play.state.hidden.size).toBe(0);
  });

  test('can reconnect, even to a restarted server, which ignores the run that the spectator reports', () => {
    const play = Play.running(1, OPEN).do(watch('Wu', true));
    const settings = roomSettingsOf(play.state);
    const reconnectState = { settings, run: 1, isRunOn: true, generation: 7, active: null };
    const back: RoomEvent = {
      type: 'reconnect',
      member: 'Wu',
      name: 'Wu',
      holdsKey: true,
      isSpectator: true,
      reconnectState,
    };
    play.do({ type: 'away', member: 'Wu' }, back);
    expect(play.received('Ada', 'room').spectators).toHaveLength(1);
    // The spectator uses another connection before the server has noticed the end of the first one.
    play.do(back);
    expect(play.effects[0]).toEqual({ type: 'admit', member: 'Wu' });
    expect(play.state.spectators).toHaveLength(1);

    const restored = new Play();
    restored.state = restore(settings, { capacity: 4 }, 1000);
    restored.do(back);
    expect(restored.state).toMatchObject({ phase: 'FORMING', run: 0, highestReported: 0, membersWithState: new Set() });
    expect(restored.timer('restore-timeout').event).toEqual({ type: 'restore-timeout' });
    const active = { generation: 1, ring: [...play.state.ring], isSteady: true };
    restored.do({
      ...back,
      member: 'Ada',
      name: 'Ada',
      isSpectator: false,
      reconnectState: { ...reconnectState, generation: 1, active },
    });
    expect(restored.state).toMatchObject({ phase: 'RUNNING', generation: 1, isRestoring: false });
    expect(restored.received('Wu', 'room').phase).toBe('RUNNING');
  });
});

describe('a spectator update', () => {
  test('is sent to spectators only', () => {
    const play = Play.running(2, OPEN).do(update('Ada'));
    expect(play.effects).toEqual([]);
    play.do(watch('Wu'), watch('Xi'), update('Ada'));
    expect(play.effects).toEqual([
      { type: 'send', to: ['Wu', 'Xi'], message: { type: 'spectator-update', update: '[]' } },
    ]);
  });

  test('is accepted only from rank 0, or during a pause from a member with the state', () => {
    const play = Play.running(2, OPEN).do(watch('Wu'), join('Cy'));
    for (const other of ['Bo', 'Cy', 'Wu']) expect(play.do(update(other)).effects).toEqual([]);
    play.do({ type: 'pause', member: 'Ada' });
    expect(play.do(update('Ada')).received('Wu', 'spectator-update').update).toBe('[]');
    expect(play.do(update('Cy')).effects).toEqual([]);
    play.do({ type: 'stop', member: 'Ada' });
    expect(play.do(update('Ada')).effects).toEqual([]);
  });
});
