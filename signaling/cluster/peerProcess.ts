/**
 * Represents another process that serves the same rooms. It relays messages in both directions:
 * between local members and rooms of the other process, between local rooms and members that are
 * connected to the other process, and between the two ends of links through the server. Both
 * processes send signs of life. If one of them stops or cannot be reached, both drop everything
 * that they relay, and the members reconnect as they do after a restart.
 */
import type { Clock } from '../../src/util/clock.ts';
import type { RefusalCode, ServerMessage } from '../../src/protocol/control.ts';
import { noRoomMessage } from '../../src/protocol/roomCode.ts';
import { SignalingError } from '../../src/util/errors.ts';
import { CLOSE_NORMAL, CLOSE_RESTART } from '../connection.ts';
import type { Entry, EntryOutcome, Hub, MemberMessage, Peer } from '../hub.ts';
import { countedBytesOf } from '../links/pairedLink.ts';
import type { ServerLinks } from '../links/serverLinks.ts';
import type { LeaveReason } from '../room/index.ts';
import type { RoomOwner } from '../roomDirectory.ts';
import type { Announcement, Envelope, Letter, ToAll } from './envelope.ts';
import { RemoteEnd, type Mail } from './remoteEnd.ts';

/** Milliseconds between two signs of life. */
const ALIVE_MS = 2_000;
/**
 * Milliseconds without a sign of life after which the other process is considered gone. Equal to
 * the duration of a lease on a room.
 */
const SILENT_MS = 6_000;
/**
 * Bytes of frames that may be on their way to the other process. Further frames wait here. By
 * default, Redis disconnects a process for which 32 MiB wait, or 8 MiB for a minute.
 */
export const PROCESS_WINDOW_BYTES = 1024 * 1024;
/** Bytes of frames after which the process that receives them acknowledges them. */
const ACKNOWLEDGED_BYTES = PROCESS_WINDOW_BYTES / 4;

interface PeerProcessOptions {
  address: string;
  hub: Hub;
  clock: Clock;
  /** Returns a number for a new connection. */
  count: () => number;
  /** Returns the links of this process, or `null` if it forwards none. */
  links: () => ServerLinks | null;
  send: (letter: Letter, frame: Buffer | null) => void;
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

  expel(code: RefusalCode, message: string): void {
    this.#peer.dismiss(this.#connection);
    this.#peer.post({ type: 'expel', connection: this.#connection, code, message });
  }

  release(): void {
    this.#peer.dismiss(this.#connection);
    this.#peer.post({ type: 'release', connection: this.#connection });
  }
}

/** A letter of a link that is not sent. */
interface WaitingLetter {
  readonly letter: Letter;
  readonly frame: Buffer | null;
  readonly onsent: () => void;
}

/** A question of {@link PeerProcess.mayLink}. */
interface Question {
  readonly resolve: (mayLink: boolean) => void;
  readonly reject: (error: Error) => void;
}

export class PeerProcess implements RoomOwner, Mail {
  readonly #options: PeerProcessOptions;
  /** Local members whose rooms are in the other process, by connection number. */
  readonly #relayed = new Map<number, Peer>();
  readonly #numbers = new Map<Peer, number>();
  readonly #guests = new Map<number, Guest>();
  /** Ends of links in the other process, by the numbers of their local ends. */
  readonly #ends = new Map<number, RemoteEnd>();
  readonly #questions = new Map<number, Question>();
  /** Letters of links that wait for {@link PROCESS_WINDOW_BYTES}. */
  #waiting: WaitingLetter[] = [];
  /** Counted bytes of sent frames that the other process has not acknowledged. */
  #unreceived = 0;
  /** Counted bytes of received frames that are not acknowledged. */
  #received = 0;
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
   * Asks the other process to admit `peer`; that process answers through `peer`. Returns `gone` if
   * relaying has ended, otherwise `entered`.
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

