/** Two ends of a link that can connect by WebRTC and through the server. */
import { GenerationLink, DIRECT_HEAD_START_MS } from '../../../src/engine/membership/generationLink.ts';
import type { PeerConnector, ServerConnector } from '../../../src/engine/membership/generationLinkOptions.ts';
import { LinkPool } from '../../../src/engine/membership/linkPool.ts';
import type { IceServer } from '../../../src/protocol/control.ts';
import { createFrame, emptyFrameHeader, FrameKind } from '../../../src/protocol/frame.ts';
import type { LinkSignal } from '../../../src/protocol/linkSignal.ts';
import type { HelloMessage } from '../../../src/transport/handshake.ts';
import type { Link } from '../../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';
import type { PeerAttempt } from '../../../src/transport/peerLink.ts';
import { createDeferred, type Deferred } from '../../../src/util/deferred.ts';
import { PeerGoneError } from '../../../src/util/errors.ts';
import { ManualClock } from '../../manualClock.ts';
import { wrap } from './links.ts';

export type Name = 'alice' | 'bob';
export type Kind = 'direct' | 'server';

export const GENERATION = 3;
export const MEMBERS = { alice: 'alice-id', bob: 'bob-id-1' };
/** Effects of timers happen before the time advances further. */
const STEP_MS = 125;
export const TURN: IceServer = { urls: ['stun:192.0.2.1', 'turn:192.0.2.1?transport=udp'] };

export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
/** Lets pending promises, and frames that take some turns, settle. */
export async function settle(turns = 10): Promise<void> {
  for (let rest = turns; rest > 0; rest--) await turn();
}

/** One end of an attempt. */
interface End {
  initiator: boolean;
  link: Deferred<Link>;
  wire: Link;
  isAborted: boolean;
}

interface WorldOptions {
  generation?: number;
  /** The connections of the previous generation. */
  pools?: Record<Name, LinkPool>;
  isServed?: boolean;
  hasWebRtc?: boolean;
  hasServer?: boolean;
  iceServers?: IceServer[];
  relayOnly?: boolean;
  /** The kind of connections whose frames take some turns of the event loop. */
  slow?: Kind;
  /** Whether signals arrive. */
  signals?: { arrive: boolean };
  /** Why this end has no WebRTC. */
  blocked?: Name;
  hasPorts?: boolean;
  isFixed?: boolean;
  /** Whether an end computes or loads. */
  isDelayed?: () => boolean;
}

export class World {
  readonly clock = new ManualClock();
  readonly pools: Record<Name, LinkPool>;
  readonly ends: Record<Kind, Record<Name, End[]>> = {
    direct: { alice: [], bob: [] },
    server: { alice: [], bob: [] },
  };
  /** Why connections of {@link pools} were lost. */
  readonly lost: Record<Name, (string | null)[]> = { alice: [], bob: [] };
  /** Ports that were asked for. */
  ports = 0;
  readonly links: Record<Name, GenerationLink>;
  readonly #options: WorldOptions;
  /** Both ends' wires of each attempt that was begun, by kind and number. */
  readonly #wires = new Map<string, [Link, Link]>();

