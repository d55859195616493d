/**
 * The messages between a page and its worker. The worker sends one message through
 * `postMessage`, which also carries a port. All other messages use this port, so that
 * `postMessage` and `onmessage` belong to the user's program.
 */
import type { PeerRelayReply, PeerRelayRequest } from '../../engine/membership/peerRelay.ts';
import type { PageAddress } from '../page.ts';

/** The mark of a worker's first message, which no message of the user's program has. */
const REQUEST_TYPE = 'peergrad: host this worker';

/** A worker's request for connections. The message also transfers a port. */
export interface HostedWorkerRequest {
  type: typeof REQUEST_TYPE;
  /**
   * Identifies the worker. A worker repeats its request until the page replies, and all its
   * requests have the same id.
   */
  id: string;
  /** Name of the lock that the worker holds while it is alive. Insecure contexts have no locks. */
  lock: string | null;
}

/** Page to worker. */
export type HostPageMessage =
  | { type: 'hosted'; address: PageAddress }
  | { type: 'relay'; reply: PeerRelayReply }
  /** The patterns of the debug log. */
  | { type: 'debug'; patterns: string }
  /** The page is being closed. */
  | { type: 'leaving' };

/** Worker to page. */
export type FromHostedWorker = { type: 'relay'; request: PeerRelayRequest } | { type: 'room'; room: string };

export function createHostedWorkerRequest(id: string, lock: string | null): HostedWorkerRequest {
  return { type: REQUEST_TYPE, id, lock };
}

export function isHostedWorkerRequest(data: unknown): data is HostedWorkerRequest {
  return typeof data === 'object' && data !== null && 'type' in data && data.type === REQUEST_TYPE;
}
