/**
 * The page's side of the engine. It starts the worker and passes the worker's events to a listener.
 * It also owns the peer connections, because they exist on the main thread only.
 */
import type { EngineCommand } from '../protocol/commands.ts';
import type { EngineEvent } from '../protocol/events.ts';
import { englishNoticeMessageOf } from '../protocol/notices.ts';
import { isPulseWorking } from '../util/activity.ts';
import { requestTabPort } from '../transport/broker.ts';
import { watchDebugPatterns } from '../util/debugLog.ts';
import { errorMessageOf } from '../util/errors.ts';
import { randomId } from './membership/browserId.ts';
import type { PeerRelayHost, PeerRelayRequest } from './membership/peerRelay.ts';
import { listenToPulses } from './membership/pulseSocket.ts';
import type { FromEngineWorker, ToEngineWorker } from './worker.ts';

export interface Engine {
  send(command: EngineCommand): void;
  /** Closes every connection, including the one to the server, and ends the worker. Idempotent. */
  stop(): void;
}

/** Starts this tab's engine. `onevent` receives the engine's events. */
export function startEngine(onevent: (event: EngineEvent) => void): Engine {
  const name = randomId();
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module', name });
  const post = (message: ToEngineWorker, transfer: Transferable[] = []): void => worker.postMessage(message, transfer);
  const unwatch = watchDebugPatterns((patterns) => post({ type: 'debug', patterns }));
  const fail = (why: string): void => {
    onevent({ type: 'failed', name: 'Error', message: `The engine stopped (${why}). Reload the page.`, fatal: true });
  };
  const deafen = listenToPulses(name, (pulse) => {
    const { task, ms } = pulse;
    if (isPulseWorking(pulse)) return onevent({ type: 'working', task, ms });
    onevent({ type: 'note', ...englishNoticeMessageOf({ code: 'hangs-here', task, seconds: Math.round(ms / 1000) }) });
  });
  let isStopped = false;
  let opening: Promise<PeerRelayHost> | null = null;
  const openHost = async (): Promise<PeerRelayHost> => {
    const [{ openPeerConnection }, relay] = await Promise.all([
      import('../transport/peerLink.ts'),
      import('./membership/peerRelay.ts'),
    ]);
    return new relay.PeerRelayHost(openPeerConnection, requestTabPort, (reply, transfer) =>
      post({ type: 'relay', reply }, transfer),
    );
  };
  const host = (): Promise<PeerRelayHost> => {
    if (opening === null) {
      opening = openHost();
      opening.catch((error: unknown) => {
        if (!isStopped) fail(errorMessageOf(error));
      });
    }
    return opening;
  };
  const receive = async (request: PeerRelayRequest): Promise<void> => {
    // If WebRTC's code could not be loaded, the failure was reported above.
    (await host().catch(() => null))?.receive(request);
  };
  worker.addEventListener('message', ({ data }: MessageEvent<FromEngineWorker>) => {
    if (data.type === 'relay') {
      void receive(data.request);
    } else {
      // A tab joins a room without WebRTC's code, and spectators never need it.
      if (data.events.some(({ type }) => type === 'device')) void host();
      data.events.forEach(onevent);
    }
  });
  worker.addEventListener('error', ({ message }) => fail(message || 'it could not be loaded'));
  const stop = (): void => {
    globalThis.removeEventListener('pagehide', stop);
    isStopped = true;
    opening?.then(
      (peers) => peers.close(),
      () => {},
    );
    deafen();
    unwatch();
    worker.terminate();
  };
  // Without this listener, the neighbours of a closed tab would wait 6 s until their browsers
  // notice that the connection is closed.
  globalThis.addEventListener('pagehide', stop);
  return { send: (command) => post({ type: 'command', command }), stop };
}