  constructor(options: WorldOptions = {}) {
    this.#options = options;
    const poolOf = (name: Name): LinkPool =>
      new LinkPool((_, error) => this.lost[name].push(error === null ? null : error.message));
    this.pools = options.pools ?? { alice: poolOf('alice'), bob: poolOf('bob') };
    this.links = { alice: this.#linkOf('alice', 'bob'), bob: this.#linkOf('bob', 'alice') };
  }

  /** Opens the latest connection of a kind at one end. */
  open(kind: Kind, name: Name): void {
    const end = this.ends[kind][name].at(-1)!;
    end.link.resolve(end.wire);
  }

  fail(kind: Kind, name: Name, message: string): void {
    this.ends[kind][name].at(-1)!.link.reject(new PeerGoneError(message));
  }

  /** Nothing arrives over the direct connection any more, not even that an end closes it. */
  cut(): void {
    for (const { wire } of [...this.ends.direct.alice, ...this.ends.direct.bob]) {
      Object.assign(wire, { send: () => Promise.resolve(), close: () => {} });
    }
  }

  /** One end reports that its direct connection has stalled, or works again. */
  stall(name: Name, isStalled = true): void {
    this.ends.direct[name][0]!.wire.onstall!(isStalled);
  }

  begun(kind: Kind): number {
    return this.ends[kind].alice.length;
  }

  async pass(ms: number): Promise<void> {
    for (let rest = ms; rest > 0; rest -= STEP_MS) {
      await settle(2);
      this.clock.advance(Math.min(rest, STEP_MS));
    }
    await settle();
  }

  #linkOf(mine: Name, other: Name): GenerationLink {
    const { generation = GENERATION, isServed = false, relayOnly = false, iceServers = [] } = this.#options;
    const { isFixed = false, isDelayed = () => false } = this.#options;
    const { hasWebRtc = true, hasServer = true, hasPorts = false, signals = { arrive: true }, blocked } = this.#options;
    const hello = (name: Name): HelloMessage => {
      return { room: 'K7F3QX', generation, member: MEMBERS[name], rank: name === 'alice' ? 0 : 1 };
    };
    const connect: PeerConnector = ({ initiator, onsignal }) => {
      if (mine === blocked) throw new ReferenceError('RTCPeerConnection is not defined');
      const answer = (number: string): void =>
        onsignal(initiator ? { type: 'offer', sdp: number } : { type: 'answer', sdp: number });
      return this.#attempt('direct', mine, initiator, answer, (signal) => ('sdp' in signal ? signal.sdp : null));
    };
    const connectServer: ServerConnector = ({ initiator, onsignal }) => {
      const answer = (number: string): void =>
        onsignal({ type: 'server', channel: number.padStart(32, '0'), key: null });
      return this.#attempt('server', mine, initiator, answer, (signal) =>
        'channel' in signal ? String(Number(signal.channel)) : null,
      );
    };
    const connectTab = (): PeerAttempt => {
      this.ports += 1;
      return { link: Promise.reject(new PeerGoneError('No port.')), signal: () => {}, abort: () => {} };
    };
    return new GenerationLink({
      ...{ self: hello(mine), peer: hello(other), iceServers, relayOnly, isServed, isFixed },
      clock: this.clock,
      connect: hasWebRtc ? connect : null,
      connectServer: hasServer ? connectServer : null,
      connectTab: hasPorts ? connectTab : null,
      pool: this.pools[mine],
      isDelayed: () => Promise.resolve(isDelayed()),
      send: (id, signal) => {
        queueMicrotask(() => {
          if (signals.arrive) this.links[other].signal(id, signal);
        });
      },
    });
  }

  #attempt(
    kind: Kind,
    mine: Name,
    initiator: boolean,
    emit: (number: string) => void,
    numberOf: (signal: LinkSignal) => string | null,
  ): PeerAttempt {
    const link = createDeferred<Link>();
    link.promise.catch(() => {});
    const end: End = { initiator, link, wire: createMemoryLinkPair()[0], isAborted: false };
    this.ends[kind][mine].push(end);
    const join = (number: string, side: 0 | 1): void => {
      const key = `${kind} ${number}`;
      const wires = this.#wires.get(key) ?? createMemoryLinkPair();
      this.#wires.set(key, wires);
      end.wire = this.#delayed(kind, wires[side]);
    };
    if (initiator) {
      const number = String(this.#wires.size);
      join(number, 0);
      queueMicrotask(() => emit(number));
    }
    return {
      link: link.promise,
      signal: (signal) => {
        const number = numberOf(signal);
        if (initiator || number === null) return;
        join(number, 1);
        emit(number);
      },
      abort: () => {
        end.isAborted = true;
        link.reject(new PeerGoneError('Aborted.'));
        end.wire.close();
      },
    };
  }

  #delayed(kind: Kind, link: Link): Link {
    if (kind !== this.#options.slow) return link;
    return wrap(link, {
      send: (frame) => link.send(frame),
      receive: (frame, handler) => void settle(3).then(() => handler(frame)),
    });
  }
}

/** Begins to link both ends. Resolves when both have begun all attempts that are due at first. */
export async function begin(options: WorldOptions = {}): Promise<World & { linked: Promise<[Link, Link]> }> {
  const world = new World(options);
  const linked = Promise.all([world.links.alice.link(), world.links.bob.link()]);
  linked.catch(() => {});
  await settle();
  if (options.isServed) await world.pass(DIRECT_HEAD_START_MS);
  return Object.assign(world, { linked });
}

/** Whether a frame that one end sends arrives at the other end's link. */
export async function reaches(from: Link, to: Link, generation = GENERATION): Promise<boolean> {
  let arrived = false;
  to.onframe = () => (arrived = true);
  from.send(createFrame(emptyFrameHeader(FrameKind.DATA, generation), 4)).catch(() => {});
  await settle();
  return arrived;
}

/** Links the two ends through the server, while both have a direct connection that is not open. */
export async function linkThroughServer(options: WorldOptions = {}): Promise<World & { links2: [Link, Link] }> {
  const world = await begin({ isServed: true, ...options });
  world.open('server', 'alice');
  world.open('server', 'bob');
  return Object.assign(world, { links2: await world.linked });
}

/** Links the two in the next generation. Resolves with its links. */
export async function next(world: World, generation = GENERATION + 1): Promise<{ links: [Link, Link]; world: World }> {
  const later = await begin({ pools: world.pools, generation, isServed: true });
  const links = await later.linked;
  return { links, world: later };
}
