/**
 * All rooms of the server. The hub passes events to each room's state machine and carries out its
 * effects. It represents a member by a {@link Peer}, and knows no sockets.
 */
import { randomInt } from 'node:crypto';
import type { ClientMessage, RefusalCode, ServerLinkMode, ServerMessage } from '../src/protocol/control.ts';
import { NETWORK_CHECK_ROOM } from '../src/protocol/networkCheck.ts';
import { MAX_REMOVED_LISTED, type RoomOpening, type ReconnectReport } from '../src/protocol/room.ts';
import { ROOM_CODE_ALPHABET, ROOM_CODE_LENGTH } from '../src/protocol/roomCode.ts';
import type { Clock } from '../src/util/clock.ts';
import type { Limits } from './limits.ts';
import {
  createRoom,
  mayLink,
  restore,
  step,
  type LeaveReason,
  type Newcomer,
  type RoomEffect,
  type RoomEvent,
  type RoomOptions,
  type RoomState,
} from './room/index.ts';

/**
 * Connection of a member. Its methods must not call the hub synchronously, except {@link
 * Hub.disconnect} for the peer itself.
 */
export interface Peer {
  readonly member: string;
  /** The room has admitted this member. */
  admit(room: string): void;
  send(message: ServerMessage): void;
  /** The room has removed the member: send the reason and close the connection. */
  expel(code: RefusalCode, message: string): void;
  /**
   * The room continues in another process: close the connection, so that the member searches for
   * the room.
   */
  release(): void;
}

/** A request to enter a room. */
export type Entry = Newcomer & ({ type: 'join' } | { type: 'reconnect'; reconnectState: ReconnectReport });

/**
 * Result of a request to enter a room. `refused`: the room has sent the reason to the peer. `gone`:
 * the room is not in this process.
 */
export type EntryOutcome = 'entered' | 'refused' | 'gone';

/** Messages of members that concern their room. */
export type MemberMessage = Exclude<ClientMessage, { type: 'create' | 'join' | 'reconnect' | 'leave' }>;

export interface NewRoom extends RoomOpening {
  /**
   * Whether the room lasts as long as the server. Other rooms are dropped some time after their
   * last member has left.
   */
  isPermanent: boolean;
  /** Code of the room, which no other room may have. Random by default. */
  code?: string | undefined;
}

interface Room {
  state: RoomState;
  readonly peers: Map<string, Peer>;
  /** Whether the room is kept when it has no members. */
  readonly isPermanent: boolean;
  /** Functions that cancel the room's timers, by key. */
  readonly timers: Map<string, () => void>;
}

/** Receives the events of all rooms. */
interface HubListener {
  opened(code: string): void;
  forgotten(code: string): void;
  /** The member is no longer in the room. A member that is away is still in the room. */
  left(code: string, member: string): void;
  generationBegun(code: string, generation: number, worldSize: number, cause: GenerationCause): void;
}

/** Reason for a new generation. */
type GenerationCause = 'start' | 'growth' | 'removal' | 'retry';

interface HubOptions {
  clock: Clock;
  limits: Limits;
  listener: HubListener;
  /** Whether members receive a TURN relay. */
  hasRelay: boolean;
  serverLinks: ServerLinkMode;
  /** Bytes per second that the server forwards for links of all rooms. */
  serverLinksRate: number;
  /**
   * Signs the list of a room's removed members. Members keep the list and present it to a restarted
   * server.
   */
  seal: (room: string, members: readonly string[]) => string;
}

export class Hub {
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #hasRelay: boolean;
  readonly #serverLinks: ServerLinkMode;
  readonly #serverLinksRate: number;
  readonly #listener: HubListener;
  readonly #seal: HubOptions['seal'];
  readonly #rooms = new Map<string, Room>();
  /**
   * Empty rooms that will be dropped unless a member joins, in the order in which they became
   * empty. The values are functions that cancel their timers.
   */
  readonly #expiring = new Map<string, () => void>();

  constructor({ clock, limits, listener, hasRelay, serverLinks, serverLinksRate, seal }: HubOptions) {
    this.#clock = clock;
    this.#limits = limits;
    this.#hasRelay = hasRelay;
    this.#serverLinks = serverLinks;
    this.#serverLinksRate = serverLinksRate;
    this.#listener = listener;
    this.#seal = seal;
  }

