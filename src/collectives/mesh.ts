/**
 * The mesh is the set of this rank's links in one generation. Links to both ring neighbours exist
 * from the start. A link to another rank is opened when something is sent to that rank. Process
 * groups share the mesh; each receives its own frames. Ranks are global here.
 *
 * Flood messages are forwarded for all groups until the generation ends, even after this rank has
 * left its own groups.
 */
import * as v from 'valibot';
import type { ServerForwarding } from '../protocol/control.ts';
import { FrameKind, readFrameHeader, type FrameHeader } from '../protocol/frame.ts';
import { FlightRecorder } from '../telemetry/flightRecorder.ts';
import type { Link } from '../transport/link.ts';
import { createDebugLog } from '../util/debugLog.ts';
import { asError, PeerGoneError, PeergradError, ProtocolError, errorReasonOf, UsageError } from '../util/errors.ts';
import { FloodRelay } from './diagnostics/floodRelay.ts';
import { LinkActivity } from './diagnostics/opDeadline.ts';
import {
  MAX_UNEXPECTED_COLLECTIVE_BYTES,
  MAX_UNEXPECTED_MESSAGE_BYTES,
  UnexpectedMessageLimit,
} from './unexpectedMessages.ts';
import { leftNeighbourOf, rightNeighbourOf } from './plans/ringPlan.ts';

const log = createDebugLog('links');

interface MeshOptions {
  rank: number;
  worldSize: number;
  /** Membership generation. Frames of other generations are dropped. */
  generation: number;
  /** Open links, by rank. Links to both ring neighbours are required. */
  links: ReadonlyMap<number, Link>;
  /**
   * Opens a link to a rank that this rank has no link to. The other rank passes its end of the link
   * to {@link Mesh.accept}.
   */
  connect?: (rank: number) => Promise<Link>;
  /** See {@link Mesh.serverLine}. */
  serverLine?: ServerForwarding | null;
  /**
   * Creates the id of a flood message. Other ranks must not be able to guess the id. The default
   * counts from 0, which is enough if ranks trust each other.
   */
  newMessageId?: () => number;
}

/** The events that a process group receives from its mesh. */
export interface MeshListener {
  onframe: (header: FrameHeader, frame: ArrayBuffer, from: number) => void;
  /** Called with each flood message of a member. */
  onmessage: (body: unknown, from: number) => void;
  /** Called when the link to a rank is gone. */
  onlost: (peer: number, error: Error | null) => void;
  /**
   * Called when a rank cannot be reached, or has sent invalid data. `error` names the rank and the
   * reason.
   */
  onbroken: (peer: number, error: Error) => void;
  /** Called when the generation is over. */
  onend: (error: Error) => void;
}

/**
 * Largest number of a group, because a frame has two bytes for it. Numbers are not reused, because
 * frames of an old group may arrive late.
 */
const MAX_GROUP = 0xffff;

export class Mesh {
  readonly rank: number;
  readonly worldSize: number;
  readonly generation: number;
  /**
   * How the server forwards frames between ranks; `null` if it forwards none or this is not known.
   */
  readonly serverLine: ServerForwarding | null;
  /** Collectives and messages of all groups of this rank. */
  readonly recorder: FlightRecorder;
  /** Progress of the ops of all groups of this rank. */
  readonly progress = new LinkActivity();
  /** Limits of unexpected messages, over all groups. */
  readonly unexpectedCollectives: UnexpectedMessageLimit;
  readonly unexpectedMessages: UnexpectedMessageLimit;
  readonly #connect: MeshOptions['connect'];
  readonly #links = new Map<number, Link>();
  /** Frames for ranks whose link is being opened. */
  readonly #waiting = new Map<number, { frame: ArrayBuffer; sent: () => void }[]>();
  readonly #groups = new Map<number, MeshListener>();
  /** Global ranks of all groups created so far, by number. */
  readonly #members: (readonly number[])[] = [];
  readonly #relay: FloodRelay;
  #isListening = false;

