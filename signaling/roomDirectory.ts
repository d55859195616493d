/**
 * The location of rooms, as a connection sees it: in this process, or, if several processes serve
 * the same rooms, each in one of them. Finding one may take time; all other answers come through
 * the peer.
 */
import type { ReconnectState } from '../src/protocol/room.ts';
import type { Entry, EntryOutcome, Hub, MemberMessage, NewRoom, Peer } from './hub.ts';
import type { LeaveReason } from './room/index.ts';

/**
 * The process that has a room: this one's {@link Hub}, or another to which everything is relayed.
 */
export interface RoomOwner {
  /**
   * Whether the room waits for this member, which has not been there since the server restarted.
   */
  awaits(code: string, member: string): boolean;
  /** Asks the room to admit `peer`; the room answers through the peer. */
  enter(code: string, peer: Peer, entry: Entry): EntryOutcome;
  dispatch(code: string, peer: Peer, message: MemberMessage): void;
  /** @param reason `null`: the connection was lost without a message. */
  disconnect(code: string, peer: Peer, reason: LeaveReason | null): void;
}

/** All methods may reject with a SignalingError if the room's location is unknown now. */
export interface RoomDirectory {
  /**
   * Opens a room in this process and returns its code, which no other room has; `null`: this
   * process has its maximum number of rooms.
   */
  open(room: NewRoom): Promise<string | null>;
  /**
   * The owner of a room; `null`: there is no such room. A `newcomer` cannot restore a room: if the
   * owner's lease expired during the search, it gets this process's hub, which admits it if a
   * member has restored the room here since.
   */
  find(code: string, who: 'member' | 'newcomer'): Promise<RoomOwner | null>;
  /**
   * Restores a room from a returning member's state, or finds the process that has done so. `null`:
   * there is no space for it.
   */
  restore(code: string, reconnectState: ReconnectState): Promise<RoomOwner | null>;
}

/** The directory of a single process. */
export function localRoomDirectory(hub: Hub): RoomDirectory {
  return {
    open: (room) => Promise.resolve(hub.open(room)),
    find: (code) => Promise.resolve(hub.has(code) ? hub : null),
    restore: (code, reconnectState) => Promise.resolve(hub.has(code) || hub.restore(code, reconnectState) ? hub : null),
  };
}
