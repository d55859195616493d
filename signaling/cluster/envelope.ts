/**
 * Messages between processes that serve the same rooms. They are JSON over Redis channels, one
 * channel per process. A room's owner is the process that has the room in its memory. If a tab is
 * connected to another process, that process relays between the tab and the owner. Envelopes are
 * validated, because the other process may run another version.
 */
import * as v from 'valibot';
import { ClientMessage, MAX_CONTROL_BYTES, REFUSALS, ServerMessage } from '../../src/protocol/control.ts';
import { memberId, roomCode, worldSize } from '../../src/protocol/scalars.ts';
import { newcomer, ReconnectState } from '../../src/protocol/room.ts';
import type { MemberMessage } from '../hub.ts';

/**
 * Maximum length of an envelope. It suffices for the longest member list, even if JSON escapes
 * every character of the names.
 */
const MAX_ENVELOPE_LENGTH = 4 * MAX_CONTROL_BYTES;

/** Address of a process: its id and the number of its connection to Redis, `<id>.<number>`. */
const address = v.pipe(v.string(), v.regex(/^[\w-]{8,32}\.\d{1,9}$/));
/** Number of a WebSocket. The process that has the WebSocket chooses the number. */
const connection = v.pipe(v.number(), v.integer(), v.minValue(0));
const from = address;
const who = { ...newcomer, holdsKey: v.boolean() };

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
    room: roomCode,
    member: memberId,
    entry: v.variant('type', [
      v.strictObject({ type: v.literal('join'), ...who, worldSize: v.optional(worldSize) }),
      v.strictObject({ type: v.literal('reconnect'), ...who, reconnectState: ReconnectState }),
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
  v.strictObject({ type: v.literal('admit'), from, connection, room: roomCode }),
  v.strictObject({ type: v.literal('send'), from, connections: v.array(connection), message: ServerMessage }),
  v.strictObject({
    type: v.literal('expel'),
    from,
    connection,
    code: v.picklist(REFUSALS),
    message: v.string(),
  }),
  /** The owner no longer has the room. */
  v.strictObject({ type: v.literal('release'), from, connection }),
  // The last two are sent in both directions between the owner and the relaying process.
  v.strictObject({ type: v.literal('alive'), from }),
  /** All relaying between the two processes ends. */
  v.strictObject({ type: v.literal('part'), from }),
]);
export type Envelope = v.InferOutput<typeof Envelope>;

/** An envelope without its sender. */
export type Letter = Envelope extends infer One ? (One extends Envelope ? Omit<One, 'from'> : never) : never;

/** Parses an envelope; `null` if it is invalid. */
export function parseEnvelope(text: string): Envelope | null {
  if (text.length > MAX_ENVELOPE_LENGTH) return null;
  try {
    const result = v.safeParse(Envelope, JSON.parse(text));
    return result.success ? result.output : null;
  } catch {
    return null;
  }
}