  /** @throws UsageError if the rank does not exist, or a ring neighbour has no link. */
  constructor(options: MeshOptions) {
    const { rank, worldSize, generation, links, connect, serverLine = null, newMessageId = counter() } = options;
    if (!Number.isInteger(worldSize) || worldSize < 1 || !Number.isInteger(rank) || rank < 0 || rank >= worldSize) {
      throw new UsageError(`Rank ${rank} does not exist in a world of size ${worldSize}. Ranks are 0 .. worldSize-1.`);
    }
    const neighbours = [rightNeighbourOf(rank, worldSize), leftNeighbourOf(rank, worldSize)];
    if (worldSize > 1 && !neighbours.every((neighbour) => links.has(neighbour))) {
      throw new UsageError('A process group of several ranks needs a link to both neighbours.');
    }
    this.rank = rank;
    this.worldSize = worldSize;
    this.generation = generation;
    this.serverLine = serverLine;
    this.recorder = new FlightRecorder({ rank, worldSize, generation });
    const context = { rank, worldSize, generation };
    const groupsWith = (sender: number): number =>
      [...this.#groups.keys()].filter((group) => this.#members[group]!.includes(sender)).length;
    this.unexpectedCollectives = new UnexpectedMessageLimit({
      limits: MAX_UNEXPECTED_COLLECTIVE_BYTES,
      groupsWith,
      context,
      what: `collectives that rank ${rank} has not called yet`,
    });
    this.unexpectedMessages = new UnexpectedMessageLimit({
      limits: MAX_UNEXPECTED_MESSAGE_BYTES,
      groupsWith,
      context,
      what: `messages without a receive on rank ${rank}`,
    });
    this.#connect = connect;
    for (const [peer, link] of links) this.#links.set(peer, link);
    this.#relay = new FloodRelay({
      rank,
      worldSize,
      generation,
      links: this.#links,
      neighbours: new Set(neighbours),
      newId: newMessageId,
      membersOf: (group) => this.#members[group],
    });
  }

  /**
   * Registers the listener of a new group, and returns the group's number. Groups are numbered in
   * order of their creation, which is the same on all ranks.
   *
   * @throws UsageError if all numbers are in use.
   */
  register(listener: MeshListener, members: readonly number[]): number {
    if (this.#members.length > MAX_GROUP) {
      throw new UsageError(
        `A generation can have at most ${MAX_GROUP + 1} process groups, including destroyed groups. Reuse groups instead of creating new ones.`,
      );
    }
    const group = this.#members.push(members) - 1;
    this.#groups.set(group, listener);
    return group;
  }

  /**
   * Starts to receive frames. Each group of this rank calls it; only the first call has an effect.
   */
  listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    for (const [peer, link] of this.#links) this.#attach(peer, link);
  }

  /** Removes the listener of a group. */
  unregister(group: number): void {
    this.#groups.delete(group);
  }

  /** Adds a link that was opened by this rank or by `peer`. */
  accept(peer: number, link: Link): void {
    if (this.#links.has(peer)) return;
    this.#links.set(peer, link);
    const waiting = this.#waiting.get(peer) ?? [];
    this.#waiting.delete(peer);
    for (const { frame, sent } of waiting) void this.send(peer, frame).then(sent);
    if (this.#isListening) this.#attach(peer, link);
  }

  /**
   * Sends a frame to any rank. Opens a missing link. Resolves when more may be sent; failures are
   * reported by `onlost` and `onbroken`.
   */
  send(peer: number, frame: ArrayBuffer): Promise<void> {
    const link = this.#links.get(peer);
    if (!link) return this.#open(peer, frame);
    return link.send(frame).catch((error: unknown) => {
      // Closed links are reported by `onclose` and need no report here.
      if (!(error instanceof PeerGoneError)) this.#broken(peer, asError(error));
    });
  }

  /** The ranks that ops of this rank wait for, in all groups. */
  get awaited(): number[] {
    return [...new Set([...this.progress.waits].flatMap((awaited) => awaited()))];
  }

  /** Returns the link to a rank; `null` if there is no such link. */
  linkTo(peer: number): Link | null {
    return this.#links.get(peer) ?? null;
  }

  /**
   * Ends all groups of this rank, because the generation ends. Does not close the links: their
   * owner does.
   */
  end(error: Error): void {
    for (const group of [...this.#groups.values()]) group.onend(error);
    this.#isListening = false;
    for (const link of this.#links.values()) {
      link.onframe = null;
      link.onclose = null;
    }
  }

  /** Sends a message to all other ranks over the flood relay. */
  flood(group: number, body: unknown): void {
    this.#relay.send(group, body);
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
      if (!this.#connect) throw new UsageError(`Rank ${this.rank} cannot open a link to rank ${peer} without connect.`);
      this.accept(peer, await this.#connect(peer));
    } catch (error) {
      if (this.#waiting.delete(peer)) this.#broken(peer, asError(error));
    }
  }

  #attach(peer: number, link: Link): void {
    let isFirst = true;
    // Queued frames are handled before the close, because a frame may say why the link was closed.
    link.onframe = (frame) => {
      if (isFirst) log(() => `Rank ${this.rank}, generation ${this.generation}: rank ${peer} sent its first frame.`);
      isFirst = false;
      try {
        this.#receive(frame, peer);
      } catch (error) {
        this.#broken(peer, this.#explain(error, peer));
      }
    };
    // The generation may have ended while queued frames were handled.
    if (!this.#isListening) return;
    link.onclose = (error) => {
      this.#links.delete(peer);
      for (const group of [...this.#groups.values()]) group.onlost(peer, error);
    };
  }

  #receive(frame: ArrayBuffer, from: number): void {
    const header = readFrameHeader(frame);
    if (header.generation !== this.generation) return;
    switch (header.kind) {
      case FrameKind.DATA:
      case FrameKind.READY:
      case FrameKind.CALL:
        // Late frames of a group that has ended here are dropped.
        return this.#groups.get(header.group)?.onframe(header, frame, from);
      case FrameKind.FLOOD:
        return this.#receiveMessage(frame, header, from);
      case FrameKind.HELLO:
      case FrameKind.HELLO_ACK:
        throw new ProtocolError(
          `Rank ${from} sent ${header.kind === FrameKind.HELLO ? 'HELLO' : 'HELLO-ACK'} on a link that is already open.`,
          {
            rank: this.rank,
            worldSize: this.worldSize,
            generation: this.generation,
          },
        );
      default:
        header.kind satisfies never;
    }
  }

  #receiveMessage(frame: ArrayBuffer, header: FrameHeader, from: number): void {
    const message = this.#relay.receive(frame, header, from);
    if (message === null) return;
    try {
      this.#groups.get(message.group)?.onmessage(message.body, message.origin);
    } catch (error) {
      // A rank outside the group cannot check the messages that it forwards, so it is not to blame.
      if (message.origin === from || !v.isValiError(error)) throw error;
    }
  }

  #broken(peer: number, error: Error): void {
    for (const group of [...this.#groups.values()]) group.onbroken(peer, error);
  }

  /**
   * Wraps an error that a schema or typed array throws for invalid bytes. Errors of peergrad are
   * returned unchanged.
   */
  #explain(error: unknown, from: number): Error {
    if (error instanceof PeergradError) return error;
    return new ProtocolError(`Rank ${from} sent a frame that cannot be read: ${errorReasonOf(error)}.`, {
      rank: this.rank,
      worldSize: this.worldSize,
      generation: this.generation,
    });
  }
}

function counter(): () => number {
  let next = 0;
  return () => next++;
}
