/**
 * Messages between processes that serve the same rooms. They are JSON over Redis channels, one
 * channel per process and one to all processes. A frame follows its envelope after a newline, which
 * JSON does not contain. A room's owner is the process that has the room in its memory. If a tab is
 * connected to another process, that process relays between the tab and the owner. Envelopes are
 * validated, because the other process may run a different version.
 */
import * as v from 'valibot';
import { ClientMessage, MAX_CONTROL_BYTES, REFUSAL_CODES, ServerMessage } from '../../src/protocol/control.ts';
import { memberIdSchema, roomCodeSchema, worldSizeSchema } from '../../src/protocol/scalars.ts';
import { newcomerFieldSchemas, ReconnectReport } from '../../src/protocol/room.ts';
import { ServerLinkOpening } from '../../src/protocol/serverLink.ts';
import { CLOSE_NORMAL, CLOSE_POLICY, CLOSE_RESTART } from '../connection.ts';
import type { MemberMessage } from '../hub.ts';

/**
 * Maximum length of an envelope. It suffices for the longest member list, even if JSON escapes
 * every character of the names.
 */
const MAX_ENVELOPE_LENGTH = 4 * MAX_CONTROL_BYTES;
/** Maximum length of the reason in a WebSocket's closing frame (RFC 6455, section 5.5). */
const MAX_REASON_BYTES = 123;
const NEWLINE = 10;

/** Address of a process: its id and the number of its connection to Redis, `<id>.<number>`. */
const address = v.pipe(v.string(), v.regex(/^[\w-]{8,32}\.\d{1,9}$/));
/** Number of a WebSocket. The process that has the WebSocket chooses the number. */
const connection = v.pipe(v.number(), v.integer(), v.minValue(0));
const from = address;
const count = v.pipe(v.number(), v.integer(), v.minValue(1));
const { entries: place } = v.omit(ServerLinkOpening, ['version', 'token']);
const { room, generation, member, peer } = place;
const who = { ...newcomerFieldSchemas, holdsKey: v.boolean() };

/**
 * A message that the process with the WebSocket sends to the owner of the room. Messages of the
 * types listed here are not sent, because the process with the WebSocket handles them itself.
 */
const memberMessage = v.pipe(
  ClientMessage,
  v.guard((message): message is MemberMessage => {
    return !['create', 'join', 'reconnect', 'leave'].includes(message.type);
  }),
);

export const Envelope = v.variant('type', [
  // Sent to the owner.
  v.strictObject({
    type: v.literal('enter'),
    from,
    connection,
    room: roomCodeSchema,
    member: memberIdSchema,
    entry: v.variant('type', [
      v.strictObject({ type: v.literal('join'), ...who, worldSize: v.optional(worldSizeSchema) }),
      v.strictObject({ type: v.literal('reconnect'), ...who, reconnectState: ReconnectReport }),
    ]),
  }),
  v.strictObject({ type: v.literal('dispatch'), from, connection, message: memberMessage }),
  /** The connection is closed. If `reason` is `null`, the connection was lost without a message. */
  v.strictObject({
    type: v.literal('disconnect'),
    from,
    connection,
    reason: v.nullable(v.picklist(['left', 'silent', 'vanished', 'dropped', 'removed'])),
  }),
  // Sent to the relaying process.
  v.strictObject({ type: v.literal('admit'), from, connection, room: roomCodeSchema }),
  v.strictObject({ type: v.literal('send'), from, connections: v.array(connection), message: ServerMessage }),
  v.strictObject({
    type: v.literal('expel'),
    from,
    connection,
    code: v.picklist(REFUSAL_CODES),
    message: v.string(),
  }),
  /** The owner no longer has the room. */
  v.strictObject({ type: v.literal('release'), from, connection }),
  // The next two are sent to all processes. `alone`: an end of a link waits for the other end.
  // `left`: the member is no longer in the room.
  v.strictObject({ type: v.literal('alone'), from, connection, ...place }),
  v.strictObject({ type: v.literal('left'), from, room: roomCodeSchema, member: memberIdSchema }),
  /** Asks the owner of a room whether two members may link. */
  v.strictObject({ type: v.literal('ask'), from, connection, room, generation, member, peer }),
  v.strictObject({ type: v.literal('answer'), from, connection, mayLink: v.boolean() }),
  // The next five are sent between the processes of the two ends of a link. `connection` is the
  // receiver's end.
  /** `other` is the other end. */
  v.strictObject({ type: v.literal('pair'), from, connection, other: connection, ...place }),
  /** A message of a link follows. */
  v.strictObject({ type: v.literal('frame'), from, connection }),
  /** The other end has taken the earliest messages. */
  v.strictObject({ type: v.literal('taken'), from, connection, messages: count }),
  /** This number of bytes of frames has arrived, over all links together. */
  v.strictObject({ type: v.literal('received'), from, bytes: count }),
  v.strictObject({
    type: v.literal('unlink'),
    from,
    connection,
    code: v.pipe(v.number(), v.values([CLOSE_NORMAL, CLOSE_POLICY, CLOSE_RESTART])),
    why: v.pipe(v.string(), v.maxBytes(MAX_REASON_BYTES)),
  }),
  // The last two are sent in both directions between two processes that relay.
  v.strictObject({ type: v.literal('alive'), from }),
  /** All relaying between the two processes ends. */
  v.strictObject({ type: v.literal('part'), from }),
]);
export type Envelope = v.InferOutput<typeof Envelope>;

/** An end of a link that waits in another process. */
export type Announcement = Extract<Envelope, { type: 'alone' }>;
/** Envelopes that are sent to all processes. */
export type ToAll = Extract<Envelope, { type: 'alone' | 'left' }>;

/** An envelope without its sender. */
export type Letter = Envelope extends infer One ? (One extends Envelope ? Omit<One, 'from'> : never) : never;

/** Parses a message between processes; `null` if its envelope is invalid. */
export function parseMessage(message: Buffer): { envelope: Envelope; frame: Buffer } | null {
  const newline = message.indexOf(NEWLINE);
  const length = newline === -1 ? message.length : newline;
  if (length > MAX_ENVELOPE_LENGTH) return null;
  try {
    const result = v.safeParse(Envelope, JSON.parse(message.toString('utf8', 0, length)));
    return result.success ? { envelope: result.output, frame: message.subarray(length + 1) } : null;
  } catch {
    return null;
  }
}

/** Returns a message between processes. */
export function encodeMessage(envelope: Envelope, frame: Buffer | null): string | Buffer {
  const text = JSON.stringify(envelope);
  return frame === null ? text : Buffer.concat([Buffer.from(`${text}\n`), frame]);
}
