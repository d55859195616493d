/** The code in a worker that requests connections from its page. */
import { createRelayedConnector } from '../../engine/membership/peerRelay.ts';
import { acquireThreadLock } from '../../transport/threadLock.ts';
import { hexOf } from '../../util/hex.ts';
import type { Clock } from '../../util/clock.ts';
import { setDebugPatterns } from '../../util/debugLog.ts';
import { withinDeadline } from '../../util/deadline.ts';
import { createDeferred } from '../../util/deferred.ts';
import { UsageError } from '../../util/errors.ts';
import type { ProgramPageAccess, PageAddress } from '../page.ts';
import { createHostedWorkerRequest, type HostPageMessage, type FromHostedWorker } from './messages.ts';

/**
 * If the page does not answer within this number of milliseconds, the worker assumes that the page
 * does not host it. The time is long because a page may be blocked.
 */
const HOST_TIMEOUT_MS = 10_000;
/**
 * Milliseconds between requests. Requests are repeated because a page does not receive them before
 * it listens.
 */
const REPEAT_MS = 500;

/**
 * Resolves with the page that has called `hostWorker` for this worker.
 *
 * @throws (rejects) UsageError if there is no such page.
 */
export async function requestHostPage(clock: Clock): Promise<ProgramPageAccess> {
  const id = hexOf(crypto.getRandomValues(new Uint8Array(16)));
  const lock = globalThis.isSecureContext ? `peergrad worker ${id}` : null;
  // The browser releases the lock when this worker ends.
  if (lock !== null) await acquireThreadLock(lock);
  const hosted = createDeferred<ProgramPageAccess>();
  const ports = new Set<MessagePort>();
  let isOver = false;
  const request = (): void => {
    if (isOver) return;
    const { port1, port2 } = new MessageChannel();
    ports.add(port1);
    port1.onmessage = ({ data }: MessageEvent<HostPageMessage>) => {
      if (data.type !== 'hosted') return;
      ports.delete(port1);
      hosted.resolve(pageAt(port1, data.address));
    };
    globalThis.postMessage(createHostedWorkerRequest(id, lock), { transfer: [port2] });
    clock.after(REPEAT_MS, request);
  };
  request();
  try {
    return await withinDeadline(
      clock,
      HOST_TIMEOUT_MS,
      hosted.promise,
      () =>
        new UsageError(
          `The page did not open connections for this worker within ${HOST_TIMEOUT_MS / 1000} s. Call hostWorker(worker) of peergrad/worker on the page, right after the worker is created.`,
        ),
    );
  } finally {
    isOver = true;
    for (const port of ports) port.close();
  }
}

function pageAt(port: MessagePort, address: PageAddress): ProgramPageAccess {
  const post = (message: FromHostedWorker): void => port.postMessage(message);
  const relay = createRelayedConnector((request) => post({ type: 'relay', request }));
  const leaving = new EventTarget();
  port.onmessage = ({ data }: MessageEvent<HostPageMessage>) => {
    if (data.type === 'relay') relay.receive(data.reply);
    else if (data.type === 'debug') setDebugPatterns(data.patterns);
    else if (data.type === 'leaving') leaving.dispatchEvent(new Event('pagehide'));
  };
  return {
    address,
    connectPeer: relay.connect,
    requestTabPort: relay.requestTabPort,
    leaving,
    writeRoom: (room) => post({ type: 'room', room }),
  };
}
