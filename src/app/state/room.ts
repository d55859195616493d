/** State of this tab in its room: connection, device and members. */
import type { ReportedDevice } from '../../protocol/room.ts';
import type {
  EventOf,
  LoadProgress,
  RankState,
  RankStatus,
  StateReceiveProgress,
  ShaderProgress,
  WarmupStage,
} from '../../protocol/events.ts';

export type LobbyView = Omit<EventOf<'room'>, 'type'>;

export interface RoomView {
  state: RankState;
  connecting: RankStatus['connecting'];
  /** Whether the connection to the signaling server is lost. The engine then reconnects. */
  isServerAway: boolean;
  device: ReportedDevice | null;
  /** The reason why the device does not use WebGPU; `null` if it does. */
  deviceNote: string | null;
  member: string | null;
  room: string | null;
  lobby: LobbyView | null;
  /** The stage of the engine's preparation; `null` if it prepares nothing. */
  warmup: WarmupStage | null;
  /** The shaders that are being compiled; `null` before they are known. */
  shaders: ShaderProgress | null;
  /** The progress of loading data; `null` before it is known. */
  loading: LoadProgress | null;
  /**
   * The part of the run's state that this newcomer has received; `null` if it does not receive
   * state.
   */
  received: StateReceiveProgress | null;
}

export const initialRoomView: RoomView = {
  state: 'OFFLINE',
  connecting: [],
  isServerAway: false,
  device: null,
  deviceNote: null,
  member: null,
  room: null,
  lobby: null,
  warmup: null,
  shaders: null,
  loading: null,
  received: null,
};

/** Returns whether a member's device is open and its data are loaded. */
export function isMemberDeviceOpen(lobby: LobbyView | null, id: string | null): boolean {
  return (lobby?.members.find(({ member }) => member === id)?.device ?? null) !== null;
}

export type RoomViewEvent = EventOf<'state' | 'device' | 'admitted' | 'room' | 'warmup'>;

export function reduceRoomView(room: RoomView, event: RoomViewEvent): Partial<RoomView> {
  switch (event.type) {
    case 'state': {
      const { state, connecting, isServerAway } = event;
      return { state, connecting, isServerAway, warmup: state === 'RUNNING' ? null : room.warmup };
    }
    case 'device':
      return { device: event.device, deviceNote: event.note, warmup: null };
    case 'admitted':
      return { member: event.member, room: event.room };
    case 'room': {
      const { type: _, ...lobby } = event;
      // A tab that has become ready has nothing to prepare until a run begins.
      const becameReady = isMemberDeviceOpen(lobby, room.member) && !isMemberDeviceOpen(room.lobby, room.member);
      return { lobby, warmup: becameReady ? null : room.warmup };
    }
    case 'warmup':
      return {
        warmup: event.stage,
        shaders: event.shaders ?? null,
        loading: event.loading ?? null,
        received: event.received ?? null,
      };
    default:
      return event satisfies never;
  }
}
