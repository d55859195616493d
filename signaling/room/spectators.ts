/** Spectators: tabs that watch a room and never take part in its runs. */
import { shouldStayLocked } from './ending.ts';
import { roomMessage, broadcastRoom } from './roomMessage.ts';
import { everyone, isSpectator, refuse, noEffects, type Newcomer, type RoomState, type Step } from './state.ts';

export function admitSpectator(state: RoomState, member: string, { name, holdsKey }: Newcomer): Step {
  const { spectators, spectatorCapacity, hidden } = state;
  if (isSpectator(state, member)) return admit(state, member);
  if (spectators.length >= spectatorCapacity) {
    const message = `This room has its maximum number of spectators (${spectatorCapacity}). Join it to train, or wait until a spectator leaves.`;
    return refuse(state, member, 'room-full', message);
  }
  const known = {
    browser: undefined,
    worldSize: undefined,
    hasRun: false,
    hasEntered: false,
    pulse: null,
    holdsKey,
    isAway: false,
    isSuspended: false,
    stateOfRun: null,
  };
  return admit(
    { ...state, spectators: [...spectators, { member, name }], hidden: new Map(hidden).set(member, known) },
    member,
  );
}

function admit(state: RoomState, member: string): Step {
  return { state, effects: [{ type: 'admit', member }, roomMessage(state)] };
}

/**
 * Removes a spectator that has left or whose connection is lost. A spectator is not kept as away,
 * because no run depends on it and it may join again.
 */
export function removeSpectator(state: RoomState, member: string): Step {
  const hidden = new Map(state.hidden);
  hidden.delete(member);
  const rest = { ...state, spectators: state.spectators.filter((one) => one.member !== member), hidden };
  const next = { ...rest, isLocked: shouldStayLocked(rest) };
  return everyone(next).length > 0 ? broadcastRoom(next) : { state: next, effects: [{ type: 'empty' }] };
}

/**
 * Forwards an update to the spectators. Updates are accepted only from rank 0 or, while the room is
 * PAUSED, only from members with the state.
 */
export function forwardUpdate(state: RoomState, member: string, update: string): Step {
  const { ring, phase, membersWithState, spectators } = state;
  const maySend = phase === 'PAUSED' ? membersWithState.has(member) : ring[0]?.member === member;
  if (!maySend || spectators.length === 0) return noEffects(state);
  const to = spectators.map((one) => one.member);
  return { state, effects: [{ type: 'send', to, message: { type: 'spectator-update', update } }] };
}
