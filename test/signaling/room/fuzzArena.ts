/**
 * Members that send anything to the signaling server: malformed, oversized and truncated messages,
 * messages for other rooms, and repeated messages. Names and SDP contain the code of their room, so
 * every received message shows its room.
 */
import { type ClientMessage, MAX_CONTROL_BYTES, PROTOCOL_VERSION } from '../../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { createRng, type Rng } from '../../../src/util/rng.ts';

export const FUZZ_KINDS = ['malformed', 'oversized', 'truncated', 'cross-room', 'replayed'] as const;
export type FuzzKind = (typeof FUZZ_KINDS)[number];

/** Number of messages and ids that are remembered in order to send them again. */
const MEMORY = 2000;
/** The highest generation that the protocol allows. */
const MAX_ORDINAL = 2 ** 32 - 1;
/**
 * An oversized frame. It exceeds the limit of the protocol, so it ends the connection before a
 * message handler sees it.
 */
const OVERSIZED_FRAME = 'x'.repeat(MAX_CONTROL_BYTES + 1);

/** The state of one connection. */
export interface FuzzMember {
  /** The room that admitted the member. */
  room: string | null;
}

/** A list that contains only its last {@link MEMORY} values. */
class Recent<Value> {
  readonly #values: Value[] = [];
  #next = 0;

  add(value: Value): void {
    this.#values[this.#next] = value;
    this.#next = (this.#next + 1) % MEMORY;
  }

  any(rng: Rng): Value | undefined {
    return this.#values[rng.below(this.#values.length)];
  }
}

export class FuzzArena {
  readonly #rng: Rng;
  readonly #codes: readonly string[];
  readonly #ids = new Recent<string>();
  readonly #sentTexts = new Recent<string>();
  #generation = 0;
  /** Messages that were delivered to members of other rooms. */
  readonly leaks: string[] = [];
  readonly sent: Record<FuzzKind, number> = {
    malformed: 0,
    oversized: 0,
    truncated: 0,
    'cross-room': 0,
    replayed: 0,
  };
  /** Number of received messages that concern a room. */
  received = 0;

  /**
   * @param codes codes of rooms that all attackers know.
   * @param ids ids of members of other rooms that all attackers know.
   */
  constructor(seed: number, codes: readonly string[], ids: readonly string[] = []) {
    this.#rng = createRng(seed);
    this.#codes = codes;
    for (const id of ids) this.#ids.add(id);
  }

  /** Returns a valid first message. */
  join(): string {
    const room = this.#any(this.#codes);
    return JSON.stringify({
      type: 'join',
      version: PROTOCOL_VERSION,
      room,
      name: nameIn(room),
    } satisfies ClientMessage);
  }

