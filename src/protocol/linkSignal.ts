/** Signals by which two ranks connect. */
import * as v from 'valibot';
import { countSchema, textSchema } from './scalars.ts';

/**
 * Signals for simple-peer. The library's other signals (`renegotiate`, `transceiverRequest`) would
 * change the receiver's connection, so they are rejected.
 */
export const PeerSignal = v.variant('type', [
  v.strictObject({ type: v.literal('offer'), sdp: textSchema(48 * 1024) }),
  v.strictObject({ type: v.literal('answer'), sdp: textSchema(48 * 1024) }),
  v.strictObject({
    type: v.literal('candidate'),
    candidate: v.strictObject({
      candidate: textSchema(1024),
      sdpMid: v.optional(v.nullable(textSchema(64))),
      sdpMLineIndex: v.optional(v.nullable(countSchema)),
    }),
  }),
]);
export type PeerSignal = v.InferOutput<typeof PeerSignal>;

const hex128 = v.pipe(v.string(), v.regex(/^[\da-f]{32}$/));
/** Identifies a link through the server. */
export const serverLinkIdSchema = hex128;

/** Signals by which two ranks connect. */
export const LinkSignal = v.variant('type', [
  ...PeerSignal.options,
  /**
   * Sent instead of an offer to a tab of the same browser. The two tabs connect over a message
   * port, which they find by this key.
   */
  v.strictObject({ type: v.literal('port'), key: hex128 }),
  /**
   * Begins or answers an attempt to link through the server. `key` is the sender's public key
   * (P-256, uncompressed, base64url), or `null` if its page cannot encrypt.
   */
  v.strictObject({
    type: v.literal('server'),
    channel: serverLinkIdSchema,
    key: v.nullable(v.pipe(v.string(), v.regex(/^[\w-]{87}$/))),
  }),
]);
export type LinkSignal = v.InferOutput<typeof LinkSignal>;
/** A signal of a link through the server. */
export type ServerLinkSignal = Extract<LinkSignal, { type: 'server' }>;

/** Whether the signal belongs to a WebRTC connection. */
export function isPeerSignal(signal: LinkSignal): signal is PeerSignal {
  return signal.type !== 'port' && signal.type !== 'server';
}
