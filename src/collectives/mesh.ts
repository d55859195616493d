/**
 * The links of one generation, as this rank has them: to both ring neighbours from the start, to
 * others once something is sent to them. Process groups share it; each gets the frames of its own.
 * Ranks are global here. News are passed on for all groups until the generation ends, also after
 * this rank has left its own.
 */
import * as v from 'valibot';
import { FrameKind, readHeader, type FrameHeader } from '../protocol/frame.ts';
import { FlightRecorder } from '../telemetry/flightRecorder.ts';
import type { Link } from '../transport/link.ts';
import { asError, messageOf, PeerGoneError, PeergradError, ProtocolError, UsageError } from '../util/errors.ts';
import { FloodRelay } from './diagnostics/floodRelay.ts';
import { MAX_UNEXPECTED_COLLECTIVES, MAX_UNEXPECTED_MESSAGES, UnexpectedMessageQueue } from './unexpectedMessages.ts';
import { leftOf, rightOf } from './plans/ringPlan.ts';

interface MeshOptions {
  rank: number;
  worldSize: number;
  /** Membership generation; frames of another are dropped. */
  generation: number;
  /** Links that are up, by rank: to both ring neighbours at least. */
  links: ReadonlyMap<number, Link>;
  /** Opens a link to a rank that has none yet. The other end gets it by {@link Mesh.accept}. */
  connect?: (rank: number) => Promise<Link>;
  /**
   * Makes an id for news that no other rank can guess. The default counts from 0, for ranks that
   * trust each other.
   */
  newsId?: () => number;
}

/** What a process group hears of its mesh. */
export interface MeshListener {
  onframe: (header: FrameHeader, frame: ArrayBuffer, from: number) => void;
  onspectatorupdate: (body: unknown, from: number) => void;
  /** The link to a rank is gone. */
  onlost: (peer: number, error: Error | null) => void;
  /**
   * A rank cannot be reached, or sent something that no rank of ours sends: `error` says which and
   * what.
   */
  onbroken: (peer: number, error: Error) => void;
  /** The generation is over. */
  onend: (error: Error) => void;
}

/**
 * Largest number of a group: it has two bytes in a frame. Numbers are not used again, because
 * frames may come late.
 */
const MAX_GROUP = 0xffff;

export class Mesh {
  readonly rank: number;
  readonly worldSize: number;
  readonly generation: number;
  /** Collectives and messages of all groups of this rank. */
  readonly recorder: FlightRecorder;
  /** What ranks have sent ahead of this rank's calls, in all groups. */
  readonly parkedCollectives: UnexpectedMessageQueue;
  readonly parkedMessages: UnexpectedMessageQueue;
  readonly #connect: MeshOptions['connect'];
  readonly #links = new Map<number, Link>();
  /** Frames for ranks whose link is being opened. */
  readonly #waiting = new Map<number, { frame: ArrayBuffer; sent: () => void }[]>();
  readonly #groups = new Map<number, MeshListener>();
  /** Global ranks of all groups that were made, by number. */
  readonly #members: (readonly number[])[] = [];
  readonly #flood: FloodRelay;
  #isListening = false;

  /** @throws UsageError where the rank does not exist, or a ring neighbour has no link. */
  constructor({ rank, worldSize, generation, links, connect, newsId = counter() }: MeshOptions) {
    if (!Number.isInteger(worldSize) || worldSize < 1 || !Number.isInteger(rank) || rank < 0 || rank >= worldSize) {
      throw new UsageError(`Rank ${rank} does not exist in world size ${worldSize}: ranks are 0 .. worldSize-1.`);
    }
    const neighbours = [rightOf(rank, worldSize), leftOf(rank, worldSize)];
    if (worldSize > 1 && !neighbours.every((neighbour) => links.has(neighbour))) {
      throw new UsageError('A process group of several ranks needs a link to both neighbours.');
    }
    this.rank = rank;
    this.worldSize = worldSize;
    this.generation = generation;
    this.recorder = new FlightRecorder({ rank, worldSize, generation });
    const context = { rank, worldSize, generation };
    const groupsWith = (sender: number): number =>
      [...this.#groups.keys()].filter((group) => this.#members[group]!.includes(sender)).length;
    this.parkedCollectives = new UnexpectedMessageQueue({
      ...{ limits: MAX_UNEXPECTED_COLLECTIVES, groupsWith, context },
      what: `collectives that rank ${rank} has not called yet`,
    });
    this.parkedMessages = new UnexpectedMessageQueue({
      ...{ limits: MAX_UNEXPECTED_MESSAGES, groupsWith, context, what: 'messages that nobody has asked for' },
    });
    this.#connect = connect;
    for (const [peer, link] of links) this.#links.set(peer, link);
    this.#flood = new FloodRelay({
      ...{ rank, worldSize, generation, links: this.#links, neighbours: new Set(neighbours), newId: newsId },
      membersOf: (group) => this.#members[group],
    });
  }

