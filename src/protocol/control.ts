/**
 * Control messages between a tab and the signaling server: JSON text over one WebSocket. Both ends
 * check every message against these schemas; invalid messages are rejected. docs/PROTOCOL.md has
 * the same as a table.
 */
import * as v from 'valibot';
import { ProtocolError } from '../util/errors.ts';
import { JobSpec } from '../spec/job.ts';
import {
  Device,
  newcomer,
  ReconnectState,
  Removed,
  ring,
  RoomOpening,
  ROOM_PHASES,
  RoomSettings,
  RosterEntry,
  Spectator,
} from './room.ts';
import { count, MAX_WORLD_SIZE, memberId, ordinal, roomCode, secret, text, worldSize } from './scalars.ts';

export const PROTOCOL_VERSION = 9;
/** Path of the WebSocket on the server that also serves the page. */
export const SIGNALING_PATH = '/signal';
/** Longest control message, bytes: an SDP offer with many candidates is about 8 KiB. */
export const MAX_CONTROL_BYTES = 64 * 1024;
/** Most spectators in a room: two classes. */
export const MAX_SPECTATORS = 64;
/** Longest update for spectators, characters: with escaped quotes about 32 KiB of a message. */
export const MAX_UPDATE_LENGTH = 24 * 1024;
/**
 * Signals for simple-peer. Its other signals (`renegotiate`, `transceiverRequest`) would act on the
 * peer and are not allowed.
 */
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

/** Signals by which two ranks connect. */
export const LinkSignal = v.variant('type', [
  ...PeerSignal.options,
  /** Sent instead of an offer to a tab of the same browser: connect over a port with this key. */
  v.strictObject({ type: v.literal('port'), key: v.pipe(v.string(), v.regex(/^[\da-f]{32}$/)) }),
]);
export type LinkSignal = v.InferOutput<typeof LinkSignal>;
/** Ids of other ranks. */
const peers = v.pipe(v.array(memberId), v.minLength(1), v.maxLength(MAX_WORLD_SIZE));
const SpectatorUpdate = v.strictObject({ type: v.literal('spectator-update'), update: text(MAX_UPDATE_LENGTH) });

