/** Writes the message that describes the room to its members and spectators. */
import { roomSettingsOf } from '../../src/protocol/room.ts';
import { expectedServed } from './servedPairs.ts';
import { everyone, hostsOf, waitingFor, type RoomEffect, type RoomState, type Step } from './state.ts';

/** Returns the effect that sends the `room` message to all members and spectators. */
export function roomMessage(state: RoomState): RoomEffect {
  const { phase, run, generation, members, spectators, membersWithState, servesAll, serverLinksRate } = state;
  const [hosts, missing] = [hostsOf(state), waitingFor(state)];
  return {
    type: 'send',
    to: everyone(state),
    message: {
      type: 'room',
      phase,
      run,
      generation,
      hasTrained: membersWithState.size > 0,
      hosts,
      members: [...members],
      spectators: [...spectators],
      ...roomSettingsOf(state),
      waitingFor: missing,
      ...(serverLinksRate !== null && {
        served: { pairs: expectedServed(state), areAll: servesAll, bytesPerSecond: serverLinksRate },
      }),
    },
  };
}

export function broadcastRoom(state: RoomState): Step {
  return { state, effects: [roomMessage(state)] };
}
