/** Events and states of elastic rooms for tests of the room's state machine. */
import { restore, type RoomEvent, type RoomOptions } from '../../../signaling/room/index.ts';
import { roomSettingsOf, type ReconnectReport } from '../../../src/protocol/room.ts';
import { Play } from './play.ts';

/** Options of a room whose ranks may join and leave during a run. */
export const OPEN = { nodes: { min: 1, max: 4 } } satisfies Partial<RoomOptions>;
export const grow: RoomEvent = { type: 'grow' };
export const left = (member: string): RoomEvent => ({ type: 'left', member, reason: 'left' });
export const away = (member: string): RoomEvent => ({ type: 'away', member });
export const missed = (member: string): RoomEvent => ({ type: 'missed', member });

/**
 * Returns the event that a member reconnects. It reports the state of `play`, with the changes in
 * `reconnectState`.
 */
export const back = (play: Play, member: string, reconnectState: Partial<ReconnectReport> = {}): RoomEvent => {
  const { run, generation } = play.state;
  const settings = roomSettingsOf(play.state);
  return {
    type: 'reconnect',
    member,
    name: member,
    holdsKey: false,
    reconnectState: {
      settings,
      run,
      isRunOn: run > 0,
      hasTrained: play.state.membersWithState.size > 0,
      generation,
      active: null,
      ...reconnectState,
    },
  };
};

/** Returns a room with an elastic run of `n` ranks that train. */
export const open = (n: number, options: Partial<RoomOptions> = {}): Play => Play.running(n, { ...OPEN, ...options });

export const breakLink = (play: Play, member: string, peer: string): Play =>
  play.do({ type: 'broken', member, generation: play.state.generation, peers: [peer] }).gather();

/** Returns the room of a restarted server after members of `before` have returned one by one. */
export function restored(before: Play, ...returns: RoomEvent[]): Play {
  const play = new Play();
  play.state = restore(roomSettingsOf(before.state), { capacity: 4 }, 1000);
  return play.do(...returns);
}

export const active = (play: Play, isSteady = true): ReconnectReport['active'] => {
  return { generation: play.state.generation, ring: [...play.state.ring], isSteady };
};

/** Returns the event that a rank of the latest generation reconnects. */
export const steady = (play: Play, member: string): RoomEvent => back(play, member, { active: active(play) });
