/**
 * All rooms of the server: feeds each room's state machine and carries out its effects. Knows
 * members as {@link Peer}, not as sockets.
 */
import { randomInt } from 'node:crypto';
import { MAX_WORLD_SIZE } from '../src/protocol/scalars.ts';
import type { ClientMessage, Refusal, ServerMessage } from '../src/protocol/control.ts';
import type { RoomOpening, ReconnectState } from '../src/protocol/room.ts';
import { ROOM_CODE_ALPHABET, ROOM_CODE_LENGTH } from '../src/protocol/roomCode.ts';
import type { Clock } from '../src/util/clock.ts';
import type { Limits } from './limits.ts';
import {
  createRoom,
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
 * One member's connection. What it is told must not call back into the hub at once, but for `left`
 * of its own.
 */
export interface Peer {
  readonly member: string;
  /** The room has taken this member: tell it so. */
  admit(room: string): void;
  send(message: ServerMessage): void;
  /** The member is out of the room: tell it why and hang up. */
  expel(code: Refusal, message: string): void;
  /**
   * The room is no longer here, and goes on elsewhere: hang up, so that the member looks for it.
   */
  release(): void;
}

/** How a member asks to be let in. */
export type Entry = Newcomer & ({ type: 'join' } | { type: 'reconnect'; reconnectState: ReconnectState });

/** `refused`: the room has told the peer why. `gone`: the room is not here. */
export type EntryOutcome = 'entered' | 'refused' | 'gone';

/** What members say that concerns their room. */
export type MemberMessage = Exclude<ClientMessage, { type: 'create' | 'join' | 'reconnect' | 'heartbeat' | 'leave' }>;

export interface NewRoom extends RoomOpening {
  /**
   * Lasts as long as the server does; any other is forgotten some time after its last member left.
   */
  isPermanent: boolean;
  /** One that no room has; by default a random one. */
  code?: string | undefined;
}

interface Room {
  state: RoomState;
  readonly peers: Map<string, Peer>;
  /** Kept as long as the server runs, whoever leaves. */
  readonly isPermanent: boolean;
  /** What stops the room's timers, by key. */
  readonly timers: Map<string, () => void>;
}

/** Is told what becomes of rooms. */
interface HubListener {
  opened(code: string): void;
  forgotten(code: string): void;
  generationBegun(code: string, generation: number, worldSize: number, cause: GenerationCause): void;
}

/** Why a generation's members are others than before. */
type GenerationCause = 'start' | 'growth' | 'removal' | 'retry';

interface HubOptions {
  clock: Clock;
  limits: Limits;
  listener: HubListener;
  /** Whether members are told of a TURN relay. */
  hasRelay: boolean;
  /** Signs who was sent out of a room: members remember it for a server that does not. */
  seal: (room: string, members: readonly string[]) => string;
}

export class Hub {
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #hasRelay: boolean;
  readonly #listener: HubListener;
  readonly #seal: HubOptions['seal'];
  readonly #rooms = new Map<string, Room>();
  /**
   * Rooms to be forgotten unless somebody joins, in the order in which they became empty; what
   * stops their clocks.
   */
  readonly #expiring = new Map<string, () => void>();

  constructor({ clock, limits, listener, hasRelay, seal }: HubOptions) {
    this.#clock = clock;
    this.#limits = limits;
    this.#hasRelay = hasRelay;
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

  /** A code that no room here has. */
  unusedCode(): string {
    for (;;) {
      const letters = Array.from(
        { length: ROOM_CODE_LENGTH },
        () => ROOM_CODE_ALPHABET[randomInt(ROOM_CODE_ALPHABET.length)],
      );
      const code = letters.join('');
      if (!this.#rooms.has(code)) return code;
    }
  }

  /**
   * Whether a room waits for a member of which only others have told. One that has been here was
   * given a token, and has to show it: it is among the room's peers, also while it is away.
   */
  awaits(code: string, member: string): boolean {
    const room = this.#rooms.get(code);
    return room !== undefined && !room.peers.has(member) && (room.state.hidden.get(member)?.isAway ?? false);
  }

  /** A new empty room's code, or `null` when the server holds as many rooms as it may. */
  open({ isPermanent, code = this.unusedCode(), ...settings }: NewRoom): string | null {
    return this.#add(code, createRoom({ ...settings, ...this.#roomOptions }), isPermanent);
  }

  /** Makes a room anew that a returning member remembers. Whether there was place for it. */
  restore(code: string, reconnectState: ReconnectState): boolean {
    // A room begins far less than one generation a second.
    const numbersFrom = Math.floor(Date.now() / 1000);
    const state = restore(reconnectState.settings, this.#roomOptions, numbersFrom);
    return this.#add(code, state, false) !== null;
  }

  get #roomOptions(): Pick<RoomOptions, 'capacity' | 'spectatorCapacity' | 'hasRelay'> {
    const { roomCapacity: capacity, spectatorCapacity } = this.#limits;
    return { capacity, spectatorCapacity, hasRelay: this.#hasRelay };
  }

  /** Drops a room that nobody is in. */
  forget(code: string): void {
    this.#keep(code);
    if (this.#rooms.has(code)) this.#listener.forgotten(code);
    for (const cancel of this.#rooms.get(code)?.timers.values() ?? []) cancel();
    this.#rooms.delete(code);
  }

  /** Drops a room that has gone elsewhere, and sends its members after it. */
  release(code: string): void {
    const { peers } = this.#rooms.get(code) ?? {};
    this.forget(code);
    for (const peer of peers?.values() ?? []) peer.release();
  }

  /** Asks the room to take `peer`, or to take it back; the room answers through the peer. */
  enter(code: string, peer: Peer, entry: Entry): EntryOutcome {
    const room = this.#rooms.get(code);
    if (room === undefined) return 'gone';
    const before = room.peers.get(peer.member);
    room.peers.set(peer.member, peer);
    this.#dispatch(code, { ...entry, member: peer.member });
    const admitted = room.state.hidden.has(peer.member);
    if (admitted) this.#keep(code);
    else room.peers.delete(peer.member);
    // A connection that the member has given up, and the server not yet.
    before?.expel('silent', 'This tab has come back over another connection.');
    return admitted ? 'entered' : 'refused';
  }

  /** A member says something to its room. */
  dispatch(code: string, { member }: Peer, message: MemberMessage): void {
    const event = message.type === 'remove' ? ({ type: 'remove', whom: message.member } as const) : message;
    this.#dispatch(code, { ...event, member });
  }

  /**
   * A peer's connection is gone. One that its member has replaced is of no interest.
   *
   * @param reason `null`: without a word; its member may come back over another.
   */
  disconnect(code: string, peer: Peer, reason: LeaveReason | null): void {
    const { member } = peer;
    if (this.#rooms.get(code)?.peers.get(member) !== peer) return;
    this.#dispatch(code, reason === null ? { type: 'away', member } : { type: 'left', member, reason });
  }

  /** Something happened in a room. A room that is gone ignores it. */
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
    if (room.peers.size <= state.hidden.size) return;
    for (const member of room.peers.keys()) if (!room.state.hidden.has(member)) room.peers.delete(member);
  }

  /** Forgets every room and stops every clock. */
  close(): void {
    for (const code of [...this.#rooms.keys()]) this.forget(code);
  }

  #add(code: string, state: RoomState, isPermanent: boolean): string | null {
    if (this.#rooms.size >= this.#limits.maxRooms) {
      // Else who opens rooms and leaves them could keep everybody else from opening one.
      const [longestEmpty] = this.#expiring.keys();
      if (longestEmpty === undefined) return null;
      this.forget(longestEmpty);
    }
    this.#rooms.set(code, { state, peers: new Map(), isPermanent, timers: new Map() });
    this.#expire(code);
    this.#listener.opened(code);
    return code;
  }

  /** An empty room: to be forgotten unless somebody joins in time. */
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
      const members = [...state.removed].slice(-MAX_WORLD_SIZE);
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
