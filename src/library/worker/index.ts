/**
 * The code that a page needs if its worker uses peergrad. A worker can train while its page is
 * hidden or blocked, but it cannot open WebRTC connections. So the page opens them for the worker.
 *
 *     const worker = new Worker(new URL('./train.ts', import.meta.url), { type: 'module' });
 *     hostWorker(worker);
 *
 * @module peergrad/worker
 */
import { PeerRelayHost } from '../../engine/membership/peerRelay.ts';
import { requestTabPort } from '../../transport/broker.ts';
import { openPeerConnection } from '../../transport/peerLink.ts';
import { onceThreadLockReleased } from '../../transport/threadLock.ts';
import { watchDebugPatterns } from '../../util/debugLog.ts';
import { UsageError } from '../../util/errors.ts';
import { writeRoomToAddress } from '../page.ts';
import { isHostedWorkerRequest, type HostPageMessage, type FromHostedWorker } from './messages.ts';

/**
 * Opens the connections of the process groups that `worker` joins with `initProcessGroup`. Call it
 * right after the worker is created, and before you add listeners for the worker's messages. Then
 * these listeners do not receive peergrad's message. The connections are closed when the page is
 * closed or the worker ends, so that the other ranks notice it immediately.
 *
 * @throws UsageError if this is not a page, for example in a worker that creates a worker.
 */
export function hostWorker(worker: Worker): void {
  if (typeof RTCPeerConnection === 'undefined') {
    throw new UsageError(
      'hostWorker needs WebRTC, which browsers have on pages only. Call it on the page, and create the worker there.',
    );
  }
  const hosted = new Set<string>();
  worker.addEventListener('message', (event: MessageEvent<unknown>) => {
    const [port] = event.ports;
    if (!isHostedWorkerRequest(event.data) || !port) return;
    event.stopImmediatePropagation();
    const { id, lock } = event.data;
    // The worker repeats its request until the page replies, so the same request may arrive several
    // times.
    if (hosted.has(id)) return;
    hosted.add(id);
    host(port, lock);
  });
}

/** Opens the connections that the worker at the other end of `port` requests. */
function host(port: MessagePort, lock: string | null): void {
  const post = (message: HostPageMessage, transfer: Transferable[] = []): void => port.postMessage(message, transfer);
  const peers = new PeerRelayHost(openPeerConnection, requestTabPort, (reply, transfer) =>
    post({ type: 'relay', reply }, transfer),
  );
  port.onmessage = ({ data }: MessageEvent<FromHostedWorker>) => {
    if (data.type === 'relay') peers.receive(data.request);
    else writeRoomToAddress(data.room);
  };
  const { origin, hash } = globalThis.location;
  post({ type: 'hosted', address: { origin, hash } });
  const unwatch = watchDebugPatterns((patterns) => post({ type: 'debug', patterns }));
  const onpagehide = (): void => {
    post({ type: 'leaving' });
    // The page closes the connections itself, because the worker may end before it reads the
    // message. The neighbours of a closed tab would then wait 6 s until their browsers notice that
    // the tab is gone.
    peers.close();
  };
  globalThis.addEventListener('pagehide', onpagehide);
  if (lock !== null) {
    onceThreadLockReleased(lock, new AbortController().signal, () => {
      globalThis.removeEventListener('pagehide', onpagehide);
      unwatch();
      peers.close();
      port.close();
    });
  }
}