  get rooms(): number {
    return this.#rooms.size;
  }

  get codes(): string[] {
    return [...this.#rooms.keys()];
  }

  has(code: string): boolean {
    return this.#rooms.has(code);
  }

  /** Returns a code that no local room has. */
  unusedCode(): string {
    for (;;) {
      const letters = Array.from(
        { length: ROOM_CODE_LENGTH },
        () => ROOM_CODE_ALPHABET[randomInt(ROOM_CODE_ALPHABET.length)],
      );
      const code = letters.join('');
      if (code !== NETWORK_CHECK_ROOM && !this.#rooms.has(code)) return code;
    }
  }

  /**
   * Whether the room of a restarted server knows this member only from reports of other members,
   * and waits for it. Such a member needs no token. A member that has connected since the restart
   * is among the room's peers, even while it is away: it has a token and must present it.
   */
  awaits(code: string, member: string): boolean {
    const room = this.#rooms.get(code);
    return room !== undefined && !room.peers.has(member) && (room.state.hidden.get(member)?.isAway ?? false);
  }

  /**
   * Opens an empty room and returns its code, or `null` if the server has its maximum number of
   * rooms, or already has a room with that code.
   */
  open({ isPermanent, code = this.unusedCode(), ...settings }: NewRoom): string | null {
    if (this.#rooms.has(code)) return null;
    const isCheck = code === NETWORK_CHECK_ROOM;
    return this.#add(code, createRoom({ ...settings, ...this.#roomOptions, isCheck }), isPermanent);
  }

  /**
   * Restores a room from a returning member's state; returns whether the server had space for the
   * room.
   */
  restore(code: string, reconnectState: ReconnectReport): boolean {
    // The Unix time in seconds is greater than all numbers that the room has used. These numbers
    // began at zero or at an earlier Unix time, and a room begins far less than one generation per
    // second.
    const numbersFrom = Math.floor(Date.now() / 1000);
    const state = restore(reconnectState.settings, this.#roomOptions, numbersFrom);
    return this.#add(code, state, false) !== null;
  }

  get #roomOptions(): Omit<RoomOptions, keyof RoomOpening> {
    const { roomCapacity: capacity, spectatorCapacity } = this.#limits;
    const [hasServerLinks, servesAll] = [this.#serverLinks === 'on', this.#serverLinks === 'only'];
    const hasRelay = this.#hasRelay && !servesAll;
    const serverLinksRate = this.#serverLinks === 'off' ? null : this.#serverLinksRate;
    return { capacity, spectatorCapacity, hasRelay, hasServerLinks, servesAll, serverLinksRate };
  }

  /** Drops a room and cancels its timers. Its members are not informed. */
  forget(code: string): void {
    this.#keep(code);
    if (this.#rooms.has(code)) this.#listener.forgotten(code);
    for (const cancel of this.#rooms.get(code)?.timers.values() ?? []) cancel();
    this.#rooms.delete(code);
  }

  /** Drops a room that another process has now. Its members reconnect to that process. */
  release(code: string): void {
    const { peers } = this.#rooms.get(code) ?? {};
    this.forget(code);
    for (const peer of peers?.values() ?? []) peer.release();
  }

  /** Asks the room to admit or readmit `peer`. The room answers through the peer. */
  enter(code: string, peer: Peer, entry: Entry): EntryOutcome {
    const room = this.#rooms.get(code);
    if (room === undefined) return 'gone';
    const before = room.peers.get(peer.member);
    room.peers.set(peer.member, peer);
    this.#dispatch(code, { ...entry, member: peer.member });
    const admitted = room.state.hidden.has(peer.member);
    if (admitted) this.#keep(code);
    else room.peers.delete(peer.member);
    // The member has closed this old connection, and the server has not noticed its end yet.
    before?.expel('silent', 'This tab has reconnected over another connection.');
    return admitted ? 'entered' : 'refused';
  }

  /**
   * Whether two members may link: both are ranks of the room's latest generation, or they are the
   * two ends of a feed with this number.
   */
  mayLink(code: string, generation: number, member: string, peer: string): boolean {
    const room = this.#rooms.get(code);
    return room !== undefined && mayLink(room.state, generation, member, peer);
  }

  /** Passes a member's message to its room. */
  dispatch(code: string, { member }: Peer, message: MemberMessage): void {
    const event = message.type === 'remove' ? ({ type: 'remove', whom: message.member } as const) : message;
    this.#dispatch(code, { ...event, member });
  }

  /**
   * Handles the end of a peer's connection. Ignores a connection that the member has already
   * replaced by a new one.
   * @param reason `null`: the connection was lost without a message, and its member may return over
   * another connection.
   */
  disconnect(code: string, peer: Peer, reason: LeaveReason | null): void {
    const { member } = peer;
    if (this.#rooms.get(code)?.peers.get(member) !== peer) return;
    this.#dispatch(code, reason === null ? { type: 'away', member } : { type: 'left', member, reason });
  }

  /** Applies an event to a room, if it still exists. */
  #dispatch(code: string, event: RoomEvent): void {
    const room = this.#rooms.get(code);
    if (room === undefined) return;
    const before = room.state;
    const { state, effects } = step(before, event);
    room.state = state;
    if (state.generation > before.generation && state.phase === 'LINKING') {
      this.#listener.generationBegun(code, state.generation, state.ring.length, causeOf(before, state));
    }
    for (const effect of effects) this.#apply(code, room, effect);
    if (state.hidden !== before.hidden) {
      for (const one of before.hidden.keys()) if (!state.hidden.has(one)) this.#listener.left(code, one);
    }
    if (room.peers.size <= state.hidden.size) return;
    for (const member of room.peers.keys()) if (!room.state.hidden.has(member)) room.peers.delete(member);
  }

  /** Drops all rooms and cancels all timers. */
  close(): void {
    for (const code of [...this.#rooms.keys()]) this.forget(code);
  }

  #add(code: string, state: RoomState, isPermanent: boolean): string | null {
    if (this.#rooms.size >= this.#limits.maxRooms) {
      // Drops the room that has been empty for longest. Without this, a client that opens rooms and
      // leaves them could prevent all others from opening a room.
      const [longestEmpty] = this.#expiring.keys();
      if (longestEmpty === undefined) return null;
      this.forget(longestEmpty);
    }
    this.#rooms.set(code, { state, peers: new Map(), isPermanent, timers: new Map() });
    this.#expire(code);
    this.#listener.opened(code);
    return code;
  }

  /** Drops an empty room unless a member joins in time. */
  #expire(code: string): void {
    if (this.#rooms.get(code)?.isPermanent !== false) return;
    this.#expiring.set(
      code,
      this.#clock.after(this.#limits.emptyRoomMs, () => this.forget(code)),
    );
  }

  #keep(code: string): void {
    this.#expiring.get(code)?.();
    this.#expiring.delete(code);
  }

  #send(code: string, { state, peers }: Room, { to, message }: Extract<RoomEffect, { type: 'send' }>): void {
    let sent = message;
    if (message.type === 'room' && state.removed.size > 0) {
      const members = [...state.removed].slice(-MAX_REMOVED_LISTED);
      sent = { ...message, removed: { members, seal: this.#seal(code, members) } };
    }
    for (const member of to) peers.get(member)?.send(sent);
  }

  #apply(code: string, room: Room, effect: RoomEffect): void {
    switch (effect.type) {
      case 'admit':
        return room.peers.get(effect.member)?.admit(code);
      case 'send':
        return this.#send(code, room, effect);
      case 'expel': {
        const peer = room.peers.get(effect.member);
        room.peers.delete(effect.member);
        return peer?.expel(effect.code, effect.message);
      }
      case 'setTimer': {
        const { key, ms, event } = effect;
        room.timers.get(key)?.();
        const fire = (): void => {
          room.timers.delete(key);
          this.#dispatch(code, event);
        };
        room.timers.set(key, this.#clock.after(ms, fire));
        return;
      }
      case 'clearTimer':
        room.timers.get(effect.key)?.();
        room.timers.delete(effect.key);
        return;
      case 'empty':
        return this.#expire(code);
      default:
        effect satisfies never;
    }
  }
}

function causeOf(before: RoomState, { ring, run }: RoomState): GenerationCause {
  if (run !== before.run) return 'start';
  const [earlier, now] = [before.ring, ring].map((members) => new Set(members.map(({ member }) => member)));
  if ([...earlier!].some((member) => !now!.has(member))) return 'removal';
  return now!.size > earlier!.size ? 'growth' : 'retry';
}
