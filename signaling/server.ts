/**
 * The signaling server. It has one port for the page, for the WebSockets over which tabs set up
 * their links, and for the links of tabs that cannot connect to each other. Other links do not pass
 * through it, and rings of other links continue without it.
 */
import { randomBytes } from 'node:crypto';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import type { Duplex } from 'node:stream';
import { pino, type LevelWithSilent } from 'pino';
import { WebSocketServer } from 'ws';
import { MAX_CONTROL_BYTES, SIGNALING_PATH, type ServerLinkMode, type ServerMessage } from '../src/protocol/control.ts';
import { MAX_FRAME_BYTES } from '../src/protocol/frame.ts';
import { NETWORK_CHECK_ROOM } from '../src/protocol/networkCheck.ts';
import type { RoomOpening } from '../src/protocol/room.ts';
import { SERVER_LINK_PATH, type ServerLinkOpening } from '../src/protocol/serverLink.ts';
import { systemClock, type Clock } from '../src/util/clock.ts';
import { createDeferred } from '../src/util/deferred.ts';
import { PeergradError, UsageError } from '../src/util/errors.ts';
import { clientAddress, isLoopback, networkOf, reachableHosts } from './http/address.ts';
import { CLOSE_POLICY, CLOSE_RESTART, Connection, type ServerContext } from './connection.ts';
import { Credentials } from './credentials.ts';
import { ConnectionLimiter, pathOf } from './connectionLimiter.ts';
import { createHttpHandler } from './http/handler.ts';
import { AnsweredHosts } from './http/hosts.ts';
import { Hub, type NewRoom } from './hub.ts';
import { checkIceOptions, NO_ICE, type IceOptions } from './ice.ts';
import { AddressBuckets, DEFAULT_LIMITS, FailureCounter, type Limits } from './limits.ts';
import { type LinkPlace, ServerLinks } from './links/serverLinks.ts';
import { SharedRate } from './links/sharedRate.ts';
import { Metrics } from './monitoring/metrics.ts';
import { RoomLog } from './monitoring/roomLog.ts';
import { localRoomDirectory, type RoomDirectory } from './roomDirectory.ts';
import type { SharedRooms, SharedRoomsOptions } from './cluster/sharedRooms.ts';
import type { Certificate } from './http/tls.ts';

export interface SignalingOptions {
  /** Address to listen on; default 127.0.0.1. */
  host?: string;
  /** Port to listen on; the default 0 means any free port. */
  port?: number;
  /** Certificate; with it, the server uses https and wss. */
  tls?: Certificate | null;
  /** Folder of the built page. */
  dist?: string | null;
  /** Folder of a job's files, or a single file, which is served under `/data/`. */
  data?: string | null;
  ice?: IceOptions;
  /** Whether members may link through this server; default `on`. */
  serverLinks?: ServerLinkMode;
  /**
   * Rate of all links through this server, MB/s; default {@link Limits.serverLinksBytesPerSecond}.
   */
  serverLinksRate?: number;
  /**
   * Key that signs members' tokens. If all processes have the same key, also after a restart,
   * members can prove their identity everywhere.
   */
  secret?: string | null;
  /**
   * URL of a Redis server through which several processes serve the same rooms,
   * `redis://host:port`. `null` means a single process.
   */
  redisUrl?: string | null;
  /**
   * Origins such as `https://class.example` whose pages may connect, in addition to the server's
   * own origin. The server also answers to their hosts, which a reverse proxy may pass on.
   */
  origins?: readonly string[];
  /**
   * Whether a reverse proxy forwards all requests. Addresses are then read from its X-Forwarded-For
   * header.
   */
  trustProxy?: boolean;
  /** Bearer token with which other machines may read `/metrics`. */
  metricsToken?: string | null;
  limits?: Partial<Limits>;
  logLevel?: LevelWithSilent;
  clock?: Clock;
}

