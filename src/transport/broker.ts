/**
 * A page's way to a port that leads to another tab of the same browser: a SharedWorker brings the
 * two together, as only it can pass ports between tabs. A page's main thread only: dedicated
 * workers cannot reach a SharedWorker.
 */
import { deferred } from '../util/deferred.ts';
import { messageOf, PeerGoneError } from '../util/errors.ts';

/** One wish for a port. */
export interface PortRequest {
  /**
   * Resolves once the other tab has asked by the same key. Rejects with PeerGoneError where that
   * cannot be, or was cancelled.
   */
  readonly port: Promise<MessagePort>;
  readonly cancel: () => void;
}

/**
 * Asks for a port to the tab that asks by the same key, which nobody else must know. It has no
 * deadline of its own.
 */
export type AskForPort = (key: string) => PortRequest;

export const askForPort: AskForPort = (key) => {
  const found = deferred<MessagePort>();
  const fail = (why: string): void => found.reject(new PeerGoneError(`This browser does not join its tabs: ${why}.`));
  let broker: SharedWorker | null = null;
  try {
    // Written so that bundlers know it for a worker, and named as in the library's package: Vite
    // finds its source by that name too.
    broker = new SharedWorker(new URL('./brokerWorker.js', import.meta.url), {
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
    fail(messageOf(error));
  }
  const cancel = (): void => {
    broker?.port.close();
    fail('the other tab did not come');
  };
  return { port: found.promise, cancel };
};
