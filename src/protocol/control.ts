/**
 * Control messages between a tab and the signaling server: JSON text over one WebSocket. Both ends
 * check every message against these schemas; invalid messages are rejected. docs/PROTOCOL.md lists
 * the messages in a table.
 */
import * as v from 'valibot';
import { ProtocolError } from '../util/errors.ts';
import { Notice } from './notices.ts';
import { LinkSignal } from './linkSignal.ts';
import { JobSpec } from '../spec/job.ts';
import {
  ReportedDevice,
  newcomerFieldSchemas,
  Pulse,
  ReconnectReport,
  RemovedMembers,
  ringSchema,
  RoomOpening,
  ROOM_PHASES,
  RoomSettings,
  RosterEntry,
  Spectator,
} from './room.ts';
import {
  countSchema,
  MAX_WORLD_SIZE,
  memberIdSchema,
  ordinalSchema,
  percentSchema,
  roomCodeSchema,
  secretSchema,
  textSchema,
  worldSizeSchema,
} from './scalars.ts';

export const PROTOCOL_VERSION = 20;

/** Path of the WebSocket on the server that also serves the page. */
export const SIGNALING_PATH = '/signal';
/**
 * The largest size of a control message, in bytes. The largest message is a `reconnect`, which
 * lists all ranks: with {@link MAX_WORLD_SIZE} ranks, 1 KiB for each. An SDP offer is about 8 KiB.
 */
export const MAX_CONTROL_BYTES = 256 * 1024;
/** The largest number of spectators in a room, enough for a lecture hall. */
export const MAX_SPECTATORS = 256;
/**
 * The longest update for spectators, in characters: enough for the statistics of all ranks. With
 * escaped quotes it takes about 128 KiB of a message.
 */
export const MAX_SPECTATOR_UPDATE_LENGTH = 96 * 1024;
/** The largest number of feeders that a newcomer can avoid. */
export const MAX_AVOIDED_FEEDERS = 8;
/** Ids of other ranks. */
const peers = v.pipe(v.array(memberIdSchema), v.minLength(1), v.maxLength(MAX_WORLD_SIZE));
const SpectatorUpdate = v.strictObject({
  type: v.literal('spectator-update'),
  update: textSchema(MAX_SPECTATOR_UPDATE_LENGTH),
});

