/**
 * A link to another tab of the same browser: a MessagePort between the two threads that use it, be
 * they workers or main threads.
 *
 * A port does not say when the tab at its other end has died. The browser does, by way of the Web
 * Locks API (https://www.w3.org/TR/web-locks/): each end holds a lock as long as it lives, and asks
 * for the other's, which it is given at once when that tab is gone, in whatever way.
 */
import { systemClock } from '../util/clock.ts';
import { deferred } from '../util/deferred.ts';
import { PeerGoneError } from '../util/errors.ts';
import type { AskForPort, PortRequest } from './broker.ts';
import type { Link } from './link.ts';
import type { PeerAttempt } from './peerLink.ts';
import { PortLink } from './portLink.ts';

/**
 * How long an end whose other end is gone waits for what that one may have sent before: the
 * browser's word takes another way, and may be faster.
 */
const LAST_WORDS_MS = 50;

export interface TabConnectOptions {
  /** Exactly one side is. */
  initiator: boolean;
  /** Both sides' secret, by which they meet. */
  key: string;
}

class TabLink extends PortLink {
  readonly #watch = new AbortController();
  readonly #letGo: () => void;

  /** @param letGo lets go of this end's lock. */
  constructor(port: MessagePort, letGo: () => void, othersLock: string) {
    super(port);
    this.#letGo = letGo;
    const { signal } = this.#watch;
    const gone = (): void => {
      systemClock.after(LAST_WORDS_MS, () => this.closed(new PeerGoneError('The other tab is gone.')));
    };
    // Rejects when it is called off, or this tab ends.
    navigator.locks.request(othersLock, { signal }, gone).catch(() => {});
  }

  protected override release(): void {
    super.release();
    this.#watch.abort();
    this.#letGo();
  }
}

/**
 * Starts one attempt to link to a tab that makes one with the same key. It takes no signals, and
 * has no deadline of its own. Its link rejects with PeerGoneError where the browser does not join
 * its tabs, or does not say when one is gone.
 */
export function connectTab(ask: AskForPort, { initiator, key }: TabConnectOptions): PeerAttempt {
  const own = `peergrad ${key} ${initiator ? 'a' : 'b'}`;
  const others = `peergrad ${key} ${initiator ? 'b' : 'a'}`;
  let request: PortRequest | null = null;
  let opened: Link | null = null;
  let isAborted = false;
  const open = async (): Promise<Link> => {
    // Before the other end can have a port: once it has, it asks for this lock.
    const letGo = await hold(own);
    try {
      if (isAborted) throw new PeerGoneError('Linking was cancelled.');
      request = ask(key);
      opened = new TabLink(await request.port, letGo, others);
      return opened;
    } catch (error) {
      letGo();
      throw error;
    }
  };
  return {
    link: open(),
    signal: () => {},
    abort() {
      isAborted = true;
      request?.cancel();
      opened?.close();
    },
  };
}

/**
 * Resolves once this tab has the lock, with what lets go of it.
 *
 * @throws (rejects) PeerGoneError on a page that is not secure: such have no locks.
 */
async function hold(name: string): Promise<() => void> {
  if (!globalThis.isSecureContext) {
    throw new PeerGoneError('Tabs of a page that is not secure (https) cannot tell when another is gone.');
  }
  const held = deferred<() => void>();
  const released = deferred();
  navigator.locks
    .request(name, () => {
      held.resolve(released.resolve);
      return released.promise;
    })
    .catch(held.reject);
  return held.promise;
}
