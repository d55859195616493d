/**
 * A pool of this rank's connections to other members. Unlike links, connections stay open from one
 * generation to the next.
 *
 * A member has one connection. If it goes through the server, the pool may also keep a direct
 * connection, which the next generation uses instead.
 */
import type { LinkAcrossGenerations } from '../../transport/linkAcrossGenerations.ts';
import { NO_LINK_TRAFFIC, type LinkTraffic } from '../../util/activity.ts';
import { PeerGoneError } from '../../util/errors.ts';

/** `relayed`: over a TURN relay. `served`: through the signaling server. */
export type ConnectionKind = 'direct' | 'relayed' | 'served';

/** A direct connection that the next generation uses. */
export interface KeptConnection {
  readonly link: LinkAcrossGenerations;
  readonly kind: ConnectionKind;
  /** Whether this end decides over which connection the next generation links the two ranks. */
  readonly decides: boolean;
}

/** Called when a connection closes, unless this rank has closed it. */
export type OnConnectionLost = (member: string, error: Error | null, link: LinkAcrossGenerations) => void;

export class LinkPool {
  readonly #links = new Map<string, LinkAcrossGenerations>();
  readonly #kept = new Map<string, KeptConnection>();
  /**
   * Connections that were replaced, with their members. The previous generation still uses them.
   */
  readonly #replaced = new Map<LinkAcrossGenerations, string>();
  readonly #kinds = new WeakMap<LinkAcrossGenerations, ConnectionKind>();
  readonly #watchers = new Set<(member: string, kept: KeptConnection) => void>();
  /** Connections that {@link check} asks at the moment. */
  readonly #asked = new Set<LinkAcrossGenerations>();
  /** Bytes of connections that the pool no longer has. */
  #past: LinkTraffic = NO_LINK_TRAFFIC;
  readonly #onlost: OnConnectionLost;

  /** @param onlost not called for a connection that is only kept. */
  constructor(onlost: OnConnectionLost) {
    this.#onlost = onlost;
  }

  get(member: string): LinkAcrossGenerations | null {
    return this.#links.get(member) ?? null;
  }

  /** Returns the connection that {@link keepForNext} has added. */
  keptFor(member: string): KeptConnection | null {
    return this.#kept.get(member) ?? null;
  }

  /** The connections that {@link keepForNext} has added, by member. */
  get allKept(): ReadonlyMap<string, KeptConnection> {
    return this.#kept;
  }

  /**
   * Whether the pool has a connection to a member, including one that is kept for the next
   * generation.
   */
  has(member: string): boolean {
    return this.#links.has(member) || this.#kept.has(member);
  }

  /** Whether the connection to a member goes through the server. */
  isServed(member: string): boolean {
    const link = this.#links.get(member);
    return link !== undefined && this.kindOf(link) === 'served';
  }

  /** Returns the kind of a connection that the pool has or had. */
  kindOf(link: LinkAcrossGenerations): ConnectionKind {
    return this.#kinds.get(link) ?? 'direct';
  }

