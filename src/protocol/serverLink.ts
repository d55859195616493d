/**
 * Links through the signaling server, for two members that cannot connect by WebRTC. Each end opens
 * a WebSocket of its own and sends `ServerLinkOpening`, one JSON text. When both ends have done so,
 * the server answers each with `paired`. Then every message is binary, and the server forwards it
 * unread.
 */
import * as v from 'valibot';
import { PROTOCOL_VERSION } from './control.ts';
import { serverLinkIdSchema } from './linkSignal.ts';
import { memberIdSchema, ordinalSchema, roomCodeSchema, secretSchema, textSchema } from './scalars.ts';

/** Path of these WebSockets on the signaling server. */
export const SERVER_LINK_PATH = '/link';
/**
 * A message counts as at least this many bytes, in the server's rate and while it waits, because a
 * short message costs time and memory, too. In a link's window (`transport/frameOrder.ts`) a frame
 * counts even more.
 */
export const MIN_CHARGED_MESSAGE_BYTES = 2048;

export const ServerLinkOpening = v.strictObject({
  version: v.literal(PROTOCOL_VERSION),
  room: roomCodeSchema,
  /** The sender, and the latest token that it has received from the server. */
  member: memberIdSchema,
  token: secretSchema,
  /** The generation, or the feed, for which the link is opened. The link may outlive it. */
  generation: ordinalSchema,
  peer: memberIdSchema,
  /** Id of the link. The initiating end chooses it and sends it to the other end in a signal. */
  channel: serverLinkIdSchema,
});
export type ServerLinkOpening = v.InferOutput<typeof ServerLinkOpening>;

export const ServerLinkAnswer = v.variant('type', [
  /** Both ends are there. */
  v.strictObject({ type: v.literal('paired') }),
  /** The link cannot be opened; the server then closes the connection. */
  v.strictObject({ type: v.literal('refused'), message: textSchema(1000) }),
]);
export type ServerLinkAnswer = v.InferOutput<typeof ServerLinkAnswer>;
