/**
 * Another process that serves the same rooms, as this one knows it: members here whose rooms it
 * has, and members there whose rooms are here. Both ends tell each other that they live; where one
 * falls silent, or cannot be reached, all that was between them is over on both, and members come
 * back as after a restart.
 */
import type { Clock } from '../../src/util/clock.ts';
import type { Refusal, ServerMessage } from '../../src/protocol/control.ts';
import { noRoom } from '../connection.ts';
import type { Entry, EntryOutcome, Hub, MemberMessage, Peer } from '../hub.ts';
import type { LeaveReason } from '../room/index.ts';
import type { RoomOwner } from '../roomDirectory.ts';
import type { Envelope, Letter } from './envelope.ts';

/**
 * Milliseconds between two signs of life, and without any until the other is gone: as long as its
 * rooms are its own.
 */
const ALIVE_MS = 2_000;
const SILENT_MS = 6_000;

interface PeerProcessOptions {
  address: string;
  hub: Hub;
  clock: Clock;
  /** The number of another connection. */
  count: () => number;
  send: (letter: Letter) => void;
  /** There is nothing between the two any more. Called once. */
  onover: () => void;
}

/** A member whose room is here and whose connection is there. */
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
    this.#peer.post({ type: 'tell', connections: [this.#connection], message });
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
  /** Members here whose rooms are there, by the number of their connection. */
  readonly #relayed = new Map<number, Peer>();
  readonly #numbers = new Map<Peer, number>();
  readonly #guests = new Map<number, Guest>();
  /** What goes out when this turn of the event loop is done. */
  #unsent: Letter[] = [];
  #heardAt: number;
  #isOver = false;
  #cancelTimer: () => void;

  constructor(options: PeerProcessOptions) {
    this.#options = options;
    const { clock } = options;
    this.#heardAt = clock.now();
    this.#cancelTimer = clock.after(ALIVE_MS, () => this.#beat());
  }

  /** Not asked: processes that share rooms share a secret, so members prove who they are. */
  awaits(): boolean {
    return false;
  }

  /** `entered`: the other process was asked, and it answers through the peer. */
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
    if (connection !== undefined) this.post({ type: 'say', connection, message });
  }

  disconnect(_room: string, peer: Peer, reason: LeaveReason | null): void {
    const connection = this.#numbers.get(peer);
    if (connection === undefined) return;
    this.#forget(connection, peer);
    this.post({ type: 'lose', connection, reason });
  }

  /** What the other says. */
  receive(envelope: Envelope): void {
    const { hub, clock } = this.#options;
    this.#heardAt = clock.now();
    switch (envelope.type) {
      case 'enter':
        return this.#admit(envelope);
      case 'say': {
        const guest = this.#guests.get(envelope.connection);
        if (guest !== undefined) hub.dispatch(guest.room, guest, envelope.message);
        return;
      }
      case 'lose': {
        const guest = this.#guests.get(envelope.connection);
        this.dismiss(envelope.connection);
        if (guest !== undefined) hub.disconnect(guest.room, guest, envelope.reason);
        return;
      }
      case 'admit':
        return this.#relayed.get(envelope.connection)?.admit(envelope.room);
      case 'tell':
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

  /** A guest asks to be let in. */
  #admit({ connection, room, member, entry }: Extract<Envelope, { type: 'enter' }>): void {
    const { hub } = this.#options;
    const guest = new Guest(member, room, connection, this);
    this.#guests.set(connection, guest);
    const outcome = hub.enter(room, guest, entry);
    if (outcome === 'entered') return;
    this.dismiss(connection);
    if (outcome === 'refused') return;
    // The room was forgotten or given up a moment ago. A returning member looks for it again, and
    // may open it again.
    if (entry.type === 'reconnect') guest.release();
    else this.post({ type: 'expel', connection, code: 'no-room', message: noRoom(room) });
  }

  /** A guest has gone, or has to. */
  dismiss(connection: number): void {
    this.#guests.delete(connection);
  }

  #forget(connection: number, peer: Peer): void {
    this.#relayed.delete(connection);
    this.#numbers.delete(peer);
  }

  /**
   * Sends, with what else is said in this turn of the event loop: what many are told is sent once.
   */
  post(letter: Letter): void {
    if (this.#isOver) return;
    const last = this.#unsent.at(-1);
    if (letter.type === 'tell' && last?.type === 'tell' && letter.message === last.message) {
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
    if (clock.now() - this.#heardAt >= SILENT_MS) return this.part();
    this.post({ type: 'alive' });
    this.#cancelTimer = clock.after(ALIVE_MS, () => this.#beat());
  }

  /** Ends it, and says so. */
  part(): void {
    if (this.#isOver) return;
    this.#flush();
    this.#options.send({ type: 'part' });
    this.end();
  }

  /**
   * Everything between the two is over: members here look for their rooms anew, members there may
   * come back. Idempotent.
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
