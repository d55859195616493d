/**
 * Represents another process that serves the same rooms. It relays messages in both directions:
 * between local members and rooms of the other process, and between local rooms and members that
 * are connected to the other process. Both processes send signs of life. If one of them stops or
 * cannot be reached, both drop everything that they relay, and the members reconnect as they do
 * after a restart.
 */
import type { Clock } from '../../src/util/clock.ts';
import type { Refusal, ServerMessage } from '../../src/protocol/control.ts';
import { noRoom } from '../../src/protocol/roomCode.ts';
import type { Entry, EntryOutcome, Hub, MemberMessage, Peer } from '../hub.ts';
import type { LeaveReason } from '../room/index.ts';
import type { RoomOwner } from '../roomDirectory.ts';
import type { Envelope, Letter } from './envelope.ts';

/**
 * Milliseconds between two signs of life, and milliseconds without a sign of life after which the
 * other process is considered gone. The second value is equal to the duration of a lease on a room.
 */
const ALIVE_MS = 2_000;
const SILENT_MS = 6_000;

interface PeerProcessOptions {
  address: string;
  hub: Hub;
  clock: Clock;
  /** Returns a number for a new connection. */
  count: () => number;
  send: (letter: Letter) => void;
  /** Called once when all relaying has ended. */
  onover: () => void;
}

/** A member whose room is in this process and whose connection is in the other process. */
class Guest implements Peer {
  readonly member: string;
  readonly room: string;
  readonly #connection: number;
  readonly #peer: PeerProcess;

  constructor(member: string, room: string, connection: number, peer: PeerProcess) {
    this.member = member;
    this.room = room;
    this.#connection = connection;
    this.#peer = peer;
  }

  admit(room: string): void {
    this.#peer.post({ type: 'admit', connection: this.#connection, room });
  }

  send(message: ServerMessage): void {
    this.#peer.post({ type: 'send', connections: [this.#connection], message });
  }

  expel(code: Refusal, message: string): void {
    this.#peer.dismiss(this.#connection);
    this.#peer.post({ type: 'expel', connection: this.#connection, code, message });
  }

  release(): void {
    this.#peer.dismiss(this.#connection);
    this.#peer.post({ type: 'release', connection: this.#connection });
  }
}

export class PeerProcess implements RoomOwner {
  readonly #options: PeerProcessOptions;
  /** Local members whose rooms are in the other process, by connection number. */
  readonly #relayed = new Map<number, Peer>();
  readonly #numbers = new Map<Peer, number>();
  readonly #guests = new Map<number, Guest>();
  /** Letters that wait to be sent after this turn of the event loop. */
  #unsent: Letter[] = [];
  #receivedAt: number;
  #isOver = false;
  #cancelTimer: () => void;

  constructor(options: PeerProcessOptions) {
    this.#options = options;
    const { clock } = options;
    this.#receivedAt = clock.now();
    this.#cancelTimer = clock.after(ALIVE_MS, () => this.#beat());
  }

  /**
   * Whether the room waits for a member that needs no token. Always false: processes that share
   * rooms also share a secret, so every member must present its token.
   */
  awaits(): boolean {
    return false;
  }

