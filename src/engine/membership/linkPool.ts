/** This rank's connections to others, by member. They outlast generations. */
import type { SharedLink } from '../../transport/sharedLink.ts';

export class LinkPool {
  readonly #links = new Map<string, SharedLink>();
  /** Connections made over a TURN relay only. */
  readonly #relayed = new WeakSet<SharedLink>();
  readonly #onlost: (member: string, error: Error | null) => void;

  /** @param onlost called when a connection closes that this rank did not close. */
  constructor(onlost: (member: string, error: Error | null) => void) {
    this.#onlost = onlost;
  }

  get(member: string): SharedLink | null {
    return this.#links.get(member) ?? null;
  }

  /**
   * Adds a connection in place of one to the same member. `isRelayed`: it was made over a TURN
   * relay only.
   */
  put(member: string, link: SharedLink, isRelayed = false): void {
    this.drop(member);
    if (isRelayed) this.#relayed.add(link);
    this.#links.set(member, link);
    link.onclose = (error) => {
      if (this.#links.get(member) !== link) return;
      this.#links.delete(member);
      this.#onlost(member, error);
    };
  }

  /** Closes the connection to a member, unless it was made over a TURN relay only. */
  dropDirect(member: string): void {
    const link = this.#links.get(member);
    if (link !== undefined && !this.#relayed.has(link)) this.drop(member);
  }

  /** Closes the connection to a member, if there is one. */
  drop(member: string): void {
    const link = this.#links.get(member);
    this.#links.delete(member);
    link?.close();
  }

  /** Closes all connections but those to `members`. */
  retain(members: ReadonlySet<string>): void {
    for (const member of [...this.#links.keys()]) if (!members.has(member)) this.drop(member);
  }
}