export interface SignalingServer {
  /**
   * URL of the server, e.g. `http://127.0.0.1:8080`. If there are several, this is the best
   * one: over https for other machines, over http for this machine.
   */
  readonly url: string;
  readonly urls: readonly string[];
  readonly port: number;
  /**
   * Opens a room without members, with `code` or a random code. The first member to join is its
   * host. The room lasts as long as the server, even when all members have left.
   * @throws PeergradError if the server has its maximum number of rooms.
   * @throws UsageError if another room has that code, if the code is reserved, or if the server
   * uses `redisUrl`. With `redisUrl`, use {@link openRoom}.
   */
  createRoom(room: RoomToCome): string;
  /** Like {@link createRoom}, but also works with `redisUrl`. */
  openRoom(room: RoomToCome): Promise<string>;
  /**
   * Informs all members, closes all connections, and resolves when the port is free. It never waits
   * forever, and is idempotent.
   */
  close(): Promise<void>;
}

/** A room that the server's owner opens. */
export interface RoomToCome extends Omit<RoomOpening, 'nodes'>, Partial<Pick<RoomOpening, 'nodes'>> {
  code?: string;
}

/** Bytes that the encryption of the ends may add to a frame. */
const MAX_SEAL_BYTES = 64;
/** Maximum number of fragments of one message. Browsers send a message in a single fragment. */
const MAX_FRAGMENTS = 16;
/** Maximum number of characters of an origin in messages. */
const MAX_LOGGED_ORIGIN = 200;
/**
 * Maximum number of buffered chunks of one message. The longest message arrives in about 480 chunks
 * if it is split into the smallest packets in use.
 */
const MAX_BUFFERED_CHUNKS = 1024;
/**
 * Time limits in milliseconds for a client to answer a closing handshake, to finish a TLS
 * handshake, and to send the headers of a request. Data of a tab's links may delay the handshake.
 */
const CLOSE_TIMEOUT_MS = 5_000;
const HANDSHAKE_TIMEOUT_MS = 60_000;
const HEADERS_TIMEOUT_MS = 10_000;
/**
 * Number of connections that the operating system queues until they are accepted. With a shorter
 * queue, some of many returning tabs would be delayed by seconds.
 */
const BACKLOG = 2048;
const BYTES_PER_MB = 1e6;

/**
 * Starts a signaling server.
 * @throws (rejects) PeergradError if it cannot listen, SignalingError if the connection to Redis
 * fails, UsageError for invalid options.
 */