  /**
   * Requests the other process to admit `peer`; that process answers through `peer`. Returns `gone`
   * if relaying has ended, otherwise `entered`.
   */
  enter(room: string, peer: Peer, entry: Entry): EntryOutcome {
    if (this.#isOver) return 'gone';
    const connection = this.#options.count();
    this.#relayed.set(connection, peer);
    this.#numbers.set(peer, connection);
    this.post({ type: 'enter', connection, room, member: peer.member, entry });
    return 'entered';
  }

  dispatch(_room: string, peer: Peer, message: MemberMessage): void {
    const connection = this.#numbers.get(peer);
    if (connection !== undefined) this.post({ type: 'dispatch', connection, message });
  }

  disconnect(_room: string, peer: Peer, reason: LeaveReason | null): void {
    const connection = this.#numbers.get(peer);
    if (connection === undefined) return;
    this.#forget(connection, peer);
    this.post({ type: 'disconnect', connection, reason });
  }

  /** Handles an envelope from the other process. */
  receive(envelope: Envelope): void {
    const { hub, clock } = this.#options;
    this.#receivedAt = clock.now();
    switch (envelope.type) {
      case 'enter':
        return this.#admit(envelope);
      case 'dispatch': {
        const guest = this.#guests.get(envelope.connection);
        if (guest !== undefined) hub.dispatch(guest.room, guest, envelope.message);
        return;
      }
      case 'disconnect': {
        const guest = this.#guests.get(envelope.connection);
        this.dismiss(envelope.connection);
        if (guest !== undefined) hub.disconnect(guest.room, guest, envelope.reason);
        return;
      }
      case 'admit':
        return this.#relayed.get(envelope.connection)?.admit(envelope.room);
      case 'send':
        for (const connection of envelope.connections) this.#relayed.get(connection)?.send(envelope.message);
        return;
      case 'expel':
        return this.#relayed.get(envelope.connection)?.expel(envelope.code, envelope.message);
      case 'release': {
        const peer = this.#relayed.get(envelope.connection);
        if (peer !== undefined) this.#forget(envelope.connection, peer);
        return peer?.release();
      }
      case 'alive':
        return;
      case 'part':
        return this.end();
      default:
        envelope satisfies never;
    }
  }

  /** Handles a guest's request to join or reconnect. */
  #admit({ connection, room, member, entry }: Extract<Envelope, { type: 'enter' }>): void {
    const { hub } = this.#options;
    const guest = new Guest(member, room, connection, this);
    this.#guests.set(connection, guest);
    const outcome = hub.enter(room, guest, entry);
    if (outcome === 'entered') return;
    this.dismiss(connection);
    if (outcome === 'refused') return;
    // The room was dropped a moment ago. A returning member searches for its room again, and may
    // restore it.
    if (entry.type === 'reconnect') guest.release();
    else this.post({ type: 'expel', connection, code: 'no-room', message: noRoom(room) });
  }

  /** Forgets a guest that has left or was removed. */
  dismiss(connection: number): void {
    this.#guests.delete(connection);
  }

  #forget(connection: number, peer: Peer): void {
    this.#relayed.delete(connection);
    this.#numbers.delete(peer);
  }

  /**
   * Sends a letter after this turn of the event loop. Successive letters with the same message are
   * merged, so a message to many members is sent only once.
   */
  post(letter: Letter): void {
    if (this.#isOver) return;
    const last = this.#unsent.at(-1);
    if (letter.type === 'send' && last?.type === 'send' && letter.message === last.message) {
      last.connections.push(...letter.connections);
      return;
    }
    this.#unsent.push(letter);
    if (this.#unsent.length === 1) setImmediate(() => this.#flush());
  }

  #flush(): void {
    for (const letter of this.#unsent.splice(0)) this.#options.send(letter);
  }

  #beat(): void {
    const { clock } = this.#options;
    const isIdle = this.#relayed.size === 0 && this.#guests.size === 0 && this.#unsent.length === 0;
    if (isIdle) return this.end();
    if (clock.now() - this.#receivedAt >= SILENT_MS) return this.part();
    this.post({ type: 'alive' });
    this.#cancelTimer = clock.after(ALIVE_MS, () => this.#beat());
  }

  /** Ends all relaying and informs the other process. */
  part(): void {
    if (this.#isOver) return;
    this.#flush();
    this.#options.send({ type: 'part' });
    this.end();
  }

  /**
   * Ends all relaying. Local members search for their rooms again. In rooms of this process, guests
   * count as disconnected members, which may return. Idempotent.
   */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelTimer();
    this.#unsent = [];
    this.#options.onover();
    const relayed = [...this.#relayed.values()];
    const guests = [...this.#guests.values()];
    this.#relayed.clear();
    this.#numbers.clear();
    this.#guests.clear();
    for (const peer of relayed) peer.release();
    for (const guest of guests) this.#options.hub.disconnect(guest.room, guest, null);
  }
}