  /**
   * Makes a group of `members` hear its frames. Groups are numbered in the order they are made, the
   * same on all ranks.
   *
   * @throws UsageError where a frame has no number for the group: another group's would end the
   *   world.
   */
  register(listener: MeshListener, members: readonly number[]): number {
    if (this.#members.length > MAX_GROUP) {
      throw new UsageError(
        `A generation has at most ${MAX_GROUP + 1} process groups, destroyed ones included: use groups again instead of making new ones.`,
      );
    }
    const group = this.#members.push(members) - 1;
    this.#groups.set(group, listener);
    return group;
  }

  /** Begins to hear the links; the first group must not miss what has come already. Idempotent. */
  listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    for (const [peer, link] of this.#links) this.#attach(peer, link);
  }

  /** The group hears no more. */
  unregister(group: number): void {
    this.#groups.delete(group);
  }

  /** Takes over a link that was opened by this rank or by `peer`. */
  accept(peer: number, link: Link): void {
    if (this.#links.has(peer)) return;
    this.#links.set(peer, link);
    const waiting = this.#waiting.get(peer) ?? [];
    this.#waiting.delete(peer);
    for (const { frame, sent } of waiting) void this.send(peer, frame).then(sent);
    if (this.#isListening) this.#attach(peer, link);
  }

  /**
   * Sends to any rank, opening a link first where there is none. Resolves when more may come;
   * failures go to `onlost`.
   */
  send(peer: number, frame: ArrayBuffer): Promise<void> {
    const link = this.#links.get(peer);
    if (!link) return this.#open(peer, frame);
    return link.send(frame).catch((error: unknown) => {
      // Of a link that is gone `onclose` has told.
      if (!(error instanceof PeerGoneError)) this.#broken(peer, asError(error));
    });
  }

  /** The link to a rank, where there is one. */
  linkTo(peer: number): Link | null {
    return this.#links.get(peer) ?? null;
  }

  /** Ends all groups, here: their generation is over. Links are left to whoever made them. */
  end(error: Error): void {
    for (const group of [...this.#groups.values()]) group.onend(error);
    this.#isListening = false;
    for (const link of this.#links.values()) {
      link.onframe = null;
      link.onclose = null;
    }
  }

  /** Tells every rank that can be reached, not this one. */
  spread(group: number, body: unknown): void {
    this.#flood.spread(group, body);
  }

  #open(peer: number, frame: ArrayBuffer): Promise<void> {
    return new Promise((sent) => {
      const waiting = this.#waiting.get(peer);
      if (waiting) return waiting.push({ frame, sent });
      this.#waiting.set(peer, [{ frame, sent }]);
      void this.#dial(peer);
      return undefined;
    });
  }

  async #dial(peer: number): Promise<void> {
    try {
      if (!this.#connect) throw new UsageError(`Rank ${this.rank} has no way to open a link to rank ${peer}.`);
      this.accept(peer, await this.#connect(peer));
    } catch (error) {
      if (this.#waiting.delete(peer)) this.#broken(peer, asError(error));
    }
  }

  #attach(peer: number, link: Link): void {
    // First what has come, which may be the reason for the close behind it.
    link.onframe = (frame) => {
      try {
        this.#receive(frame, peer);
      } catch (error) {
        this.#broken(peer, this.#explain(error, peer));
      }
    };
    // What came may have ended the generation.
    if (!this.#isListening) return;
    link.onclose = (error) => {
      this.#links.delete(peer);
      for (const group of [...this.#groups.values()]) group.onlost(peer, error);
    };
  }

  #receive(frame: ArrayBuffer, from: number): void {
    const header = readHeader(frame);
    if (header.generation !== this.generation) return;
    switch (header.kind) {
      case FrameKind.DATA:
      case FrameKind.READY:
      case FrameKind.CALL:
        // A group that has ended here gets late frames: nobody wants them.
        return this.#groups.get(header.group)?.onframe(header, frame, from);
      case FrameKind.FLOOD:
        return this.#hear(frame, header, from);
      case FrameKind.HELLO:
      case FrameKind.HELLO_ACK:
        throw new ProtocolError(`Rank ${from} greeted again on a link that is up.`, {
          ...{ rank: this.rank, worldSize: this.worldSize, generation: this.generation },
        });
      default:
        header.kind satisfies never;
    }
  }

  #hear(frame: ArrayBuffer, header: FrameHeader, from: number): void {
    const news = this.#flood.receive(frame, header, from);
    if (news === null) return;
    try {
      this.#groups.get(news.group)?.onspectatorupdate(news.body, news.origin);
    } catch (error) {
      // A rank that is no member of the group cannot check what it passes on, and does not answer
      // for it.
      if (news.origin === from || !v.isValiError(error)) throw error;
    }
  }

  #broken(peer: number, error: Error): void {
    for (const group of [...this.#groups.values()]) group.onbroken(peer, error);
  }

  /** Errors of ours are sentences; what a schema or a typed array says of bad bytes is none. */
  #explain(error: unknown, from: number): Error {
    if (error instanceof PeergradError) return error;
    return new ProtocolError(`Rank ${from} sent something that cannot be read: ${messageOf(error)}.`, {
      ...{ rank: this.rank, worldSize: this.worldSize, generation: this.generation },
    });
  }
}

function counter(): () => number {
  let next = 0;
  return () => next++;
}
