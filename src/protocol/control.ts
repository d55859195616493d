/**
 * Control messages between a tab and the signaling server: JSON text over one WebSocket. Both ends check every message
 * against these schemas; what does not fit is refused, never guessed at. docs/PROTOCOL.md has the same as a table.
 */
import * as v from 'valibot';
import { ProtocolError } from '../util/errors.ts';
import { JobSpec } from './job.ts';
import { ROOM_CODE_ALPHABET, ROOM_CODE_LENGTH } from './roomCode.ts';

export const PROTOCOL_VERSION = 1;
/** Path of the WebSocket on the server that also serves the page. */
export const SIGNALING_PATH = '/signal';
/** Longest control message, bytes: an SDP offer with many candidates is about 8 KiB. */
export const MAX_CONTROL_BYTES = 64 * 1024;
/** Most ranks a room may hold. */
export const MAX_WORLD_SIZE = 64;

const text = (max: number) => v.pipe(v.string(), v.maxLength(max));
const count = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(Number.MAX_SAFE_INTEGER));
const memberId = v.pipe(v.string(), v.regex(/^[\w-]{8,32}$/));
const displayName = v.pipe(v.string(), v.trim(), v.minLength(1), v.maxLength(40));
const roomCode = v.pipe(v.string(), v.regex(new RegExp(`^[${ROOM_CODE_ALPHABET}]{${ROOM_CODE_LENGTH}}$`)));
const worldSize = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(MAX_WORLD_SIZE));
const rank = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(MAX_WORLD_SIZE - 1));

/** What whoever enters a room may say of itself, beyond its name. */
const newcomer = {
  name: displayName,
  /**
   * Random, the same in all tabs of a browser's profile, so that a rank can know which of them it is. Told to the server only:
   * the others see a number.
   */
  browser: v.optional(v.pipe(v.string(), v.regex(/^[\w-]{16,64}$/))),
  /** The rank it wants; else any that nobody asked for. */
  rank: v.optional(rank),
};

/** What simple-peer may be told. Its other signals (`renegotiate`, `transceiverRequest`) act on the peer: not allowed. */
export const PeerSignal = v.variant('type', [
  v.strictObject({ type: v.literal('offer'), sdp: text(48 * 1024) }),
  v.strictObject({ type: v.literal('answer'), sdp: text(48 * 1024) }),
  v.strictObject({
    type: v.literal('candidate'),
    candidate: v.strictObject({
      candidate: text(1024),
      sdpMid: v.optional(v.nullable(text(64))),
      sdpMLineIndex: v.optional(v.nullable(count)),
    }),
  }),
]);
export type PeerSignal = v.InferOutput<typeof PeerSignal>;

/** How a tab computes: which TensorFlow.js backend, and what the browser calls the adapter. */
const Device = v.strictObject({ backend: v.picklist(['webgpu', 'webgl', 'cpu']), adapter: text(200) });
export type Device = v.InferOutput<typeof Device>;

export const ClientMessage = v.variant('type', [
  /** Opens a new room; the sender is its first member and host. */
  v.strictObject({
    type: v.literal('create'),
    version: v.literal(PROTOCOL_VERSION),
    ...newcomer,
    job: JobSpec,
    /** Start by itself once this many members are ready: the room's world size; `null`: the host starts. */
    startAt: v.nullable(worldSize),
  }),
  v.strictObject({
    type: v.literal('join'),
    version: v.literal(PROTOCOL_VERSION),
    ...newcomer,
    room: roomCode,
    /** The world size it counts on: a room of another one refuses it. */
    worldSize: v.optional(worldSize),
  }),
  /**
   * The backend is up and warm, and what the room's job needs is here: this member can be counted. Said again after a
   * `configure` that asks for other data.
   */
  v.strictObject({ type: v.literal('ready'), device: Device }),
  /** Host only, before a run. */
  v.strictObject({ type: v.literal('configure'), job: JobSpec }),
  /** Host only. */
  v.strictObject({ type: v.literal('start') }),
  v.strictObject({
    type: v.literal('signal'),
    epoch: count,
    to: memberId,
    /** Connection attempt this belongs to: a retried connection ignores what is left of the one before. */
    attempt: count,
    signal: PeerSignal,
  }),
  /** All links to neighbours in this epoch's ring are up. */
  v.strictObject({ type: v.literal('linked'), epoch: count }),
  /** This member's own state before the epoch's first step. */
  v.strictObject({ type: v.literal('synced'), epoch: count, step: count, stateHash: text(64) }),
  v.strictObject({ type: v.literal('finished'), epoch: count, step: count, stateHash: text(64) }),
  /** This member cannot go on in this epoch; `message` is shown to the others. */
  v.strictObject({ type: v.literal('failed'), epoch: count, message: text(1000) }),
  /** Answered by the server's own: each side notices when the other has gone without a word. */
  v.strictObject({ type: v.literal('heartbeat') }),
  v.strictObject({ type: v.literal('leave') }),
]);
export type ClientMessage = v.InferOutput<typeof ClientMessage>;

