/**
 * The flood relay sends JSON messages to all ranks. A rank sends its own messages over all its
 * links. When a rank receives a message for the first time, it forwards the message over some of
 * its other links: on each side of the ring, over the nearest link to a rank at a distance of 1, of
 * 2 or 3, of 4 to 7 and so on. So messages reach the other ranks even if some ranks are frozen. If
 * all ranks of a large world forwarded over all links, every message would cross every link.
 *
 * Messages are not signed. A rank drops a message as forged if `origin` is not a member of the
 * group. While the link to a ring neighbour is open, the rank also drops a message of that
 * neighbour if a rank outside the group delivers it. Other forgeries can do little harm, because
 * there are limits for the bytes that wait for a link, the ids that are remembered, and the hops of
 * a message. Ids are random, because a rank that could guess the id of a message could use the id
 * first. Then the genuine message would be dropped as a duplicate.
 */
import * as v from 'valibot';
import {
  decodeJsonFrame,
  emptyFrameHeader,
  encodeJsonFrame,
  FrameKind,
  type FrameHeader,
} from '../../protocol/frame.ts';
import type { Link } from '../../transport/link.ts';

const FloodMessage = v.strictObject({
  /** The rank that sent the message, and the id that it chose. */
  origin: v.pipe(v.number(), v.integer()),
  id: v.pipe(v.number(), v.safeInteger()),
  group: v.pipe(v.number(), v.integer()),
  body: v.unknown(),
});
type FloodMessage = v.InferOutput<typeof FloodMessage>;

/**
 * Maximum number of remembered ids per link. The ids are counted for each link, so that many
 * messages over one link do not evict the ids of messages over other links.
 */
const MAX_REMEMBERED = 4096;
/**
 * Maximum number of bytes from one rank that wait for one link, in addition to the link's own
 * queue. The messages of a monitored barrier of 256 ranks take 32 KiB.
 */
const MAX_WAITING_BYTES = 256 * 1024;

interface FloodRelayEnvironment {
  rank: number;
  worldSize: number;
  generation: number;
  /** Open links, by rank. */
  links: ReadonlyMap<number, Link>;
  /** The ring neighbours. Their links to this rank were open before any message was sent. */
  neighbours: ReadonlySet<number>;
  /**
   * Returns the global ranks of a group, even if this rank has left it; `undefined` if the group is
   * unknown.
   */
  membersOf: (group: number) => readonly number[] | undefined;
  /** Creates an id that no rank can guess. */
  newId: () => number;
}

export class FloodRelay {
  readonly #env: FloodRelayEnvironment;
  /** Ids of received messages as `origin/id`, oldest first, by the rank that delivered them. */
  readonly #remembered = new Map<number, Set<string>>();
  /**
   * Number of bytes that wait for a link. The key consists of the rank that delivered the messages
   * and the rank at the other end of the link.
   */
  readonly #waiting = new Map<string, number>();

  constructor(env: FloodRelayEnvironment) {
    this.#env = env;
  }

  /** Sends a message of this rank to all others. */
  send(group: number, body: unknown): void {
    const { rank, newId } = this.#env;
    this.#forward({ origin: rank, id: newId(), group, body }, 0, rank);
  }

  /**
   * Receives a frame over the link to rank `from` and forwards it.
   *
   * @returns the message, or `null` if it is a duplicate or forged.
   * @throws if the frame holds no message.
   */
  receive(frame: ArrayBuffer, { step }: FrameHeader, from: number): FloodMessage | null {
    const message = v.parse(FloodMessage, decodeJsonFrame(frame));
    if (!this.#isGenuine(message, from) || this.#isDuplicate(message, from)) return null;
    // A message needs at most worldSize - 1 hops to reach every rank, so it is not forwarded after
    // that. This stops a message even if ranks no longer remember its id.
    const hops = step + 1;
    if (hops < this.#env.worldSize - 1) this.#forward(message, hops, from);
    return message;
  }

  #isGenuine({ origin, group }: FloodMessage, from: number): boolean {
    const { rank, links, neighbours, membersOf } = this.#env;
    const members = membersOf(group);
    if (origin === rank || !members?.includes(origin)) return false;
    // Members may forward messages of a neighbour, because a slow or dead link must not silence the
    // neighbour. A member could forge such a message to end the group. But a member can end the
    // group in its own name, too, so the forgery does no additional harm.
    return origin === from || members.includes(from) || !(neighbours.has(origin) && links.has(origin));
  }

  #isDuplicate({ origin, id }: FloodMessage, from: number): boolean {
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

  #forward(message: FloodMessage, hops: number, from: number): void {
    const { generation, links } = this.#env;
    const frame = encodeJsonFrame({ ...emptyFrameHeader(FrameKind.FLOOD, generation), step: hops }, message);
    for (const peer of hops === 0 ? links.keys() : this.#relays()) {
      if (peer !== from && peer !== message.origin) this.#sendTo(peer, links.get(peer)!, frame.slice(0), from);
    }
  }

  /** Returns the ranks to which this rank forwards messages. */
  #relays(): Iterable<number> {
    const { rank, worldSize, links } = this.#env;
    /** The nearest rank for each side and each range of distances between powers of two. */
    const nearest = new Map<string, { peer: number; distance: number }>();
    for (const peer of links.keys()) {
      const [right, left] = [peer - rank, rank - peer].map((difference) => (difference + worldSize) % worldSize);
      const distance = Math.min(right!, left!);
      const key = `${right! <= left!} ${Math.clz32(distance)}`;
      if (distance < (nearest.get(key)?.distance ?? Infinity)) nearest.set(key, { peer, distance });
    }
    return Array.from(nearest.values(), ({ peer }) => peer);
  }

  #sendTo(peer: number, link: Link, frame: ArrayBuffer, from: number): void {
    const lane = `${from}/${peer}`;
    const { byteLength } = frame;
    const waiting = (this.#waiting.get(lane) ?? 0) + byteLength;
    // The message is dropped for this link. The other rank receives it over another link, or
    // reaches its deadline.
    if (waiting > MAX_WAITING_BYTES) return;
    this.#waiting.set(lane, waiting);
    const sent = (): void => void this.#waiting.set(lane, this.#waiting.get(lane)! - byteLength);
    void link.send(frame).then(sent, sent);
  }
}
