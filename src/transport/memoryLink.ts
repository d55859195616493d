/** Links within one process: for tests, `runWorld`, and ranks that share a thread. */
import { BaseLink } from './linkEnd.ts';
import type { LinkDescription } from './link.ts';

class MemoryLink extends BaseLink {
  peer: MemoryLink | null = null;

  protected transmit(frame: ArrayBuffer): void {
    const { peer } = this;
    const bytes = frame.byteLength;
    // Any link may detach the buffer. This link always does, so that unit tests detect callers that
    // use the buffer afterwards.
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
    return Promise.resolve({ route: 'memory', roundTripMs: 0, connections: 0 });
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
