/** This tab in its room: connection, device, members. */
import type { Device } from '../../protocol/room.ts';
import type { RankState, RankStatus, WarmupStage } from '../../protocol/events.ts';
import type { EventOf } from './events.ts';

export type Lobby = Omit<EventOf<'room'>, 'type'>;

export interface RoomView {
  state: RankState;
  /** Membership generation that `state` belongs to. */
  generation: number;
  /** Neighbours that this tab connects to. */
  connecting: RankStatus['connecting'];
  /** The connection to the signaling server is lost; the engine reconnects. */
  isServerAway: boolean;
  device: Device | null;
  /** The reason why the device is not WebGPU; `null` if it is. */
  deviceNote: string | null;
  member: string | null;
  room: string | null;
  /** Makes this tab a host of the room again when it is sent to the server. */
  hostKey: string | null;
  lobby: Lobby | null;
  /** What the engine prepares now. */
  warmup: WarmupStage | null;
}

export const initialRoom: RoomView = {
  state: 'OFFLINE',
  generation: 0,
  connecting: [],
  isServerAway: false,
  device: null,
  deviceNote: null,
  member: null,
  room: null,
  hostKey: null,
  lobby: null,
  warmup: null,
};

/** Whether a member's device is open and its data are present. */
export function hasDevice(lobby: Lobby | null, id: string | null): boolean {
  return (lobby?.members.find(({ member }) => member === id)?.device ?? null) !== null;
}

export type RoomEvent = EventOf<'state' | 'device' | 'admitted' | 'hostKey' | 'room' | 'warmup'>;

export function reduceRoom(room: RoomView, event: RoomEvent): Partial<RoomView> {
  switch (event.type) {
    case 'state': {
      const { state, generation, connecting, isServerAway } = event;
      return { state, generation, connecting, isServerAway, warmup: state === 'RUNNING' ? null : room.warmup };
    }
    case 'device':
      return { device: event.device, deviceNote: event.note, warmup: null };
    case 'admitted':
      return { member: event.member, room: event.room, hostKey: event.hostKey };
    case 'hostKey':
      return { hostKey: event.hostKey };
    case 'room': {
      const { type: _, ...lobby } = event;
      // A tab that has become ready has nothing left to prepare until a run begins.
      const becameReady = hasDevice(lobby, room.member) && !hasDevice(room.lobby, room.member);
      return { lobby, warmup: becameReady ? null : room.warmup };
    }
    case 'warmup':
      return { warmup: event.stage };
    default:
      return event satisfies never;
  }
}
