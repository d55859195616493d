/**
 * All rooms of the server: feeds each room's state machine and carries out its effects. Knows members as {@link Peer},
 * not as sockets.
 */
import { randomInt } from 'node:crypto';
import type { ServerMessage } from '../src/protocol/control.ts';
import type { JobSpec } from '../src/protocol/job.ts';
import { ROOM_CODE_ALPHABET, ROOM_CODE_LENGTH } from '../src/protocol/roomCode.ts';
import type { Clock } from '../src/util/clock.ts';
import type { Limits } from './limits.ts';
import { createRoom, step, type Newcomer, type RoomEffect, type RoomEvent, type RoomState } from './room.ts';

/** One member's connection. `send` must not call back into the hub at once. */
export interface Peer {
  readonly member: string;
  /** The room has taken this member: tell it so. */
  admit(room: string): void;
  send(message: ServerMessage): void;
}

export interface NewRoom {
  job: JobSpec;
  startAt: number | null;
  /** Lasts as long as the server does; any other is forgotten some time after its last member left. */
  isPermanent: boolean;
  /** One that no room has; by default a random one. */
  code?: string | undefined;
}

interface Room {
  state: RoomState;
  readonly peers: Map<string, Peer>;
  /** Kept as long as the server runs, whoever leaves. */
  readonly isPermanent: boolean;
  cancelDeadline: () => void;
}

const nothing = (): void => {};

export class Hub {
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #rooms = new Map<string, Room>();
  /** Rooms to be forgotten unless somebody joins, in the order in which they became empty; what stops their clocks. */
  readonly #expiring = new Map<string, () => void>();

  constructor(clock: Clock, limits: Limits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  get rooms(): number {
    return this.#rooms.size;
  }

  has(code: string): boolean {
    return this.#rooms.has(code);
  }

  /** A new empty room's code, or `null` when the server holds as many rooms as it may. */
  open({ job, startAt, isPermanent, code = this.#unusedCode() }: NewRoom): string | null {
    if (this.#rooms.size >= this.#limits.maxRooms) {
      // Else who opens rooms and leaves them could keep everybody else from opening one.
      const [longestEmpty] = this.#expiring.keys();
      if (longestEmpty === undefined) return null;
      this.forget(longestEmpty);
    }
    const state = createRoom(job, startAt, this.#limits.roomCapacity);
    this.#rooms.set(code, { state, peers: new Map(), isPermanent, cancelDeadline: nothing });
    this.#expire(code);
    return code;
  }

  /** Drops a room that nobody is in. */
  forget(code: string): void {
    this.#keep(code);
    this.#rooms.delete(code);
  }

  /** Asks the room to take `peer`; it answers through the peer. Whether it did. */
  join(code: string, peer: Peer, newcomer: Newcomer): boolean {
    const room = this.#rooms.get(code);
    if (room === undefined) return false;
    room.peers.set(peer.member, peer);
    this.dispatch(code, { type: 'join', member: peer.member, ...newcomer });
    const admitted = room.state.members.some((m) => m.member === peer.member);
    if (admitted) this.#keep(code);
    else room.peers.delete(peer.member);
    return admitted;
  }

  /** Something happened in a room. A room that is gone ignores it. */
  dispatch(code: string, event: RoomEvent): void {
    const room = this.#rooms.get(code);
    if (room === undefined) return;
    if (event.type === 'left') room.peers.delete(event.member);
    const { state, effects } = step(room.state, event);
    room.state = state;
    for (const effect of effects) this.#apply(code, room, effect);
  }

  /** Forgets every room and stops every clock. */
  close(): void {
    for (const room of this.#rooms.values()) room.cancelDeadline();
    for (const cancel of this.#expiring.values()) cancel();
    this.#rooms.clear();
    this.#expiring.clear();
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

  #apply(code: string, room: Room, effect: RoomEffect): void {
    switch (effect.type) {
      case 'admit':
        return room.peers.get(effect.member)?.admit(code);
      case 'send':
        for (const member of effect.to) room.peers.get(member)?.send(effect.message);
        return;
      case 'setDeadline': {
        const { ms, epoch, phase } = effect;
        room.cancelDeadline();
        room.cancelDeadline = this.#clock.after(ms, () => this.dispatch(code, { type: 'deadline', epoch, phase }));
        return;
      }
      case 'clearDeadline':
        return room.cancelDeadline();
      case 'empty':
        return this.#expire(code);
      default:
        effect satisfies never;
    }
  }

  #unusedCode(): string {
    for (;;) {
      const letters = Array.from(
        { length: ROOM_CODE_LENGTH },
        () => ROOM_CODE_ALPHABET[randomInt(ROOM_CODE_ALPHABET.length)],
      );
      const code = letters.join('');
      if (!this.#rooms.has(code)) return code;
    }
  }
}
