/**
 * Finds rooms for a connection. A room is in this process or, if several processes serve the same
 * rooms, in one of them. Finding a room may take time, so the methods return promises. Once found,
 * the room answers through the connection's {@link Peer}.
 */
import type { ReconnectReport } from '../src/protocol/room.ts';
import type { Entry, EntryOutcome, Hub, MemberMessage, NewRoom, Peer } from './hub.ts';
import type { LeaveReason } from './room/index.ts';

/**
 * The process that has a room: the {@link Hub} of this process, or another process to which
 * everything is relayed.
 */
export interface RoomOwner {
  /**
   * Whether the room waits for this member, which has not been in the room since the server
   * restarted.
   */
  awaits(code: string, member: string): boolean;
  /** Asks the room to admit `peer`; the room answers through the peer. */
  enter(code: string, peer: Peer, entry: Entry): EntryOutcome;
  dispatch(code: string, peer: Peer, message: MemberMessage): void;
  /** @param reason `null`: the connection was lost without a message. */
  disconnect(code: string, peer: Peer, reason: LeaveReason | null): void;
  /** Whether two members may link through the server, see {@link Hub.mayLink}. */
  mayLink(code: string, generation: number, member: string, peer: string): boolean | Promise<boolean>;
}

/**
 * A directory of rooms. All methods reject with a SignalingError while it is unknown which process
 * has the room.
 */
export interface RoomDirectory {
  /**
   * Opens a room in this process and returns its code, which no other room has. Returns `null` if
   * this process has its maximum number of rooms.
   */
  open(room: NewRoom): Promise<string | null>;
  /**
   * Returns the owner of a room, or `null` if there is no such room. If the owner's lease expired
   * during the search, a `newcomer` cannot restore the room. The result is then this process's hub,
   * which admits the newcomer if a member has restored the room here in the meantime.
   */
  find(code: string, who: 'member' | 'newcomer'): Promise<RoomOwner | null>;
  /**
   * Restores a room from a returning member's state, or finds the process that has already done so.
   * Returns `null` if there is no space for the room.
   */
  restore(code: string, reconnectState: ReconnectReport): Promise<RoomOwner | null>;
}

/** The directory of a single process. */
export function localRoomDirectory(hub: Hub): RoomDirectory {
  return {
    open: (room) => Promise.resolve(hub.open(room)),
    find: (code) => Promise.resolve(hub.has(code) ? hub : null),
    restore: (code, reconnectState) => Promise.resolve(hub.has(code) || hub.restore(code, reconnectState) ? hub : null),
  };
}
