/**
 * Memory links that delay every frame by a random time. Frames of different links arrive in orders
 * that plain memory links never cause. Each link keeps the order of its own frames.
 */
import { BaseLink } from '../../src/transport/linkEnd.ts';
import type { LinkDescription } from '../../src/transport/link.ts';
import type { Rng } from '../../src/util/rng.ts';

/** Longest delay of a slow frame, in turns of the event loop. */
const MAX_TURNS = 12;
/** One in this many frames is slow on average. */
const SLOW_EVERY = 4;

class DelayedLink extends BaseLink {
  readonly #rng: Rng;
  readonly #queue: ArrayBuffer[] = [];
  peer: DelayedLink | null = null;

  constructor(rng: Rng) {
    super();
    this.#rng = rng;
  }

  protected transmit(frame: ArrayBuffer): void {
    this.#queue.push(structuredClone(frame, { transfer: [frame] }));
    if (this.#queue.length === 1) this.#wait();
  }

  protected release(): void {
    const { peer } = this;
    this.peer = null;
    setImmediate(() => peer?.closed(null));
  }

  describe(): Promise<LinkDescription> {
    return Promise.resolve({ route: 'memory', roundTripMs: null, connections: 0 });
  }

  #wait(turns = this.#rng.below(SLOW_EVERY) === 0 ? this.#rng.below(MAX_TURNS) : 0): void {
    setImmediate(() => {
      if (turns > 0) return this.#wait(turns - 1);
      const frame = this.#queue.shift()!;
      const bytes = frame.byteLength;
      this.peer?.arrived(frame);
      this.left(bytes);
      if (this.#queue.length > 0) this.#wait();
      return undefined;
    });
  }
}

/** Returns a function that creates pairs of connected links. */
export function delayedLinks(rng: Rng): () => [DelayedLink, DelayedLink] {
  return () => {
    const a = new DelayedLink(rng);
    const b = new DelayedLink(rng);
    a.peer = b;
    b.peer = a;
    return [a, b];
  };
}
