/** Who is in a room to watch: shown what goes on, never a part of it. */
import { everyone, isSpectator, shouldStayLocked, refuse, roomMessage, noEffects, broadcastRoom } from './state.ts';
import type { Newcomer, RoomState, Step } from './state.ts';

export function admitSpectator(state: RoomState, member: string, { name, holdsKey }: Newcomer): Step {
  const { spectators, spectatorCapacity, hidden } = state;
  if (isSpectator(state, member)) return admit(state, member);
  if (spectators.length >= spectatorCapacity) {
    const message = `As many watch this room as may (${spectatorCapacity}): join it to train, or wait for one to leave.`;
    return refuse(state, member, 'room-full', message);
  }
  const known = {
    browser: undefined,
    worldSize: undefined,
    hasRun: false,
    hasEntered: false,
    holdsKey,
    isAway: false,
    isSuspended: false,
    holds: null,
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
 * A spectator has left or is gone without a word: nothing depends on it, so it may come back as it
 * came.
 */
export function removeSpectator(state: RoomState, member: string): Step {
  const hidden = new Map(state.hidden);
  hidden.delete(member);
  const rest = { ...state, spectators: state.spectators.filter((one) => one.member !== member), hidden };
  const next = { ...rest, isLocked: shouldStayLocked(rest) };
  return everyone(next).length > 0 ? broadcastRoom(next) : { state: next, effects: [{ type: 'empty' }] };
}

/** What a rank tells of the run. Only the first of them may: it is the one that does. */
export function forwardUpdate(state: RoomState, member: string, update: string): Step {
  const { ring, phase, holders, spectators } = state;
  const mayTell = phase === 'PAUSED' ? holders.has(member) : ring[0]?.member === member;
  if (!mayTell || spectators.length === 0) return noEffects(state);
  const to = spectators.map((one) => one.member);
  return { state, effects: [{ type: 'send', to, message: { type: 'spectator-update', update } }] };
}
