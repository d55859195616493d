/**
 * News (JSON) for all ranks. A rank that receives news for the first time sends them on over all
 * its other links, so that a frozen rank stops nobody but itself.
 *
 * News are not signed. A rank drops what it can tell to be forged: news of a rank about a group
 * that it is no member of, and news of a ring neighbour that do not come over that neighbour's own
 * link. What it cannot tell it bounds: how much waits for a link, how much is remembered, and how
 * far news go. Ids are random, so that nobody can send an id first and have the genuine news
 * dropped as old.
 */
import * as v from 'valibot';
import { decodeJsonFrame, emptyHeader, encodeJsonFrame, FrameKind, type FrameHeader } from '../../protocol/frame.ts';
import type { Link } from '../../transport/link.ts';

const FloodMessage = v.strictObject({
  /** The rank that spread them, and their id there. */
  origin: v.pipe(v.number(), v.integer()),
  id: v.pipe(v.number(), v.safeInteger()),
  group: v.pipe(v.number(), v.integer()),
  body: v.unknown(),
});
type FloodMessage = v.InferOutput<typeof FloodMessage>;

/**
 * News remembered of each link that brought some: what it brings next evicts no news of the others.
 */
const MAX_REMEMBERED = 4096;
/**
 * Bytes of one rank's news that may wait for one link, behind what the link itself queues. A
 * barrier of 64 ranks takes 8 KiB.
 */
const MAX_WAITING_BYTES = 256 * 1024;

interface FloodRelayEnvironment {
  rank: number;
  worldSize: number;
  generation: number;
  /** Open links, by rank. */
  links: ReadonlyMap<number, Link>;
  /** Ranks that have had a link to this one since before either could spread news. */
  neighbours: ReadonlySet<number>;
  /**
   * Global ranks of a group, also of one that this rank has left; `undefined` for a group that this
   * rank does not know.
   */
  membersOf: (group: number) => readonly number[] | undefined;
  /** An id that no rank can guess. */
  newId: () => number;
}

export class FloodRelay {
  readonly #env: FloodRelayEnvironment;
  /** `origin/id`, oldest first, by the rank whose link brought them. */
  readonly #remembered = new Map<number, Set<string>>();
  /** Bytes that wait for a link, by the rank that brought them and the rank they go to. */
  readonly #waiting = new Map<string, number>();

  constructor(env: FloodRelayEnvironment) {
    this.#env = env;
  }

  /** Sends news of this rank to all others. */
  spread(group: number, body: unknown): void {
    const { rank, newId } = this.#env;
    this.#send({ origin: rank, id: newId(), group, body }, 0, rank);
  }

  /**
   * Takes a frame from the rank at the other end of a link and passes it on.
   *
   * @returns the news, or `null` where they are old or forged.
   * @throws where the frame holds no news.
   */
  receive(frame: ArrayBuffer, { step }: FrameHeader, from: number): FloodMessage | null {
    const news = v.parse(FloodMessage, decodeJsonFrame(frame));
    if (!this.#isGenuine(news, from) || this.#isOld(news, from)) return null;
    // Nobody first hears of news over a longer way: they stop, whatever ranks remember.
    const hops = step + 1;
    if (hops < this.#env.worldSize - 1) this.#send(news, hops, from);
    return news;
  }

  #isGenuine({ origin, group }: FloodMessage, from: number): boolean {
    const { rank, links, neighbours, membersOf } = this.#env;
    const members = membersOf(group);
    if (origin === rank || !members?.includes(origin)) return false;
    // A member that brings forged news could end the group in its own name. Nor may a link that is
    // slow or dead at one end silence a neighbour: its news come by way of the other members.
    return origin === from || members.includes(from) || !(neighbours.has(origin) && links.has(origin));
  }

  #isOld({ origin, id }: FloodMessage, from: number): boolean {
    const key = `${origin}/${id}`;
    for (const keys of this.#remembered.values()) if (keys.has(key)) return true;
    const keys = this.#remembered.get(from) ?? new Set();
    this.#remembered.set(from, keys.add(key));
    if (keys.size > MAX_REMEMBERED) {
      const [oldest] = keys;
      keys.delete(oldest!);
    }
    return false;
  }

  #send(news: FloodMessage, hops: number, from: number): void {
    const { generation, links } = this.#env;
    const frame = encodeJsonFrame({ ...emptyHeader(FrameKind.FLOOD, generation), step: hops }, news);
    for (const [peer, link] of links) {
      if (peer !== from && peer !== news.origin) this.#sendTo(peer, link, frame.slice(0), from);
    }
  }

  #sendTo(peer: number, link: Link, frame: ArrayBuffer, from: number): void {
    const lane = `${from}/${peer}`;
    const { byteLength } = frame;
    const waiting = (this.#waiting.get(lane) ?? 0) + byteLength;
    // A rank that misses news here hears them by another way, or its deadline ends its wait.
    if (waiting > MAX_WAITING_BYTES) return;
    this.#waiting.set(lane, waiting);
    const sent = (): void => void this.#waiting.set(lane, this.#waiting.get(lane)! - byteLength);
    void link.send(frame).then(sent, sent);
  }
}