  /** Bytes of all connections so far. */
  get traffic(): LinkTraffic {
    const kept = [...this.#kept.values()].map(({ link }) => link);
    return [...this.#links.values(), ...kept, ...this.#replaced.keys()]
      .map((link) => link.traffic)
      .reduce(sum, this.#past);
  }

  /**
   * Adds a connection. It replaces an earlier connection to the same member, also one that is kept.
   */
  put(member: string, link: LinkAcrossGenerations, kind: ConnectionKind = 'direct'): void {
    for (const earlier of [this.#links.get(member), this.#kept.get(member)?.link]) {
      if (earlier !== undefined) this.drop(member, earlier);
    }
    this.#links.set(member, link);
    this.#watch(member, link, kind);
  }

  /**
   * Keeps a direct connection for the next generation, if the connection to this member goes
   * through the server. Otherwise closes the direct connection. If a kept connection breaks before
   * it is used, the pool forgets it.
   */
  keepForNext(member: string, kept: KeptConnection): void {
    if (!this.isServed(member) || this.#kept.has(member)) return kept.link.close();
    this.#kept.set(member, kept);
    this.#watch(member, kept.link, kept.kind);
    for (const watcher of this.#watchers) watcher(member, kept);
  }

  /**
   * Calls `watcher` with each connection that is kept. Returns a function that ends these calls.
   */
  watchKept(watcher: (member: string, kept: KeptConnection) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /**
   * Makes the kept connection the connection to this member. The previous connection stays open
   * until {@link retain} is called, because the previous generation still uses it.
   */
  take(member: string): void {
    const kept = this.#kept.get(member);
    if (kept === undefined) return;
    const previous = this.#links.get(member);
    if (previous !== undefined) this.#replaced.set(previous, member);
    this.#kept.delete(member);
    this.#links.set(member, kept.link);
  }

  /**
   * Closes the connection to a member, unless it uses a TURN relay or the server. A kept connection
   * stays open, because it is newer than the failure that makes a relay necessary.
   */
  dropDirect(member: string): void {
    const link = this.#links.get(member);
    if (link !== undefined && this.kindOf(link) === 'direct') this.drop(member, link);
  }

  /**
   * Replaces a stalled connection to a member by one through the server. The stalled connection is
   * closed with `why`, and counts as lost.
   */
  replaceStalled(member: string, link: LinkAcrossGenerations, why: Error): void {
    const stalled = this.#links.get(member);
    if (stalled !== undefined) this.#replaced.set(stalled, member);
    this.#links.set(member, link);
    this.#watch(member, link, 'served');
    stalled?.close(why);
  }

  /**
   * Closes connections whose other end does not answer within `ms` milliseconds. The sockets of
   * such connections may seem open after the machine has slept or changed its network.
   *
   * @param isLate resolves with whether the other end may answer later.
   */
  async check(ms: number, isLate: (member: string) => Promise<boolean>): Promise<void> {
    const check = async (member: string, link: LinkAcrossGenerations): Promise<void> => {
      this.#asked.add(link);
      while (!(await link.answers(ms))) {
        if (await isLate(member)) continue;
        const why = `The other end of a link through the server has not answered within ${ms / 1000} s.`;
        link.close(new PeerGoneError(why));
      }
      this.#asked.delete(link);
    };
    const due = [...this.#links].filter(([, link]) => !this.#asked.has(link));
    await Promise.all(due.map(([member, link]) => check(member, link)));
  }

  /** Closes all connections to a member, or only `link`. */
  drop(member: string, link?: LinkAcrossGenerations): void {
    for (const one of this.#allTo(member)) {
      if (link !== undefined && one !== link) continue;
      this.#forget(member, one);
      one.close();
    }
  }

  /** Closes all connections except those to `members`, and all that were replaced. */
  retain(members: ReadonlySet<string>): void {
    for (const [link, member] of this.#replaced) this.drop(member, link);
    const all = new Set([...this.#links.keys(), ...this.#kept.keys()]);
    for (const member of all) if (!members.has(member)) this.drop(member);
  }

  #watch(member: string, link: LinkAcrossGenerations, kind: ConnectionKind): void {
    this.#kinds.set(link, kind);
    link.onclose = (error) => {
      if (!this.#allTo(member).includes(link)) return;
      const isUsed = this.#kept.get(member)?.link !== link;
      this.#forget(member, link);
      if (isUsed) this.#onlost(member, error, link);
    };
  }

  #allTo(member: string): LinkAcrossGenerations[] {
    const replaced = [...this.#replaced].flatMap(([link, other]) => (other === member ? [link] : []));
    const current = [this.#links.get(member), this.#kept.get(member)?.link];
    return [...current.filter((link) => link !== undefined), ...replaced];
  }

  #forget(member: string, link: LinkAcrossGenerations): void {
    if (this.#links.get(member) === link) this.#links.delete(member);
    if (this.#kept.get(member)?.link === link) this.#kept.delete(member);
    this.#replaced.delete(link);
    this.#past = { ...sum(this.#past, link.traffic), unsent: 0 };
  }
}

function sum(a: LinkTraffic, b: LinkTraffic): LinkTraffic {
  return { unsent: a.unsent + b.unsent, sent: a.sent + b.sent, received: a.received + b.received };
}