  /**
   * Returns the next message of `member`.
   * @param kinds possible kinds of messages. Some kinds nearly always end the connection, others
   * hardly ever.
   */
  next(member: FuzzMember, kinds: readonly FuzzKind[] = FUZZ_KINDS): string | Buffer {
    const kind = this.#any(kinds);
    this.sent[kind]++;
    switch (kind) {
      case 'malformed':
        return this.#malformed(member);
      case 'oversized':
        return this.#oversized(member);
      case 'truncated': {
        const text = this.#text(member);
        return text.slice(0, this.#rng.below(text.length));
      }
      case 'cross-room':
        return this.#text(member);
      case 'replayed':
        return this.#sentTexts.any(this.#rng) ?? this.join();
      default:
        return kind satisfies never;
    }
  }

  /** Checks that a message to `member` concerns its own room. */
  receive(member: FuzzMember, text: string): void {
    const message = JSON.parse(text) as Record<string, unknown>;
    if (message['type'] === 'admitted') {
      member.room = String(message['room']);
      this.#ids.add(String(message['member']));
    }
    if (typeof message['generation'] === 'number') this.#generation = message['generation'];
    // If a refused member knows a room's code, it may receive the reason, which contains names of
    // the room's members.
    if (message['type'] === 'refused' && member.room === null) return;
    const named = roomsIn(text);
    if (named.length > 0) this.received++;
    if (named.some((room) => room !== member.room)) this.leaks.push(`to ${member.room}: ${text.slice(0, 500)}`);
  }

  #any<Value>(values: readonly Value[]): Value {
    return values[this.#rng.below(values.length)]!;
  }

  /** Returns a valid message, to any member and about any generation. */
  #message(member: FuzzMember): ClientMessage {
    const rng = this.#rng;
    const generation = this.#any([this.#generation, this.#generation, rng.below(10), MAX_ORDINAL]);
    const room = this.#any(this.#codes);
    const sdp = member.room === null ? 'v=0' : nameIn(member.room);
    const to = this.#ids.any(rng) ?? 'nobody-at-all';
    const step = rng.below(3);
    const any: (() => ClientMessage)[] = [
      () => ({
        type: 'create',
        version: PROTOCOL_VERSION,
        name: 'founder',
        job: DEFAULT_JOB,
        startAt: 2,
        nodes: this.#any([null, { min: 1, max: 8 }]),
      }),
      () => ({ type: 'join', version: PROTOCOL_VERSION, room, name: nameIn(room), rank: rng.below(64) }),
      () => ({ type: 'join', version: PROTOCOL_VERSION, room, name: nameIn(room), isSpectator: true }),
      () => ({ type: 'spectator-update', update: sdp }),
      () => ({ type: 'ready', device: { backend: 'cpu', adapter: String(step) }, stateOfRun: this.#any([null, 1]) }),
      () => ({ type: 'configure', job: DEFAULT_JOB }),
      () => ({ type: 'start' }),
      () => ({ type: 'linked', generation }),
      () => ({ type: 'synced', generation, step, stateHash: 'h' }),
      () => ({ type: 'syncing', generation }),
      () => ({ type: 'finished', generation, step, stateHash: 'h' }),
      () => ({ type: 'failed', generation, message: sdp, scope: this.#any(['rank', 'generation', 'run']) }),
      () => ({ type: 'broken', generation, peers: [to] }),
      () => ({ type: 'late', generation, peers: [to, to] }),
      () => ({ type: 'stop' }),
      () => ({ type: rng.next() < 0.5 ? 'pause' : 'resume' }),
      () => ({ type: 'lock', isLocked: rng.next() < 0.5 }),
      () => ({ type: 'remove', member: to }),
      () => this.#reconnect(room, to, generation),
      () => ({ type: 'heartbeat' }),
      () => ({ type: 'leave' }),
    ];
    const isSignal = rng.next() < 0.5;
    if (!isSignal) return this.#any(any)();
    return { type: 'signal', generation, to, attempt: rng.below(4), signal: { type: 'offer', sdp } };
  }

  /** Returns the message of a client that claims to have been a member, with an invalid token. */
  #reconnect(room: string, member: string, generation: number): ClientMessage {
    const settings = { job: DEFAULT_JOB, startAt: 2, nodes: null, isLocked: false, isPausedByHost: false };
    return {
      type: 'reconnect',
      version: PROTOCOL_VERSION,
      room,
      member,
      token: 'not-a-token-of-ours',
      name: nameIn(room),
      reconnectState: { settings, run: 1, isRunOn: true, generation, active: null },
    };
  }

  #text(member: FuzzMember): string {
    const message = this.#message(member);
    const text = JSON.stringify(message);
    // A message that contains the code of its room would look like a leak if another member
    // repeated it.
    if (!['signal', 'failed', 'spectator-update'].includes(message.type)) this.#sentTexts.add(text);
    return text;
  }

  #malformed(member: FuzzMember): string | Buffer {
    const rng = this.#rng;
    const text = this.#text(member);
    const flip = (): Buffer => {
      const bytes = Buffer.from(text);
      for (let i = 0; i < 3; i++) bytes[rng.below(bytes.length)] = rng.below(256);
      return bytes;
    };
    const fields = JSON.parse(text) as Record<string, unknown>;
    const field = this.#any(Object.keys(fields));
    const odd = this.#any<unknown>([null, -1, 1.5, 1e300, '', [], {}, true, 'x', [[[]]], { toString: 1 }]);
    return this.#any<() => string | Buffer>([
      flip,
      () => flip().toString('latin1'),
      () => JSON.stringify({ ...fields, [field]: odd }),
      () => JSON.stringify({ ...fields, [`${field}x`]: odd }),
      () => text.replace('{', '{"__proto__":{"type":"leave"},"constructor":{},'),
      () => text.replace('{', '{"type":"start",'),
      () => '['.repeat(rng.below(10_000)),
      () => this.#any(['', '0', 'null', '"x"', '[]', '{}', '\u0000', '\uFEFF{}', 'NaN', '1e999', '{"type":{}}']),
      () => JSON.stringify([fields]),
    ])();
  }

  #oversized(member: FuzzMember): string {
    const rng = this.#rng;
    const text = this.#text(member);
    const long = 'y'.repeat(49 * 1024 + rng.below(8 * 1024));
    return this.#any<() => string>([
      () => text.replace(/:"[^"]*"/g, `:"${long.slice(0, 2000)}"`),
      () =>
        JSON.stringify({ type: 'signal', generation: 1, to: 'x', attempt: 0, signal: { type: 'offer', sdp: long } }),
      () => JSON.stringify({ type: 'failed', generation: 1, message: long }),
      () => text.padEnd(MAX_CONTROL_BYTES, ' '),
      () => OVERSIZED_FRAME,
    ])();
  }
}

/** Returns the text that marks a room in messages. */
function nameIn(room: string): string {
  return `in room ${room}`;
}

function roomsIn(text: string): string[] {
  return Array.from(text.matchAll(/in room ([A-Z0-9]{6})/g), (match) => match[1]!);
}
