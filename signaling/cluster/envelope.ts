/**
 * What processes that serve the same rooms tell each other: JSON over Redis' channels, one for each
 * process. The one that has a room is its owner; one that passes on what a connection of its own
 * says to a room elsewhere relays. Checked like everything that comes from outside: the other
 * process may be of another version.
 */
import * as v from 'valibot';
import { ClientMessage, MAX_CONTROL_BYTES, REFUSALS, ServerMessage } from '../../src/protocol/control.ts';
import { memberId, roomCode, worldSize } from '../../src/protocol/scalars.ts';
import { newcomer, ReconnectState } from '../../src/protocol/room.ts';
import type { MemberMessage } from '../hub.ts';

/**
 * Longest text of an envelope: the longest list of members, should all their names be of characters
 * that JSON escapes.
 */
const MAX_ENVELOPE_LENGTH = 4 * MAX_CONTROL_BYTES;

/** A process, and which of its connections to Redis this is: `<id>.<number>`. */
const address = v.pipe(v.string(), v.regex(/^[\w-]{8,32}\.\d{1,9}$/));
/** One WebSocket, by the number that the process that has it gave it. */
const connection = v.pipe(v.number(), v.integer(), v.minValue(0));
const from = address;
const who = { ...newcomer, holdsKey: v.boolean() };

/** `create`, `heartbeat` and the like end at the process that has the connection. */
const memberMessage = v.pipe(
  ClientMessage,
  v.guard((message): message is MemberMessage => {
    return !['create', 'join', 'reconnect', 'heartbeat', 'leave'].includes(message.type);
  }),
);

export const Envelope = v.variant('type', [
  // To the owner.
  v.strictObject({
    ...{ type: v.literal('enter'), from, connection, room: roomCode, member: memberId },
    entry: v.variant('type', [
      v.strictObject({ type: v.literal('join'), ...who, worldSize: v.optional(worldSize) }),
      v.strictObject({ type: v.literal('reconnect'), ...who, reconnectState: ReconnectState }),
    ]),
  }),
  v.strictObject({ type: v.literal('say'), from, connection, message: memberMessage }),
  /** The connection is gone; `reason` `null`: without a word. */
  v.strictObject({
    ...{ type: v.literal('lose'), from, connection },
    reason: v.nullable(v.picklist(['left', 'silent', 'vanished', 'dropped', 'removed'])),
  }),
  // To the one that relays.
  v.strictObject({ type: v.literal('admit'), from, connection, room: roomCode }),
  v.strictObject({ type: v.literal('tell'), from, connections: v.array(connection), message: ServerMessage }),
  v.strictObject({
    ...{ type: v.literal('expel'), from, connection, code: v.picklist(REFUSALS), message: v.string() },
  }),
  /** The owner has given the room up. */
  v.strictObject({ type: v.literal('release'), from, connection }),
  // To either.
  v.strictObject({ type: v.literal('alive'), from }),
  /** Nothing of what was between the two goes on. */
  v.strictObject({ type: v.literal('part'), from }),
]);
export type Envelope = v.InferOutput<typeof Envelope>;

/** An envelope without its sender, whom the sender knows. */
export type Letter = Envelope extends infer One ? (One extends Envelope ? Omit<One, 'from'> : never) : never;

/** `null`: it is none. */
export function parseEnvelope(text: string): Envelope | null {
  if (text.length > MAX_ENVELOPE_LENGTH) return null;
  try {
    const result = v.safeParse(Envelope, JSON.parse(text));
    return result.success ? result.output : null;
  } catch {
    return null;
  }
}