export const ClientMessage = v.variant('type', [
  /** Opens a new room; the sender is its first member and host. */
  v.strictObject({
    type: v.literal('create'),
    version: v.literal(PROTOCOL_VERSION),
    ...newcomerFieldSchemas,
    ...RoomOpening.entries,
  }),
  v.strictObject({
    type: v.literal('join'),
    version: v.literal(PROTOCOL_VERSION),
    ...newcomerFieldSchemas,
    room: roomCodeSchema,
    /**
     * The world size that the newcomer expects. A room with a different world size refuses the
     * newcomer.
     */
    worldSize: v.optional(worldSizeSchema),
    /** A member with this key is a host. */
    hostKey: v.optional(secretSchema),
  }),
  /** A member reconnects after a lost connection, possibly to a restarted server. */
  v.strictObject({
    type: v.literal('reconnect'),
    version: v.literal(PROTOCOL_VERSION),
    ...newcomerFieldSchemas,
    room: roomCodeSchema,
    member: memberIdSchema,
    /** The latest token, from `admitted` or `credentials`. */
    token: secretSchema,
    hostKey: v.optional(secretSchema),
    reconnectState: ReconnectReport,
  }),
  /**
   * This member can train: its device is open, its shaders are compiled, and it has the job's data.
   * The message is repeated after a `configure` that needs other data, after a reconnect, after
   * `failed`, and when `room` shows the member's device as `null` because the member missed a
   * deadline. `stateOfRun` is the run whose model state the member has, or `null`.
   *
   * With `catchUp`, the member asks for a feeder first. When it has received enough of the run's
   * state, it sends `ready` again, without `catchUp`. `prefers` is the feeder from which the member
   * has a part of the state. `avoids` lists feeders that the member could not reach. If there is no
   * feeder, the member counts as ready.
   */
  v.strictObject({
    type: v.literal('ready'),
    device: ReportedDevice,
    stateOfRun: v.nullable(ordinalSchema),
    catchUp: v.optional(
      v.strictObject({
        prefers: v.nullable(memberIdSchema),
        avoids: v.pipe(v.array(memberIdSchema), v.maxLength(MAX_AVOIDED_FEEDERS)),
      }),
    ),
  }),
  /** Host only, before a run. */
  v.strictObject({ type: v.literal('configure'), job: JobSpec }),
  /** Host only. */
  v.strictObject({ type: v.literal('start') }),
  /**
   * Host only, in an elastic room during a run: the run waits between two steps until `resume`. It
   * then continues with the ranks that are ready at that time.
   */
  v.strictObject({ type: v.literal('pause') }),
  v.strictObject({ type: v.literal('resume') }),
  /** Host only: ends the run for all. */
  v.strictObject({ type: v.literal('stop') }),
  /** Host only: removes a member from the room. */
  v.strictObject({ type: v.literal('remove'), member: memberIdSchema }),
  /** Host only: a locked room only admits members that reconnect, and hosts. */
  v.strictObject({ type: v.literal('lock'), isLocked: v.boolean() }),
  v.strictObject({
    type: v.literal('signal'),
    generation: ordinalSchema,
    to: memberIdSchema,
    /** Number of the connection attempt. A new attempt ignores signals of earlier attempts. */
    attempt: countSchema,
    signal: LinkSignal,
  }),
  /**
   * All links to neighbours in this generation's ring are open. `served` lists the neighbours whose
   * link goes through the server.
   */
  v.strictObject({ type: v.literal('linked'), generation: ordinalSchema, served: v.optional(peers) }),
  /**
   * This member and `peer` link through the server, but now have a direct connection, too. The next
   * generation uses the direct connection. Only the end that decides this sends the message.
   */
  v.strictObject({ type: v.literal('direct'), generation: ordinalSchema, peer: memberIdSchema }),
  /** This member's step number and state hash before the generation's first step. */
  v.strictObject({
    type: v.literal('synced'),
    generation: ordinalSchema,
    step: countSchema,
    stateHash: textSchema(64),
  }),
  /** This member has begun to synchronize its state with the other members. */
  v.strictObject({ type: v.literal('syncing'), generation: ordinalSchema }),
  v.strictObject({
    type: v.literal('finished'),
    generation: ordinalSchema,
    step: countSchema,
    stateHash: textSchema(64),
  }),
  /**
   * This member cannot continue in this generation. The other members see `message`. `scope` says
   * who is affected. `rank`: only this member, which is left out until it sends `ready` again.
   * `generation`: another generation begins with the same members. `run`: no member can continue.
   * In a fixed world, each of the three ends the run.
   */
  v.strictObject({
    type: v.literal('failed'),
    generation: ordinalSchema,
    message: textSchema(1000),
    scope: v.picklist(['rank', 'generation', 'run']),
  }),
  /**
   * This member's links to `peers` broke or could not be opened. `peers` lists all ranks at the
   * other ends of such links. Both ranks of a link report it. If only links between other ranks
   * broke, this member sends `failed` instead.
   */
  v.strictObject({ type: v.literal('broken'), generation: ordinalSchema, peers }),
  /**
   * These ranks did not call a collective before its deadline. This member observed that itself.
   */
  v.strictObject({ type: v.literal('late'), generation: ordinalSchema, peers }),
  /** How much of the run's state this newcomer has received while the others train. */
  v.strictObject({ type: v.literal('receiving'), percent: percentSchema }),
  /**
   * For some time, the link from this member to the next rank has been far slower than the other
   * links of the ring. So it delays the whole ring.
   */
  v.strictObject({ type: v.literal('slow'), generation: ordinalSchema, peer: memberIdSchema }),
  /**
   * Rank 0's events for spectators (`spectatorUpdate.ts` defines them). The server forwards the
   * text to the spectators without parsing it.
   */
  SpectatorUpdate,
  /**
   * The server answers with its own `heartbeat`, so that each side notices when the other is gone.
   * A member's heartbeat comes from a thread that does not compute. `pulse` says what the computing
   * thread does.
   */
  v.strictObject({ type: v.literal('heartbeat'), pulse: v.optional(Pulse) }),
  /** Asks what `peers` do. The answer is `pulses`. */
  v.strictObject({ type: v.literal('ask-pulses'), peers }),
  v.strictObject({ type: v.literal('leave') }),
]);
export type ClientMessage = v.InferOutput<typeof ClientMessage>;

const IceServer = v.strictObject({
  urls: v.union([textSchema(512), v.pipe(v.array(textSchema(512)), v.maxLength(8))]),
  username: v.optional(textSchema(512)),
  credential: v.optional(textSchema(512)),
});
export type IceServer = v.InferOutput<typeof IceServer>;
const iceServers = v.pipe(v.array(IceServer), v.maxLength(16));

