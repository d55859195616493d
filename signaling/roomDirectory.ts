/**
 * Where rooms live, as a connection sees it: in this process, or, where several serve the same
 * rooms, each in one of them. Finding one may take time, all else is answered through the peer.
 */
import type { ReconnectState } from '../src/protocol/room.ts';
import type { Entry, EntryOutcome, Hub, MemberMessage, NewRoom, Peer } from './hub.ts';
import type { LeaveReason } from './room/index.ts';

/**
 * The process that has a room: this one's {@link Hub}, or another that everything is passed on to.
 */
export interface RoomOwner {
  /**
   * Whether the room is known to wait for this member, which has not been there since the server
   * restarted.
   */
  awaits(code: string, member: string): boolean;
  /** Asks the room to take `peer`; the room answers through the peer. */
  enter(code: string, peer: Peer, entry: Entry): EntryOutcome;
  dispatch(code: string, peer: Peer, message: MemberMessage): void;
  /** @param reason `null`: its connection is gone without a word. */
  disconnect(code: string, peer: Peer, reason: LeaveReason | null): void;
}

/** All may reject with a SignalingError: where the room is cannot be said now. */
export interface RoomDirectory {
  /**
   * A new room's code, which no process has for another; `null` when this one holds as many rooms
   * as it may. The room is here.
   */
  open(room: NewRoom): Promise<string | null>;
  /**
   * `null`: there is no such room. A `newcomer` cannot restore a room: one whose owner's lease ran
   * out meanwhile has a home for it all the same, which lets it in where a member has restored the
   * room since, and else does not.
   */
  find(code: string, who: 'member' | 'newcomer'): Promise<RoomOwner | null>;
  /**
   * Makes a room anew that a returning member remembers, or finds who has done so. `null`: there is
   * no place for it.
   */
  restore(code: string, reconnectState: ReconnectState): Promise<RoomOwner | null>;
}

/** Rooms of one process that serves them all. */
export function localRoomDirectory(hub: Hub): RoomDirectory {
  return {
    open: (room) => Promise.resolve(hub.open(room)),
    find: (code) => Promise.resolve(hub.has(code) ? hub : null),
    restore: (code, reconnectState) => Promise.resolve(hub.has(code) || hub.restore(code, reconnectState) ? hub : null),
  };
}
