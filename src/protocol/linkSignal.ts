/** Signals by which two ranks connect. */
import * as v from 'valibot';
import { count, text } from './scalars.ts';

/**
 * Signals for simple-peer. The library's other signals (`renegotiate`, `transceiverRequest`) would
 * change the receiver's connection, so they are rejected.
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
  /**
   * Sent instead of an offer to a tab of the same browser. The two tabs connect over a message
   * port, which they find by this key.
   */
  v.strictObject({ type: v.literal('port'), key: v.pipe(v.string(), v.regex(/^[\da-f]{32}$/)) }),
]);
export type LinkSignal = v.InferOutput<typeof LinkSignal>;