export const REFUSAL_CODES = [
  /** The page comes from an origin that the server does not accept. */
  'wrong-origin',
  /** No such room. */
  'no-room',
  /**
   * The reconnecting tab is not a member of the room, or cannot prove that it is. It may join
   * again.
   */
  'not-member',
  /**
   * The room already has the largest allowed number of members or, for a spectator, of spectators.
   */
  'room-full',
  /** The room is training with a fixed world: newcomers are refused until the run has ended. */
  'room-running',
  /** The room is locked: only hosts and members that reconnect are admitted. */
  'room-locked',
  /** The host has removed this member. */
  'removed',
  /**
   * The message does not match the protocol, or its sender uses a different version of the
   * protocol.
   */
  'bad-message',
  /**
   * The newcomer's request does not fit the room: the requested rank is taken or does not exist, or
   * the world size differs.
   */
  'mismatch',
  /** Only the host may send this message. */
  'not-host',
  /**
   * The request is not possible now, because of the room's phase or its number of members, or
   * because the host is not ready.
   */
  'not-now',
  /**
   * This address sent too many wrong codes or messages, or opened too many rooms. The server also
   * sends this code if it has its maximum number of rooms.
   */
  'rate-limited',
  /** The member sent nothing for too long, or has reconnected over another connection. */
  'silent',
  'server-closing',
] as const;
export type RefusalCode = (typeof REFUSAL_CODES)[number];

/**
 * The pairs of members for which the server forwards frames. `on`: pairs that cannot connect by
 * WebRTC. `only`: all pairs of tabs in different browsers, which do not try WebRTC.
 */
export const SERVER_LINK_MODES = ['off', 'on', 'only'] as const;
export type ServerLinkMode = (typeof SERVER_LINK_MODES)[number];

/** What a room knows about links through the server before a run. */
export const ServedPairs = v.strictObject({
  /**
   * Number of pairs of neighbours in the next ring that are expected to link through the server.
   * 0 if none is known, and during a run.
   */
  pairs: countSchema,
  /** Whether the server forwards the frames of all pairs of browsers (`only`). */
  areAll: v.boolean(),
  /** Bytes per second that the server forwards, of all rooms. */
  bytesPerSecond: countSchema,
});
export type ServedPairs = v.InferOutput<typeof ServedPairs>;
/** How the server forwards frames. */
export type ServerForwarding = Omit<ServedPairs, 'pairs'>;

const RunOutcome = v.picklist(['finished', 'stopped', 'failed']);
export type RunOutcome = v.InferOutput<typeof RunOutcome>;

/** The room as it is now; sent on every change. */
export const RoomMessage = v.strictObject({
  type: v.literal('room'),
  phase: v.picklist(ROOM_PHASES),
  /** Number of the current run, or else of the latest run; 0 before the first run. */
  run: ordinalSchema,
  generation: ordinalSchema,
  /** Whether ranks of the current run have begun to train, so that there is a state to keep. */
  hasTrained: v.boolean(),
  hosts: v.array(memberIdSchema),
  members: v.array(RosterEntry),
  /**
   * Spectators are not included in the world size and never get a rank. A spectator that joined
   * with the host key is a host.
   */
  spectators: v.array(Spectator),
  ...RoomSettings.entries,
  removed: v.optional(RemovedMembers),
  /** The number of further ready members that a run needs to start by itself, or to continue. */
  waitingFor: countSchema,
  /** Missing if the server forwards no frames. */
  served: v.exactOptional(ServedPairs),
});
export type RoomMessage = v.InferOutput<typeof RoomMessage>;

/**
 * A new generation begins. `members` are in ring order: the index of a member is its rank, and the
 * length of the list is the world size. `run` is the same in all generations of a run. If `members`
 * includes all ranks of the run's previous generation, these ranks continue to train in the
 * previous generation until `sync`.
 */
export const PrepareMessage = v.strictObject({
  type: v.literal('prepare'),
  generation: ordinalSchema,
  run: ordinalSchema,
  members: ringSchema,
  job: JobSpec,
  /**
   * Pairs of members that must connect over a TURN relay, because their direct connection failed.
   */
  relayed: v.array(v.tuple([memberIdSchema, memberIdSchema])),
  /**
   * Pairs of members that are not neighbours in the ring, because the link between them was slow.
   */
  separated: v.array(v.tuple([memberIdSchema, memberIdSchema])),
  /**
   * Pairs of neighbours that link through the server at once, because they could not connect
   * directly.
   */
  served: v.array(v.tuple([memberIdSchema, memberIdSchema])),
});
export type PrepareMessage = v.InferOutput<typeof PrepareMessage>;

