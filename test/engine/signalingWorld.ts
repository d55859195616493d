/**
 * A signaling server and a network without sockets. The server's rooms, hub and connections are the
 * production ones. Tabs are connected to the server by pairs of in-memory sockets, and to each
 * other by memory links. As in a browser, every message is a separate task.
 */
import { pino } from 'pino';
import type { PeerConnector } from '../../src/engine/membership/generationLinkOptions.ts';
import type { SignalingSocket } from '../../src/engine/membership/signalingClient.ts';
import type { Link } from '../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../src/transport/memoryLink.ts';
import { createDeferred, type Deferred } from '../../src/util/deferred.ts';
import { PeerGoneError } from '../../src/util/errors.ts';
import { Connection, type ServerContext } from '../../signaling/connection.ts';
import { Credentials } from '../../signaling/credentials.ts';
import { Hub, type NewRoom } from '../../signaling/hub.ts';
import { NO_ICE } from '../../signaling/ice.ts';
import { AddressBuckets, DEFAULT_LIMITS, FailureCounter, type Limits } from '../../signaling/limits.ts';
import { Metrics } from '../../signaling/monitoring/metrics.ts';
import { RoomLog } from '../../signaling/monitoring/roomLog.ts';
import { localRoomDirectory } from '../../signaling/roomDirectory.ts';
import { ManualClock } from '../manualClock.ts';
import { FakeSocket } from '../signaling/fakeSocket.ts';
import { wrap } from './membership/links.ts';

/** Milliseconds by which the world's clock advances in one turn of the event loop. */
const TURN_MS = 25;
/**
 * The longest time that {@link SignalingWorld.until} waits, in milliseconds of the world's clock.
 */
const PATIENCE_MS = 120_000;

/** WebSocket close codes (RFC 6455, section 7.4.1). */
const CLOSE_GOING_AWAY = 1001;
const CLOSE_ABNORMAL = 1006;

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A tab's end of its connection to the server. */
class TabSocket extends EventTarget {
  readonly OPEN = 1;
  readyState: 0 | 1 | 2 | 3 = 0;
  /** The server's end, while the connection is open. */
  #server: FakeSocket | null = null;
  readonly #port: Port;

  constructor(port: Port) {
    super();
    this.#port = port;
  }

