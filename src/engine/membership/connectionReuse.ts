/**
 * Links two ranks over a connection of an earlier generation.
 *
 * There may be two connections: one through the server, and a direct one that the previous
 * generation has kept. The end that decides greets over one connection at a time, the kept one
 * first. The other end cannot know whether that end has the kept connection, so it greets over all
 * connections, also over one that is kept a moment later. So both ends use the same connection.
 */
import { performHandshake, type HelloMessage } from '../../transport/handshake.ts';
import type { Link } from '../../transport/link.ts';
import type { LinkAcrossGenerations } from '../../transport/linkAcrossGenerations.ts';
import type { Clock } from '../../util/clock.ts';
import { errorMessageOf, PeerGoneError } from '../../util/errors.ts';
import type { OpenedConnection } from './linkAttemptTrack.ts';
import type { ConnectionKind, LinkPool } from './linkPool.ts';

/**
 * Deadline in milliseconds for the handshake over an open connection. The handshake takes one round
 * trip, unless the connection is dead. A connection through the server has twice this time, because
 * the other end may first try a direct connection that it has kept.
 */
const REUSE_TIMEOUT_MS = 3_000;
/**
 * The deadline is extended up to this number of milliseconds while other frames move over a
 * connection through the server: the handshake may wait behind them, and an earlier generation may
 * still need them. The time ends before that of linking.
 */
const MAX_REUSE_MS = 12_000;
/** Minimum number of moved bytes that shows that frames other than a handshake's have moved. */
const MIN_MOVED_BYTES = 4096;

interface ReuseOptions {
  self: HelloMessage;
  peer: HelloMessage;
  pool: LinkPool;
  clock: Clock;
  /** Called when a connection cannot be used. */
  onfailure: (kind: ConnectionKind, failure: string) => void;
}

export class ConnectionReuse {
  readonly #options: ReuseOptions;
  /** The links on which a handshake is in progress. */
  readonly #greeting = new Set<Link>();
  /** The connection that both ends use. */
  #used: OpenedConnection | null = null;
  #isCancelled = false;
  #begunAt = 0;
  /** Whether connections whose handshake was cancelled stay in the pool. */
  #keepsConnections = false;

  constructor(options: ReuseOptions) {
    this.#options = options;
  }

  /**
   * Resolves with the connection that both ends use, or with `null` if they use none. Connections
   * whose handshake has failed are closed.
   */
  async run(): Promise<OpenedConnection | null> {
    const { pool, peer, clock } = this.#options;
    this.#begunAt = clock.now();
    const kept = pool.keptFor(peer.member);
    const current = pool.get(peer.member);
    if (kept?.decides) {
      await this.#greet(kept.link);
      if (this.#used === null && current?.state === 'open') await this.#greet(current);
      return this.#used;
    }
    const pending = new Set<Promise<void>>();
    const greet = (shared: LinkAcrossGenerations): void => {
      const greeting = this.#greet(shared).finally(() => pending.delete(greeting));
      pending.add(greeting);
    };
    for (const shared of [kept?.link, current]) if (shared) greet(shared);
    const stop = pool.watchKept((member, { link, decides }) => {
      if (member === peer.member && !decides) greet(link);
    });
    while (pending.size > 0) await Promise.race(pending);
    stop();
    return this.#used;
  }

  /**
   * Ends all handshakes.
   *
   * @param keepsConnections whether the connections may still be usable, and stay in the pool.
   */
  cancel(keepsConnections: boolean): void {
    this.#isCancelled = true;
    this.#keepsConnections = keepsConnections;
    for (const link of this.#greeting) link.close();
  }

  async #greet(shared: LinkAcrossGenerations): Promise<void> {
    if (this.#isCancelled || this.#used !== null) return;
    const { pool, self, peer, clock, onfailure } = this.#options;
    const kind = pool.kindOf(shared);
    let view: Link | null = null;
    try {
      if (shared.isStalled) throw new PeerGoneError('Nothing arrives over the connection.');
      view = shared.view(self.generation);
      this.#greeting.add(view);
      const deadline =
        kind === 'served'
          ? { timeoutMs: 2 * REUSE_TIMEOUT_MS, isExcused: this.#watch(shared) }
          : { timeoutMs: REUSE_TIMEOUT_MS };
      await performHandshake(view, self, peer, { ...deadline, clock });
      this.#used = { shared, view };
      if (pool.keptFor(peer.member)?.link === shared) pool.take(peer.member);
      for (const other of this.#greeting) if (other !== view) other.close();
    } catch (error) {
      if (this.#keepsConnections || this.#used !== null) return;
      onfailure(kind, errorMessageOf(error));
      pool.drop(peer.member, shared);
    } finally {
      if (view !== null) this.#greeting.delete(view);
    }
  }

  /** Returns a function that returns whether other frames have moved since its previous call. */
  #watch(shared: LinkAcrossGenerations): () => boolean {
    const { clock } = this.#options;
    const bytes = (): number => shared.traffic.sent + shared.traffic.received;
    let before = bytes();
    return () => {
      const moved = bytes() - before;
      before += moved;
      const nextEnd = clock.now() - this.#begunAt + 2 * REUSE_TIMEOUT_MS;
      return moved >= MIN_MOVED_BYTES && nextEnd <= MAX_REUSE_MS;
    };
  }
}