/** Messages of the server that refer to no list of members. */
export const OTHER_SERVER_MESSAGES = [
  /** The server's first answer to `create`, `join` and `reconnect`. */
  v.strictObject({
    type: v.literal('admitted'),
    member: memberIdSchema,
    /** Proves the member's identity when it reconnects. */
    token: secretSchema,
    /**
     * The key that makes a member a host. Sent to the member that opened the room and to members
     * that have sent the key; `null` for all others.
     */
    hostKey: v.nullable(secretSchema),
    room: roomCodeSchema,
    iceServers,
    /** `relay`: connect over TURN only. */
    iceTransportPolicy: v.optional(v.picklist(['all', 'relay'])),
    serverLinks: v.picklist(SERVER_LINK_MODES),
    /** Identifies the server's process; a different id means that the server has restarted. */
    bootId: textSchema(64),
    /** Milliseconds between two `heartbeat` messages of the tab. */
    heartbeatMs: countSchema,
  }),
  /** Replaces the credentials from `admitted`, which expire. */
  v.strictObject({ type: v.literal('credentials'), token: secretSchema, hostKey: v.nullable(secretSchema) }),
  /** Replaces the ICE servers, because their passwords expire. */
  v.strictObject({ type: v.literal('ice'), iceServers }),
  /**
   * The first of the two members sends the run's state to the second one while the run continues.
   * They open a link to each other outside of any generation, under the number `generation`.
   */
  v.strictObject({
    type: v.literal('feed'),
    generation: ordinalSchema,
    run: ordinalSchema,
    members: v.strictTuple([RosterEntry, RosterEntry]),
    relayed: v.boolean(),
    served: v.boolean(),
  }),
  /** All members are linked and now compare their states. */
  v.strictObject({ type: v.literal('sync'), generation: ordinalSchema }),
  /** All members have the same state and now train. */
  v.strictObject({ type: v.literal('go'), generation: ordinalSchema }),
  v.strictObject({
    type: v.literal('signal'),
    generation: ordinalSchema,
    from: memberIdSchema,
    attempt: countSchema,
    signal: LinkSignal,
  }),
  SpectatorUpdate,
  /**
   * The answer to each `heartbeat`. A client that receives no answer knows that its connection is
   * dead; TCP may report a dead connection much later.
   */
  v.strictObject({ type: v.literal('heartbeat') }),
  /**
   * An answer to `ask-pulses`; answers come in the order of the questions. It has the latest pulses
   * of the members in the question, and of all members that these wait for, directly or through
   * others. Members that are not connected or have sent no pulse are left out.
   */
  v.strictObject({
    type: v.literal('pulses'),
    pulses: v.pipe(v.array(v.strictObject({ member: memberIdSchema, pulse: Pulse })), v.maxLength(MAX_WORLD_SIZE)),
  }),
  /**
   * Too few ranks are left, or the host has paused the run. All generations up to this one are
   * over. The run continues when `waitingFor` more members are ready. If `waitingFor` is 0, it
   * continues when the host resumes it.
   */
  v.strictObject({ type: v.literal('pause'), run: ordinalSchema, generation: ordinalSchema, waitingFor: countSchema }),
  /**
   * The receiver delayed the other ranks, so the run continues without it. All generations up to
   * this one are over for the receiver. It stays in the room and takes part again after a while.
   */
  v.strictObject({
    type: v.literal('suspended'),
    run: ordinalSchema,
    generation: ordinalSchema,
    /**
     * One or two sentences for people: why the member was left out, what to do, and for how long.
     */
    message: textSchema(1000),
    notice: v.optional(Notice),
  }),
  /** A note about the run for people, in one sentence. */
  v.strictObject({ type: v.literal('note'), message: textSchema(1000), notice: v.optional(Notice) }),
  /** The run is over; the room is back in FORMING. */
  v.strictObject({
    type: v.literal('ended'),
    run: ordinalSchema,
    outcome: RunOutcome,
    /** One sentence for people. */
    message: textSchema(1200),
    notice: v.optional(Notice),
  }),
  /** A refusal. The server then closes the connection, except after `not-host` and `not-now`. */
  v.strictObject({ type: v.literal('refused'), code: v.picklist(REFUSAL_CODES), message: textSchema(1000) }),
] as const;

/** The messages of rooms and connections. `deltas.ts` defines how they are sent to a tab. */
export const ServerMessage = v.variant('type', [RoomMessage, PrepareMessage, ...OTHER_SERVER_MESSAGES]);
export type ServerMessage = v.InferOutput<typeof ServerMessage>;

/**
 * Parses one control message.
 *
 * @throws ProtocolError if the text is not JSON or does not match the schema; the message names the
 *   field.
 */
export function parseControlMessage<Schema extends v.GenericSchema>(
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