  async mayLink(room: string, generation: number, member: string, peer: string): Promise<boolean> {
    if (this.#isOver) throw unreachable();
    const connection = this.#options.count();
    this.post({ type: 'ask', connection, room, generation, member, peer });
    return new Promise((resolve, reject) => this.#questions.set(connection, { resolve, reject }));
  }

  /** Returns the end that waits in the other process, and pairs it with the local end `own`. */
  meet(own: number, waiting: Announcement): RemoteEnd {
    const { connection, room, generation, channel, member, peer } = waiting;
    const place = { room, generation, channel, member: peer, peer: member };
    // This letter is sent at once instead of posted, so that no frame arrives before it.
    this.#options.send({ type: 'pair', connection, other: own, ...place }, null);
    return this.#link(own, connection);
  }

  #pair({ connection, other, ...place }: Extract<Envelope, { type: 'pair' }>): void {
    // The two ends have found each other at the same time.
    if (this.#ends.get(connection)?.other === other) return;
    if (this.#options.links()?.join(place, () => this.#link(connection, other)) === true) return;
    this.post({ type: 'unlink', connection: other, code: CLOSE_NORMAL, why: 'The other end of the link has closed.' });
  }

  #link(own: number, other: number): RemoteEnd {
    const end = new RemoteEnd(own, other, this);
    this.#ends.set(own, end);
    return end;
  }

  forget({ own }: RemoteEnd): void {
    this.#ends.delete(own);
  }

  forward(letter: Letter, frame: Buffer | null, onsent: () => void): void {
    this.#waiting.push({ letter, frame, onsent });
    this.#forwardWaiting();
  }

  drop(connection: number): void {
    const isDropped = ({ letter }: WaitingLetter): boolean =>
      letter.type === 'frame' && letter.connection === connection;
    const dropped = this.#waiting.filter(isDropped);
    this.#waiting = this.#waiting.filter((one) => !isDropped(one));
    for (const { onsent } of dropped) onsent();
  }

  #forwardWaiting(): void {
    while (this.#waiting.length > 0 && this.#unreceived < PROCESS_WINDOW_BYTES) {
      const { letter, frame, onsent } = this.#waiting.shift()!;
      this.#unreceived += frame === null ? 0 : countedBytesOf(frame);
      this.#options.send(letter, frame);
      onsent();
    }
  }

  #receiveFrame(connection: number, frame: Buffer): void {
    this.#received += countedBytesOf(frame);
    if (this.#received >= ACKNOWLEDGED_BYTES) this.#acknowledge();
    this.#ends.get(connection)?.emit('message', frame, true);
  }

  #acknowledge(): void {
    if (this.#received === 0) return;
    this.post({ type: 'received', bytes: this.#received });
    this.#received = 0;
  }

  /** Handles an envelope from the other process, and the frame that follows it. */
  receive(envelope: Exclude<Envelope, ToAll>, frame: Buffer): void {
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
      case 'ask': {
        const { connection, room, generation, member, peer } = envelope;
        return this.post({ type: 'answer', connection, mayLink: hub.mayLink(room, generation, member, peer) });
      }
      case 'answer':
        this.#questions.get(envelope.connection)?.resolve(envelope.mayLink);
        this.#questions.delete(envelope.connection);
        return;
      case 'pair':
        return this.#pair(envelope);
      case 'frame':
        return this.#receiveFrame(envelope.connection, frame);
      case 'taken':
        return this.#ends.get(envelope.connection)?.taken(envelope.messages);
      case 'received':
        this.#unreceived -= envelope.bytes;
        return this.#forwardWaiting();
      case 'unlink':
        return this.#ends.get(envelope.connection)?.end(envelope.code, envelope.why);
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
    else this.post({ type: 'expel', connection, code: 'no-room', message: noRoomMessage(room) });
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
   * merged, so a message to many members is sent only once. So are successive acknowledgements of
   * the same link.
   */
  post(letter: Letter): void {
    if (this.#isOver) return;
    const last = this.#unsent.at(-1);
    if (letter.type === 'send' && last?.type === 'send' && letter.message === last.message) {
      last.connections.push(...letter.connections);
      return;
    }
    if (letter.type === 'taken' && last?.type === 'taken' && letter.connection === last.connection) {
      last.messages += letter.messages;
      return;
    }
    this.#unsent.push(letter);
    if (this.#unsent.length === 1) setImmediate(() => this.#flush());
  }

  #flush(): void {
    for (const letter of this.#unsent.splice(0)) this.#options.send(letter, null);
  }

  #beat(): void {
    const { clock } = this.#options;
    const relayed = [this.#relayed, this.#guests, this.#ends, this.#questions];
    this.#acknowledge();
    const unsent = this.#unsent.length + this.#waiting.length + this.#unreceived;
    if (unsent === 0 && relayed.every(({ size }) => size === 0)) return this.end();
    if (clock.now() - this.#receivedAt >= SILENT_MS) return this.part();
    this.post({ type: 'alive' });
    this.#cancelTimer = clock.after(ALIVE_MS, () => this.#beat());
  }

  /** Ends all relaying and informs the other process. */
  part(): void {
    if (this.#isOver) return;
    this.#flush();
    this.#options.send({ type: 'part' }, null);
    this.end();
  }

  /**
   * Ends all relaying. Local members search for their rooms again. In rooms of this process, guests
   * count as disconnected members, which may return. Links end. Idempotent.
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
    for (const end of [...this.#ends.values()]) end.end(CLOSE_RESTART, 'The server process of the other end is gone.');
    for (const { onsent } of this.#waiting.splice(0)) onsent();
    for (const { reject } of this.#questions.values()) reject(unreachable());
    for (const peer of relayed) peer.release();
    for (const guest of guests) this.#options.hub.disconnect(guest.room, guest, null);
  }
}

function unreachable(): SignalingError {
  return new SignalingError('The server process that has the room is gone. Try again in a few seconds.');
}