export const ClientMessage = v.variant('type', [
  /** Opens a new room; the sender is its first member and host. */
  v.strictObject({
    type: v.literal('create'),
    version: v.literal(PROTOCOL_VERSION),
    ...newcomer,
    ...RoomOpening.entries,
  }),
  v.strictObject({
    type: v.literal('join'),
    version: v.literal(PROTOCOL_VERSION),
    ...newcomer,
    room: roomCode,
    /** The expected world size. A room with another one refuses the newcomer. */
    worldSize: v.optional(worldSize),
    /** A member with this key is a host. */
    hostKey: v.optional(secret),
  }),
  /** A member reconnects after a lost connection, possibly to a restarted server. */
  v.strictObject({
    type: v.literal('reconnect'),
    version: v.literal(PROTOCOL_VERSION),
    ...newcomer,
    room: roomCode,
    member: memberId,
    /** The latest token, from `admitted` or `credentials`. */
    token: secret,
    hostKey: v.optional(secret),
    reconnectState: ReconnectState,
  }),
  /**
   * The device is open, shaders are compiled and the job's data is present: this member can be
   * counted. Sent again after a `configure` that asks for other data, after a reconnect, after
   * `failed`, and when `room` shows its device as `null` because it missed a deadline.
   * `stateOfRun`: the run whose state it has; `null`: none.
   */
  v.strictObject({ type: v.literal('ready'), device: Device, stateOfRun: v.nullable(ordinal) }),
  /** Host only, before a run. */
  v.strictObject({ type: v.literal('configure'), job: JobSpec }),
  /** Host only. */
  v.strictObject({ type: v.literal('start') }),
  /**
   * Host only, during a run that ranks may join and leave: the run waits between two steps until
   * `resume`. It continues with the ranks that are there then.
   */
  v.strictObject({ type: v.literal('pause') }),
  v.strictObject({ type: v.literal('resume') }),
  /** Host only: ends the run for all. */
  v.strictObject({ type: v.literal('stop') }),
  /** Host only: removes a member from the room. */
  v.strictObject({ type: v.literal('remove'), member: memberId }),
  /** Host only: a locked room only admits members that reconnect, and hosts. */
  v.strictObject({ type: v.literal('lock'), isLocked: v.boolean() }),
  v.strictObject({
    type: v.literal('signal'),
    generation: ordinal,
    to: memberId,
    /** Number of the connection attempt. A new attempt ignores signals of earlier ones. */
    attempt: count,
    signal: LinkSignal,
  }),
  /** All links to neighbours in this generation's ring are open. */
  v.strictObject({ type: v.literal('linked'), generation: ordinal }),
  /** This member's own state before the generation's first step. */
  v.strictObject({ type: v.literal('synced'), generation: ordinal, step: count, stateHash: text(64) }),
  /**
   * This member has begun to synchronize. Sent again when it makes progress and needs more time:
   * the deadline begins again.
   */
  v.strictObject({ type: v.literal('syncing'), generation: ordinal }),
  v.strictObject({ type: v.literal('finished'), generation: ordinal, step: count, stateHash: text(64) }),
  /**
   * This member cannot continue in this generation; `message` is shown to the others. `scope`
   * defines what follows: `rank`: it is out until it sends `ready` again; `generation`: another
   * generation with the same members; `run`: no member can continue. In a fixed world all three end
   * the run.
   */
  v.strictObject({
    type: v.literal('failed'),
    generation: ordinal,
    message: text(1000),
    scope: v.picklist(['rank', 'generation', 'run']),
  }),
  /**
   * Links of this member to ranks of this generation broke or could not be opened; the list is
   * complete. Both ends report it. If links of another rank broke, this member reports `failed`.
   */
  v.strictObject({ type: v.literal('broken'), generation: ordinal, peers }),
  /** These ranks did not call a collective before its deadline, as this member observed itself. */
  v.strictObject({ type: v.literal('late'), generation: ordinal, peers }),
  /**
   * The link to the next rank has been far slower for a while than the other links of the ring,
   * which wait for it.
   */
  v.strictObject({ type: v.literal('slow'), generation: ordinal, peer: memberId }),
  /**
   * Rank 0's events for spectators (`spectatorUpdate.ts` defines them). The server forwards the
   * text to the spectators without parsing it.
   */
  SpectatorUpdate,
  /** Answered by the server's heartbeat, so that each side notices when the other is gone. */
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
const iceServers = v.pipe(v.array(IceServer), v.maxLength(16));

export const REFUSALS = [
  /** No such room. */
  'no-room',
  /** The reconnecting tab is not a member of the room, or cannot prove it; it may join again. */
  'not-member',
  /** The room has as many members as it may have. */
  'room-full',
  /** The room is training: newcomers are refused until the run has ended. */
  'room-running',
  /** The room is locked: only members that reconnect are admitted. */
  'room-locked',
  /** The host has removed this member. */
  'removed',
  /** The message does not match the protocol, or has another version. */
  'bad-message',
  /**
   * The newcomer's request contradicts the room: a rank that is taken or does not exist, or another
   * world size.
   */
  'mismatch',
  /** Only the host may do that. */
  'not-host',
  /**
   * Impossible in the room's present phase, before the host is ready, or with the present number of
   * members.
   */
  'not-now',
  /** Too many wrong codes, rooms or messages from this address. */
  'rate-limited',
  /** The member sent nothing for too long. */
  'silent',
  'server-closing',
] as const;
export type Refusal = (typeof REFUSALS)[number];

const RunOutcome = v.picklist(['finished', 'stopped', 'failed']);
export type RunOutcome = v.InferOutput<typeof RunOutcome>;

export const ServerMessage = v.variant('type', [
  /** First answer to `create` and `join`. */
  v.strictObject({
    type: v.literal('admitted'),
    member: memberId,
    /** Proves the member's identity when it reconnects. */
    token: secret,
    /** Sent to the member that opened the room and to members that joined with the key. */
    hostKey: v.nullable(secret),
    room: roomCode,
    iceServers,
    /** `relay`: connect over TURN only. */
    iceTransportPolicy: v.optional(v.picklist(['all', 'relay'])),
    /** Identifies the server's process; a different id means that the server has restarted. */
    bootId: text(64),
    /** Send `heartbeat` this often, milliseconds. */
    heartbeatMs: count,
  }),
  /** The room as it is now; sent on every change. */
  v.strictObject({
    type: v.literal('room'),
    phase: v.picklist(ROOM_PHASES),
    /** Number of the current or latest run; 0 before the first. */
    run: ordinal,
    generation: ordinal,
    hosts: v.array(memberId),
    members: v.array(RosterEntry),
    /** Spectators are not counted and never get a rank. With the room's key they are hosts. */
    spectators: v.array(Spectator),
    ...RoomSettings.entries,
    removed: v.optional(Removed),
    /** Number of ready members that are missing for a run to start by itself or to continue. */
    waitingFor: count,
  }),
  /** Replaces the credentials from `admitted`, which expire. */
  v.strictObject({ type: v.literal('credentials'), token: secret, hostKey: v.nullable(secret) }),
  /** New ICE servers: their passwords expire. */
  v.strictObject({ type: v.literal('ice'), iceServers }),
  /**
   * A new generation: `members` in ring order; a member's index is its rank, their number the world
   * size. Generations of one run share its number. If all ranks of the previous generation are
   * still there, it continues until `sync`.
   */
  v.strictObject({
    type: v.literal('prepare'),
    generation: ordinal,
    run: ordinal,
    members: ring,
    job: JobSpec,
    /** Pairs that must connect over a TURN relay, as direct connections failed. */
    relayed: v.array(v.tuple([memberId, memberId])),
    /** Pairs that the ring order keeps apart, as the link between them was slow. */
    separated: v.array(v.tuple([memberId, memberId])),
  }),
  /** All members are linked: compare states. */
  v.strictObject({ type: v.literal('sync'), generation: ordinal }),
  /** All members have the same state: train. */
  v.strictObject({ type: v.literal('go'), generation: ordinal }),
  v.strictObject({
    type: v.literal('signal'),
    generation: ordinal,
    from: memberId,
    attempt: count,
    signal: LinkSignal,
  }),
  SpectatorUpdate,
  /**
   * Answer to each `heartbeat`. A client without answers has a dead connection, which TCP may
   * report much later.
   */
  v.strictObject({ type: v.literal('heartbeat') }),
  /**
   * Too few ranks are left, or the host has paused the run. All generations up to this one are
   * over. The run continues when `waitingFor` more members are ready; 0: when the host resumes it.
   */
  v.strictObject({ type: v.literal('pause'), run: ordinal, generation: ordinal, waitingFor: count }),
  /**
   * This member delayed the others: the run continues without it, and all generations up to this
   * one are over for it. It stays in the room and joins again after a while.
   */
  v.strictObject({
    type: v.literal('suspended'),
    run: ordinal,
    generation: ordinal,
    /** One or two sentences for people: the reason, the advice, the duration. */
    message: text(1000),
  }),
  /** The run is over; the room is back in FORMING. */
  v.strictObject({
    type: v.literal('ended'),
    run: ordinal,
    outcome: RunOutcome,
    /** One sentence for people. */
    message: text(1200),
  }),
  /** A refusal. The server then closes the connection, except after `not-host` and `not-now`. */
  v.strictObject({ type: v.literal('refused'), code: v.picklist(REFUSALS), message: text(1000) }),
]);
export type ServerMessage = v.InferOutput<typeof ServerMessage>;

/**
 * Parses one control message.
 *
 * @throws ProtocolError if the text is not JSON or does not match the schema; the message names the
 *   field.
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