const IceServer = v.strictObject({
  urls: v.union([text(512), v.pipe(v.array(text(512)), v.maxLength(8))]),
  username: v.optional(text(512)),
  credential: v.optional(text(512)),
});
export type IceServer = v.InferOutput<typeof IceServer>;

const RosterEntry = v.strictObject({
  member: memberId,
  name: displayName,
  /** `null` until the member is ready. */
  device: v.nullable(Device),
  /** Members with the same number are tabs of one browser. It means nothing beyond this room. */
  browser: count,
  /** The rank it asked for; `null`: any. */
  rank: v.nullable(rank),
});
export type RosterEntry = v.InferOutput<typeof RosterEntry>;

export const ROOM_PHASES = ['FORMING', 'LINKING', 'SYNCING', 'RUNNING'] as const;
export type RoomPhase = (typeof ROOM_PHASES)[number];

export const REFUSALS = [
  /** No such room. */
  'no-room',
  /** The room holds as many members as it may. */
  'room-full',
  /** The room is training: newcomers are refused, and may join when the run has ended. */
  'room-running',
  /** The message does not fit the protocol, or is of another version. */
  'bad-message',
  /** What the newcomer asked for contradicts the room: a rank that is taken or does not exist, another world size. */
  'mismatch',
  /** Only the host may do that. */
  'not-host',
  /** Not in the room's present phase, not before the host is ready, or not with as many as are there. */
  'not-now',
  /** Too many wrong codes, rooms or messages from here. */
  'rate-limited',
  /** Nothing was heard from this member for too long. */
  'silent',
  'server-closing',
] as const;
export type Refusal = (typeof REFUSALS)[number];

export const ServerMessage = v.variant('type', [
  /** First answer to `create` and `join`. */
  v.strictObject({
    type: v.literal('admitted'),
    member: memberId,
    /** Reserved, to prove that a returning tab is this member; no message takes it yet, who returns is a new member. */
    token: text(128),
    room: roomCode,
    iceServers: v.pipe(v.array(IceServer), v.maxLength(16)),
    /** Reserved, to tell a returning tab whether the server has restarted since; nothing depends on it yet. */
    bootId: text(64),
    /** Send `heartbeat` this often, milliseconds. */
    heartbeatMs: count,
  }),
  /** The room as it is now; sent on every change. */
  v.strictObject({
    type: v.literal('room'),
    phase: v.picklist(ROOM_PHASES),
    epoch: count,
    host: memberId,
    members: v.array(RosterEntry),
    job: JobSpec,
    startAt: v.nullable(worldSize),
  }),
  /** A new epoch: `members` in ring order; a member's index is its rank, their number the world size. */
  v.strictObject({
    type: v.literal('prepare'),
    epoch: count,
    members: v.pipe(v.array(RosterEntry), v.minLength(1), v.maxLength(MAX_WORLD_SIZE)),
    job: JobSpec,
  }),
  /** Every member is linked: compare and share state. */
  v.strictObject({ type: v.literal('sync'), epoch: count }),
  /** Every member is in the same state: train. */
  v.strictObject({ type: v.literal('go'), epoch: count }),
  v.strictObject({ type: v.literal('signal'), epoch: count, from: memberId, attempt: count, signal: PeerSignal }),
  /** Answer to each `heartbeat`: a client that hears none has a dead connection, which TCP may tell only much later. */
  v.strictObject({ type: v.literal('heartbeat') }),
  /** The epoch is over; the room is back in FORMING. */
  v.strictObject({
    type: v.literal('ended'),
    epoch: count,
    outcome: v.picklist(['finished', 'failed']),
    /** One sentence for people. */
    message: text(1200),
  }),
  /** Refusal. The server closes the connection after it where nothing can follow: all but `not-host`, `not-now`. */
  v.strictObject({ type: v.literal('refused'), code: v.picklist(REFUSALS), message: text(1000) }),
]);
export type ServerMessage = v.InferOutput<typeof ServerMessage>;

/**
 * Reads one control message.
 *
 * @throws ProtocolError where the text is not JSON or does not fit the schema; the message names the field.
 */
export function parseControl<Schema extends typeof ClientMessage | typeof ServerMessage>(
  schema: Schema,
  data: string,
): v.InferOutput<Schema> {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    throw new ProtocolError('A control message was not JSON.');
  }
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  const issue = result.issues[0];
  throw new ProtocolError(
    `A control message did not fit the protocol: ${v.getDotPath(issue) ?? 'message'}: ${issue.message}.`,
  );
}
