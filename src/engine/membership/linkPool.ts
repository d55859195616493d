/**
 * A pool of this rank's connections to other members. Unlike links, connections stay open from one
 * generation to the next.
 */
import type { SharedLink } from '../../transport/sharedLink.ts';
import { NO_TRAFFIC, type Traffic } from '../../util/activity.ts';

export class LinkPool {
  readonly #links = new Map<string, SharedLink>();
  /** Connections that use a TURN relay. */
  readonly #relayed = new WeakSet<SharedLink>();
  /** Bytes of connections that the pool no longer has. */
  #past: Traffic = NO_TRAFFIC;
  readonly #onlost: (member: string, error: Error | null) => void;

  /** @param onlost called when a connection closes, unless this rank has closed it. */
  constructor(onlost: (member: string, error: Error | null) => void) {
    this.#onlost = onlost;
  }

  get(member: string): SharedLink | null {
    return this.#links.get(member) ?? null;
  }

  /** Bytes of all connections so far. */
  get traffic(): Traffic {
    return [...this.#links.values()].map((link) => link.traffic).reduce(sum, this.#past);
  }

  /**
   * Adds a connection. It replaces an earlier connection to the same member. `isRelayed`: whether
   * it uses a TURN relay.
   */
  put(member: string, link: SharedLink, isRelayed = false): void {
    this.drop(member);
    if (isRelayed) this.#relayed.add(link);
    this.#links.set(member, link);
    link.onclose = (error) => {
      if (this.#links.get(member) !== link) return;
      this.#forget(member);
      this.#onlost(member, error);
    };
  }

  /** Closes the connection to a member, unless it uses a TURN relay. */
  dropDirect(member: string): void {
    const link = this.#links.get(member);
    if (link !== undefined && !this.#relayed.has(link)) this.drop(member);
  }

  /** Closes the connection to a member, if there is one. */
  drop(member: string): void {
    this.#forget(member)?.close();
  }

  /** Closes all connections except those to `members`. */
  retain(members: ReadonlySet<string>): void {
    for (const member of [...this.#links.keys()]) if (!members.has(member)) this.drop(member);
  }

  #forget(member: string): SharedLink | undefined {
    const link = this.#links.get(member);
    this.#links.delete(member);
    if (link !== undefined) this.#past = { ...sum(this.#past, link.traffic), unsent: 0 };
    return link;
  }
}

function sum(a: Traffic, b: Traffic): Traffic {
  return { unsent: a.unsent + b.unsent, sent: a.sent + b.sent, received: a.received + b.received };
}