export async function startSignaling(options: SignalingOptions = {}): Promise<SignalingServer> {
  const { host = '127.0.0.1', tls = null, dist = null, data = null, ice = NO_ICE, clock = systemClock } = options;
  checkIceOptions(ice);
  const { trustProxy = false, metricsToken = null, origins = [] } = options;
  const { serverLinks = 'on' } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const { serverLinksRate = limits.serverLinksBytesPerSecond / BYTES_PER_MB } = options;
  const rate = new SharedRate(clock, serverLinksRate * BYTES_PER_MB);
  const connections = new Set<Connection>();
  const counts = (): { rooms: number; connections: number } => ({ rooms: hub.rooms, connections: connections.size });
  const members = () => [...connections].filter(({ isMember }) => isMember).length;
  const metrics = new Metrics(() => ({ ...counts(), members: members(), serverLinks: links?.count ?? 0 }));
  // Logs are written to stderr, because stdout is for the launcher's result.
  const log = pino({ level: options.logLevel ?? 'warn' }, pino.destination({ fd: 2, sync: true }));
  const roomLog = new RoomLog(log, metrics);
  const hub: Hub = new Hub({
    clock,
    limits,
    listener: {
      opened: (code) => roomLog.opened(code),
      forgotten: (code) => roomLog.forgotten(code),
      left: (code, member) => {
        links?.closeMember(code, member);
        shared?.left(code, member);
      },
      generationBegun: (...begun) => roomLog.generationBegun(...begun),
    },
    hasRelay: ice.turn.length > 0,
    serverLinks,
    serverLinksRate: Math.round(serverLinksRate * BYTES_PER_MB),
    seal: (room, removed) => context.credentials.sealOf(room, removed),
  });
  const shared = await shareRooms(options.redisUrl ?? null, { hub, clock, log, roomLog, metrics });
  const rooms = shared ?? localRoomDirectory(hub);
  const secret = options.secret ?? (await shared?.shareSecret()) ?? null;
  const context: ServerContext = {
    hub,
    rooms,
    limits,
    clock,
    ice,
    serverLinks,
    log,
    metrics,
    credentials: new Credentials(secret),
    wrongCodes: new FailureCounter(clock, limits.wrongCodesPerMinute),
    restores: new FailureCounter(clock, limits.restoresPerMinute),
    openings: new AddressBuckets(clock, limits.roomsPerMinute / 60, limits.roomBurst),
    bootId: randomBytes(12).toString('base64url'),
    startedAt: clock.now(),
    roomLog,
  };
  const { credentials } = context;
  const refusalOf = (opening: ServerLinkOpening): Promise<string | null> => whyNotLinked(rooms, opening);
  const announce = (place: LinkPlace): number => shared?.announce(place) ?? 0;
  const links =
    serverLinks === 'off'
      ? null
      : new ServerLinks({ clock, limits, credentials, log, roomLog, metrics, rate, refusalOf, announce });
  if (shared !== null) shared.links = links;
  const paths = links === null ? [SIGNALING_PATH] : [SIGNALING_PATH, SERVER_LINK_PATH];
  const limiter = new ConnectionLimiter(clock, limits, paths, origins);
  const hosts = new AnsweredHosts({ host, tls, origins, trustProxy });
  let isClosing = false;
  /** Settles when the last WebSocket is gone after the server has begun to close. */
  const emptied = createDeferred();
  const handler = createHttpHandler({
    dist,
    data,
    metrics,
    metricsToken,
    trustProxy,
    isTls: tls !== null,
    hosts,
    origins: () => urls.filter((url) => !isLoopback(new URL(url).hostname)),
    health: counts,
    isReady: () => !isClosing && (shared?.isReady ?? true),
  });
  const times = { headersTimeout: HEADERS_TIMEOUT_MS };
  const http =
    tls === null
      ? createHttpServer(times, handler)
      : createHttpsServer({ ...times, ...tls, handshakeTimeout: HANDSHAKE_TIMEOUT_MS }, handler);
  const sockets = webSocketsOf(MAX_CONTROL_BYTES);
  const linkSockets = webSocketsOf(MAX_FRAME_BYTES + MAX_SEAL_BYTES);

  http.on('upgrade', (req: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => {});
    const address = networkOf(clientAddress(req, trustProxy));
    const wrongHost = hosts.refusalOf(req);
    const refusal = isClosing ? 503 : wrongHost === null ? limiter.refusalOf(req, address) : 421;
    if (refusal !== null) {
      log.info({ status: refusal }, 'upgrade refused');
      metrics.upgradeRefused(refusal);
      if (refusal === 403 && pathOf(req) === SIGNALING_PATH) return refusePage(req, socket, head);
      // The http server no longer tracks upgraded sockets. A half-open socket would prevent the
      // server from closing.
      socket.once('finish', () => socket.destroy());
      const body = refusal === 421 ? `${wrongHost}\n` : '';
      socket.end(
        `HTTP/1.1 ${refusal} Refused\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n` +
          `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      );
      return;
    }
    if (links !== null && pathOf(req) === SERVER_LINK_PATH) {
      linkSockets.handleUpgrade(req, socket, head, (ws) => {
        limiter.opened(address);
        ws.once('close', () => limiter.closed(address));
        links.accept(ws);
      });
      return;
    }
    sockets.handleUpgrade(req, socket, head, (ws) => {
      const connection = new Connection(ws, address, context);
      connections.add(connection);
      limiter.opened(address);
      ws.once('close', () => {
        connections.delete(connection);
        limiter.closed(address);
        if (isClosing && connections.size === 0) emptied.resolve();
      });
    });
  });

  /** Browsers hide the status of a refused upgrade from the page, so a message gives the reason. */
  function refusePage(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    const origin = (req.headers.origin ?? '').slice(0, MAX_LOGGED_ORIGIN);
    const message = `This server does not accept pages from ${origin}. Start it with --origin ${origin}.`;
    log.warn({ origin }, message);
    sockets.handleUpgrade(req, socket, head, (ws) => {
      ws.on('error', () => {});
      ws.send(JSON.stringify({ type: 'refused', code: 'wrong-origin', message } satisfies ServerMessage));
      ws.close(CLOSE_POLICY, 'wrong-origin');
      const stop = clock.after(limits.closeGraceMs, () => ws.terminate());
      ws.once('close', stop);
    });
  }

  const port = await listen(http, host, options.port ?? 0).catch(async (error: unknown) => {
    await shared?.close();
    throw error;
  });
  http.on('error', ({ code }: NodeJS.ErrnoException) => log.error({ code }, 'server error'));
  const urls = reachableHosts(host, tls !== null).map((name) => `${tls === null ? 'http' : 'https'}://${name}:${port}`);

  async function close(): Promise<void> {
    isClosing = true;
    links?.close();
    // The rooms are closed before the connections. So members are not informed that other ranks
    // have left: a running ring continues without the server.
    hub.close();
    const sharedClosed = shared?.close();
    for (const connection of connections) {
      connection.refuse(
        'server-closing',
        'The server is closing. A run without links through it continues.',
        CLOSE_RESTART,
      );
    }
    const cancel = clock.after(limits.closeGraceMs, () => {
      for (const connection of connections) connection.terminate();
      links?.terminate();
      http.closeAllConnections();
    });
    // The server still answers HTTP until the last WebSocket is closed. So returning tabs and load
    // balancers learn that it is not ready.
    if (connections.size > 0) await emptied.promise;
    await sharedClosed;
    http.closeIdleConnections();
    await new Promise((resolve) => http.close(resolve));
    cancel();
  }

  function newRoomOf({ nodes = null, ...room }: RoomToCome): NewRoom {
    const { code } = room;
    if (code === NETWORK_CHECK_ROOM) throw new UsageError(`The room ${code} is reserved for network checks.`);
    if (code !== undefined && hub.has(code)) throw new UsageError(`The room ${code} already exists.`);
    return { ...room, nodes, isPermanent: true };
  }

  function codeOrThrow(code: string | null): string {
    if (code === null)
      throw new PeergradError(`The server already has its maximum number of rooms (${limits.maxRooms}).`);
    return code;
  }

  let closing: Promise<void> | null = null;
  return {
    url: urls[0]!,
    urls,
    port,
    createRoom(room) {
      if (shared !== null)
        throw new UsageError(
          'createRoom does not work with Redis, because another process may have the room. Call openRoom.',
        );
      return codeOrThrow(hub.open(newRoomOf(room)));
    },
    async openRoom(room) {
      return codeOrThrow(await rooms.open(newRoomOf(room)));
    },
    close: () => (closing ??= close()),
  };
}

function webSocketsOf(maxPayload: number): WebSocketServer {
  return new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    // `closeTimeout` is passed by a spread, because @types/ws does not declare this option.
    ...{ closeTimeout: CLOSE_TIMEOUT_MS },
    maxPayload,
    maxFragments: MAX_FRAGMENTS,
    maxBufferedChunks: MAX_BUFFERED_CHUNKS,
  });
}

/** Returns why the two members of a link may not link, or `null` if they may. */
async function whyNotLinked(rooms: RoomDirectory, opening: ServerLinkOpening): Promise<string | null> {
  const { room, generation, member, peer } = opening;
  const owner = await rooms.find(room, 'member');
  if (owner === null) return 'The server does not have the room of the link.';
  if (await owner.mayLink(room, generation, member, peer)) return null;
  return 'The two members are not ranks of the latest generation of their room, nor the ends of this feed.';
}

/** The module is imported only if Redis is used. */
async function shareRooms(url: string | null, options: Omit<SharedRoomsOptions, 'url'>): Promise<SharedRooms | null> {
  if (url === null) return null;
  const { SharedRooms } = await import('./cluster/sharedRooms.ts');
  return SharedRooms.start({ url, ...options });
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(new PeergradError(whyNotListening(error, host, port))),
    );
    server.listen({ port, host, backlog: BACKLOG }, () => resolve((server.address() as AddressInfo).port));
  });
}

function whyNotListening(error: NodeJS.ErrnoException, host: string, port: number): string {
  const noAddress = `This machine does not have the address ${host}. Pass another one with --host.`;
  const why: Record<string, string> = {
    EADDRINUSE: `Port ${port} on ${host} is in use. Stop the program that listens there, or choose another port with --port (for run: --master-port).`,
    EACCES: `This user may not listen on port ${port}. Choose a port above 1023 with --port.`,
    EADDRNOTAVAIL: noAddress,
    ENOTFOUND: noAddress,
  };
  return why[error.code ?? ''] ?? `The server cannot listen on ${host}:${port}: ${error.message}.`;
}
