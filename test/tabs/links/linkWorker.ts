/**
 * A worker of the link harness that owns one end of a link over simple-peer, like the engine's
 * worker.
 */
import {
  createRelayedConnector,
  type PeerRelayReply,
  type PeerRelayRequest,
} from '../../../src/engine/membership/peerRelay.ts';
import type { PeerSignal } from '../../../src/protocol/linkSignal.ts';
import type { PeerAttempt } from '../../../src/transport/peerLink.ts';
import { errorMessageOf } from '../../../src/util/errors.ts';
import { runEnd, type End } from './linkEnd.ts';

/** Messages from the page to the worker. */
export type ToLinkWorker =
  | { type: 'relay'; reply: PeerRelayReply }
  | { type: 'open'; name: string; end: End; connections: number }
  | { type: 'signal'; signal: PeerSignal };
/** Messages from the worker to the page. */
export type FromLinkWorker =
  | { type: 'relay'; request: PeerRelayRequest }
  | { type: 'signal'; signal: PeerSignal }
  | { type: 'done'; failure: string | null };

const post = (message: FromLinkWorker): void => globalThis.postMessage(message);
const relay = createRelayedConnector((request) => post({ type: 'relay', request }));
const onsignal = (signal: PeerSignal): void => post({ type: 'signal', signal });
let attempt: PeerAttempt;

globalThis.addEventListener('message', ({ data }: MessageEvent<ToLinkWorker>) => {
  if (data.type === 'relay') return relay.receive(data.reply);
  if (data.type === 'signal') return attempt.signal(data.signal);
  attempt = relay.connect({ initiator: data.end === 'alice', iceServers: [], onsignal });
  runEnd(data.name, data.end, attempt.link, data.connections).then(
    () => post({ type: 'done', failure: null }),
    (error: unknown) => post({ type: 'done', failure: errorMessageOf(error) }),
  );
});
