/**
 * Obtains a port to another tab of the same browser. A SharedWorker connects the two tabs, because
 * only a SharedWorker can pass ports between tabs. This code runs on the main thread only, because
 * dedicated workers cannot reach a SharedWorker.
 */
import { createDeferred } from '../util/deferred.ts';
import { errorMessageOf, PeerGoneError } from '../util/errors.ts';

export interface TabPortRequest {
  /**
   * Resolves once the other tab has made a request with the same key. Rejects with PeerGoneError if
   * this browser cannot connect its tabs, or if the request was cancelled.
   */
  readonly port: Promise<MessagePort>;
  readonly cancel: () => void;
}

/**
 * Requests a port to another tab, which must make a request with the same secret key. The request
 * has no deadline of its own.
 */
export type RequestTabPort = (key: string) => TabPortRequest;

export const requestTabPort: RequestTabPort = (key) => {
  const found = createDeferred<MessagePort>();
  const fail = (why: string): void => found.reject(new PeerGoneError(`This browser cannot connect its tabs: ${why}.`));
  let broker: SharedWorker | null = null;
  try {
    // Bundlers recognise this expression as a worker.
    broker = new SharedWorker(new URL('./brokerWorker.ts', import.meta.url), {
      type: 'module',
      name: 'peergrad broker',
    });
    const { port } = broker;
    broker.addEventListener('error', () => fail('their SharedWorker could not be loaded'));
    port.onmessage = ({ ports }) => {
      port.close();
      found.resolve(ports[0]!);
    };
    port.postMessage(key);
  } catch (error) {
    // Chrome on Android has no SharedWorker, and a page's policy may forbid it.
    fail(errorMessageOf(error));
  }
  const cancel = (): void => {
    broker?.port.close();
    fail('the other tab did not request the port');
  };
  return { port: found.promise, cancel };
};