  /** Opens the connection, or refuses it if there is no server. */
  accept(context: ServerContext | null): void {
    if (context === null || this.readyState !== 0) return this.#end();
    const server = new FakeSocket((text) =>
      setImmediate(() => {
        if (!this.#port.isLost(text)) this.dispatchEvent(new MessageEvent('message', { data: text }));
      }),
    );
    this.#server = server;
    server.on('close', () => setImmediate(() => this.#end()));
    void new Connection(server.socket, '192.0.2.1', context);
    this.readyState = 1;
    this.dispatchEvent(new Event('open'));
  }

  send(text: string): void {
    const sent = this.#port.isForgotten
      ? text.replace(/"token":"[^"]*"/, '"token":"0.expired-token-of-a-day-ago"')
      : text;
    setImmediate(() => {
      if (this.#server?.closedWith === null) this.#server.receive(sent);
    });
  }

  close(): void {
    if (this.readyState > 1) return;
    this.readyState = 2;
    setImmediate(() => this.cut(CLOSE_ABNORMAL));
  }

  /** Ends the connection on both sides, like a browser or the network. */
  cut(code: number): void {
    this.#server?.close(code);
    this.#end();
  }

  #end(): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.dispatchEvent(new Event('close'));
  }
}

/** A tab's access to the network. */
export interface Port {
  readonly openSocket: (url: URL) => SignalingSocket;
  readonly connectPeer: PeerConnector;
  /** Breaks the connection to the server. The tab may open another connection. */
  cutServer(): void;
  /** Closes the tab without a message: all its connections stop working. */
  close(): void;
  /** Called with each frame that the tab receives, before it is handled. */
  onframe: ((frame: ArrayBuffer) => void) | null;
  /** Whether a message of the server is lost. TCP loses none; a faulty server could omit one. */
  isLost: (text: string) => boolean;
  /** Whether the tab's token has expired: when it returns, the server gives it another id. */
  isForgotten: boolean;
  /** Whether new connections to the server fail. */
  isOffline: boolean;
}

export class SignalingWorld {
  readonly clock = new ManualClock();
  readonly #limits: Limits;
  #context: ServerContext | null;
  readonly #sockets = new Set<TabSocket>();
  /** Offers of links. The index is the number that is sent instead of the SDP. */
  readonly #offers: { initiator: Deferred<Link>; follower: Deferred<Link> | null }[] = [];

  constructor(limits: Partial<Limits> = {}) {
    this.#limits = { ...DEFAULT_LIMITS, ...limits };
    this.#context = this.#createServer();
  }

  /** Opens a room directly on the server, without a tab. Returns the room's code. */
  openRoom(room: Omit<NewRoom, 'isPermanent'>): string {
    return this.#context!.hub.open({ ...room, isPermanent: true })!;
  }

  /** Stops the server: every connection breaks, and no new one opens. */
  stopServer(): void {
    this.#context?.hub.close();
    this.#context = null;
    for (const socket of [...this.#sockets]) socket.cut(CLOSE_ABNORMAL);
  }

  /** Starts a new server that has the secret of the previous server, but nothing else of it. */
  startServer(): void {
    this.#context = this.#createServer();
  }

  /**
   * Lets time pass until `isSo` returns true.
   *
   * @throws (rejects) Error after {@link PATIENCE_MS}. The error contains the text of `describe`.
   */
  async until(what: string, isSo: () => boolean): Promise<void> {
    const end = this.clock.now() + PATIENCE_MS;
    while (!isSo()) {
      if (this.clock.now() > end) throw new Error(`Not after ${PATIENCE_MS / 1000} s: ${what}.\n${this.describe()}`);
      await turn();
      this.clock.advance(TURN_MS);
    }
  }

  /** Text for the message of a failed {@link until}. */
  protected describe(): string {
    return '';
  }

  /** Lets `ms` milliseconds pass. */
  async pass(ms: number): Promise<void> {
    const end = this.clock.now() + ms;
    await this.until(`${ms} ms pass`, () => this.clock.now() >= end);
  }

  /** Connects one more tab to the network. */
  plug(): Port {
    const sockets = new Set<TabSocket>();
    const links = new Set<Link>();
    let isClosed = false;
    const port: Port = {
      openSocket: () => {
        const socket = new TabSocket(port);
        for (const set of [sockets, this.#sockets]) {
          set.add(socket);
          socket.addEventListener('close', () => set.delete(socket));
        }
        setImmediate(() => socket.accept(isClosed || port.isOffline ? null : this.#context));
        return socket;
      },
      connectPeer: ({ initiator, onsignal }) => {
        const made = createDeferred<Link>();
        made.promise.then(
          (link) => links.add(link),
          () => {},
        );
        if (initiator) {
          const sdp = String(this.#offers.push({ initiator: made, follower: null }) - 1);
          queueMicrotask(() => onsignal({ type: 'offer', sdp }));
        }
        return {
          link: made.promise.then((link) => this.#carried(link, port)),
          signal: (signal) => {
            if ((signal.type !== 'offer' && signal.type !== 'answer') || isClosed) return;
            const offer = this.#offers[Number(signal.sdp)]!;
            if (signal.type === 'offer') {
              offer.follower = made;
              return onsignal({ type: 'answer', sdp: signal.sdp });
            }
            const [a, b] = createMemoryLinkPair();
            offer.initiator.resolve(a);
            offer.follower!.resolve(b);
          },
          abort: () => made.reject(new PeerGoneError('Aborted.')),
        };
      },
      cutServer: () => {
        for (const socket of [...sockets]) socket.cut(CLOSE_ABNORMAL);
      },
      close: () => {
        isClosed = true;
        for (const socket of [...sockets]) socket.cut(CLOSE_GOING_AWAY);
        for (const link of links) link.close();
      },
      onframe: null,
      isLost: () => false,
      isForgotten: false,
      isOffline: false,
    };
    return port;
  }

  /**
   * Wraps `link` for a tab. Each frame takes one turn of the event loop, so that tests can act
   * between two frames.
   */
  #carried(link: Link, port: Port): Link {
    return wrap(link, {
      send: async (frame) => {
        await turn();
        await link.send(frame);
      },
      receive: (frame, handler) => {
        port.onframe?.(frame);
        handler(frame);
      },
    });
  }

  #createServer(): ServerContext {
    const { clock } = this;
    const limits = this.#limits;
    const log = pino({ level: 'silent' });
    const metrics = new Metrics(() => ({
      rooms: hub.rooms,
      connections: this.#sockets.size,
      members: 0,
      serverLinks: 0,
    }));
    const roomLog = new RoomLog(log, metrics);
    const credentials = new Credentials('the secret of the world');
    const hub: Hub = new Hub({
      clock,
      limits,
      listener: {
        opened: (code) => roomLog.opened(code),
        forgotten: (code) => roomLog.forgotten(code),
        left: () => {},
        generationBegun: (...begun) => roomLog.generationBegun(...begun),
      },
      serverLinks: 'off',
      serverLinksRate: 1e6,
      hasRelay: false,
      seal: (room, members) => credentials.sealOf(room, members),
    });
    return {
      hub,
      rooms: localRoomDirectory(hub),
      limits,
      clock,
      ice: NO_ICE,
      serverLinks: 'off',
      credentials,
      wrongCodes: new FailureCounter(clock, limits.wrongCodesPerMinute),
      restores: new FailureCounter(clock, limits.restoresPerMinute),
      openings: new AddressBuckets(clock, limits.roomsPerMinute / 60, limits.roomBurst),
      bootId: 'boot',
      startedAt: clock.now(),
      log,
      metrics,
      roomLog,
    };
  }
}
