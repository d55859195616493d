/**
 * Feeds of this rank: groups of two outside of any generation, in which a newcomer receives the
 * run's state from a rank that trains. Feeds use the connections of the pool, so the two ranks use
 * their connection again if they become neighbours.
 */
import type { ServerMessage } from '../../protocol/control.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import { localRankOf } from '../../protocol/seating.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { LinkAcrossGenerations } from '../../transport/linkAcrossGenerations.ts';
import { PeerGoneError } from '../../util/errors.ts';
import type { Generation } from './generation.ts';
import type { GenerationLinks, GenerationLinksOptions } from './generationLinks.ts';

type FeedMessage = Extract<ServerMessage, { type: 'feed' }>;

interface FeedsOptions {
  openLinks: (
    feed: Pick<GenerationLinksOptions, 'generation' | 'rank' | 'members' | 'relayed' | 'served'>,
    job: JobSpec,
  ) => GenerationLinks;
  /** On rank 0 of `feed`, feeds the newcomer. On rank 1, receives the state from the feeder. */
  run: (feed: Generation) => Promise<void>;
  /** Called when the link could not be opened, or `run` has rejected, unless the feed was ended. */
  onfailed: (other: RosterEntry, rank: number) => void;
}

interface LiveFeed {
  readonly rank: number;
  readonly members: RosterEntry[];
  readonly links: GenerationLinks;
  readonly abort: AbortController;
  isOpen: boolean;
}

export class StateFeeds {
  readonly #options: FeedsOptions;
  /** Keys are the numbers of the feeds. */
  readonly #live = new Map<number, LiveFeed>();
  /** Promises of this rank's work for feeds, including feeds that have ended. */
  readonly #running = new Map<number, Promise<void>>();

  constructor(options: FeedsOptions) {
    this.#options = options;
  }

  /** Ids of all members that this rank feeds or is fed by. */
  get members(): string[] {
    return [...this.#live.values()].flatMap(({ members }) => members.map(({ member }) => member));
  }

  begin({ generation, run, members, relayed, served }: FeedMessage, job: JobSpec, self: string): void {
    const rank = members.findIndex(({ member }) => member === self);
    if (rank < 0) return;
    const { openLinks, run: perform, onfailed } = this.#options;
    // A newcomer has one feeder.
    if (rank === 1) this.end(() => false, 'The server named another feeder.');
    const [feeder, newcomer] = members;
    const pair = [feeder.member, newcomer.member] as const;
    const links = openLinks(
      { generation, rank, members, relayed: relayed ? [pair] : [], served: served ? [pair] : [] },
      job,
    );
    const abort = new AbortController();
    const feed = { rank, members, links, abort, isOpen: false };
    this.#live.set(generation, feed);
    const running = (async (): Promise<void> => {
      try {
        const opened = await links.open();
        feed.isOpen = true;
        await perform({
          ...opened,
          ...localRankOf(rank, members),
          generation,
          run,
          rank,
          worldSize: 2,
          members,
          separated: [],
          job,
          signal: abort.signal,
        });
      } catch {
        if (this.#live.get(generation) === feed) onfailed(members[1 - rank]!, rank);
      } finally {
        this.#end(generation, 'The feed is over.');
      }
    })();
    this.#running.set(generation, running);
    void running.then(() => this.#running.delete(generation));
  }

  signal(message: Extract<ServerMessage, { type: 'signal' }>): void {
    this.#live.get(message.generation)?.links.signal(message);
  }

  /**
   * Ends the feed that this rank receives. Also ends each feed that this rank gives, if `isOver`
   * returns true for the newcomer.
   */
  end(isOver: (newcomer: string) => boolean, reason: string): void {
    for (const [generation, { rank, members }] of this.#live) {
      if (rank === 1 || isOver(members[1]!.member)) this.#end(generation, reason);
    }
  }

  /**
   * Ends the same feeds as {@link end}, but only those that are still linking. A generation with
   * the newcomer opens a connection of its own, and the pool keeps only one.
   */
  giveWay(isOver: (newcomer: string) => boolean): void {
    for (const [generation, { rank, members, isOpen }] of this.#live) {
      const isOfGeneration = rank === 1 || isOver(members[1]!.member);
      if (!isOpen && isOfGeneration) this.#end(generation, 'A generation with the newcomer began.');
    }
  }

  /** Call it when a connection to a member is lost. */
  lost(member: string, connection: LinkAcrossGenerations): void {
    for (const { members, rank, links, abort } of this.#live.values()) {
      const peer = 1 - rank;
      if (members[peer]!.member !== member || links.usesAnother(peer, connection)) continue;
      abort.abort(new PeerGoneError(`The connection to ${members[peer]!.name} broke.`, { missing: [peer] }));
    }
  }

  /** Resolves when this rank has no work left for feeds that have ended. */
  async over(): Promise<void> {
    const ended = [...this.#running].filter(([generation]) => !this.#live.has(generation));
    await Promise.all(ended.map(([, running]) => running));
  }

  #end(generation: number, reason: string): void {
    const feed = this.#live.get(generation);
    this.#live.delete(generation);
    const why = new PeerGoneError(reason);
    feed?.abort.abort(why);
    feed?.links.close(why);
  }
}
