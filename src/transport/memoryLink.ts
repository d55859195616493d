/** Links within one process: for tests, `runWorld`, and ranks that share a thread. */
import { BaseLink } from './baseLink.ts';
import type { LinkDescription } from './link.ts';

class MemoryLink extends BaseLink {
  peer: MemoryLink | null = null;

  protected transmit(frame: ArrayBuffer): void {
    const { peer } = this;
    const bytes = frame.byteLength;
    // The buffer is detached, as on any other link. So unit tests detect callers that use it
    // afterwards.
    const moved = structuredClone(frame, { transfer: [frame] });
    queueMicrotask(() => {
      this.left(bytes);
      peer?.arrived(moved);
    });
  }

  protected release(): void {
    const { peer } = this;
    this.peer = null;
    queueMicrotask(() => peer?.closed(null));
  }

  describe(): Promise<LinkDescription> {
    return Promise.resolve({ route: 'memory', roundTripMs: 0 });
  }
}

/** Returns a connected pair of links. Both ends are open immediately. */
export function createMemoryLinkPair(): [MemoryLink, MemoryLink] {
  const a = new MemoryLink();
  const b = new MemoryLink();
  a.peer = b;
  b.peer = a;
  return [a, b];
}
