/**
 * A link to another tab of the same browser: a MessagePort between the threads (main threads or
 * workers) that use it.
 *
 * A port does not report that the tab at its other end has died. So each end holds a lock while it
 * is alive and requests the other end's lock.
 */
import { systemClock } from '../util/clock.ts';
import { PeerGoneError } from '../util/errors.ts';
import type { TabPortRequest, RequestTabPort } from './broker.ts';
import type { Link } from './link.ts';
import type { PeerAttempt } from './peerLink.ts';
import { PortLink } from './portLink.ts';
import { acquireThreadLock, onceThreadLockReleased } from './threadLock.ts';

/**
 * How long an end waits for late frames after the other end is gone. Frames and the lock arrive by
 * different paths, so the lock may be first.
 */
const LATE_FRAMES_MS = 50;

export interface TabConnectOptions {
  /** Exactly one side is the initiator. */
  initiator: boolean;
  /** The secret key by which both sides find each other. */
  key: string;
}

class TabLink extends PortLink {
  readonly #watch = new AbortController();
  readonly #releaseLock: () => void;

  /** @param releaseLock releases this end's lock. */
  constructor(port: MessagePort, releaseLock: () => void, othersLock: string) {
    super(port);
    this.#releaseLock = releaseLock;
    const gone = (): void => {
      systemClock.after(LATE_FRAMES_MS, () => this.closed(new PeerGoneError('The other tab is gone.')));
    };
    onceThreadLockReleased(othersLock, this.#watch.signal, gone);
  }

  protected override release(): void {
    super.release();
    this.#watch.abort();
    this.#releaseLock();
  }
}

/**
 * Starts one attempt to link to the tab that connects with the same key. The attempt needs no
 * signals and has no deadline of its own. Its link rejects with PeerGoneError if the browser cannot
 * connect its tabs, or cannot report that a tab is gone.
 */
export function connectTab(requestTabPort: RequestTabPort, { initiator, key }: TabConnectOptions): PeerAttempt {
  const own = `peergrad ${key} ${initiator ? 'a' : 'b'}`;
  const others = `peergrad ${key} ${initiator ? 'b' : 'a'}`;
  let request: TabPortRequest | null = null;
  let opened: Link | null = null;
  let isAborted = false;
  const open = async (): Promise<Link> => {
    // The lock is acquired before the other end has a port, because the other end requests this
    // lock as soon as it has a port.
    if (!globalThis.isSecureContext) {
      throw new PeerGoneError(
        'Tabs cannot be linked directly on an insecure page, because it cannot detect that another tab is gone. Use https.',
      );
    }
    const releaseLock = await acquireThreadLock(own);
    try {
      if (isAborted) throw new PeerGoneError('Linking was cancelled.');
      request = requestTabPort(key);
      opened = new TabLink(await request.port, releaseLock, others);
      return opened;
    } catch (error) {
      releaseLock();
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
