/**
 * The signaling server: one port for the page and the WebSocket that introduces tabs to each other.
 * It never sees a gradient, and running rings go on without it.
 */
import { randomBytes } from 'node:crypto';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import type { Duplex } from 'node:stream';
import { pino, type LevelWithSilent } from 'pino';
import { WebSocketServer } from 'ws';
import { MAX_CONTROL_BYTES } from '../src/protocol/control.ts';
import type { RoomOpening } from '../src/protocol/room.ts';
import { systemClock, type Clock } from '../src/util/clock.ts';
import { deferred } from '../src/util/deferred.ts';
import { PeergradError, UsageError } from '../src/util/errors.ts';
import { clientAddress, networkOf, reachableHosts } from './http/address.ts';
import { CLOSE_RESTART, Connection, type ServerContext } from './connection.ts';
import { Credentials } from './credentials.ts';
import { ConnectionLimiter } from './connectionLimiter.ts';
import { createHttpHandler } from './http/handler.ts';
import { Hub, type NewRoom } from './hub.ts';
import { checkIceOptions, NO_ICE, type IceOptions } from './ice.ts';
import { AddressBuckets, DEFAULT_LIMITS, FailureCounter, type Limits } from './limits.ts';
import { Metrics } from './monitoring/metrics.ts';
import { RoomLog } from './monitoring/roomLog.ts';
import { localRoomDirectory } from './roomDirectory.ts';
import type { SharedRooms, SharedRoomsOptions } from './cluster/sharedRooms.ts';
import type { Certificate } from './http/tls.ts';

export interface SignalingOptions {
  /** Address to listen on; default 127.0.0.1. */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  /** Serve https and wss. */
  tls?: Certificate | null;
  /** Folder of the built page. */
  dist?: string | null;
  /** Folder of a job's files, or one file, to serve under `/data/`. */
  data?: string | null;
  ice?: IceOptions;
  /**
   * Signs members' tokens. With the same one after a restart, and in all processes, members prove
   * who they are.
   */
  secret?: string | null;
  /**
   * A Redis through which several processes serve the same rooms, `redis://host:port`; `null`: this
   * one serves alone.
   */
  redisUrl?: string | null;
  /**
   * Origins, besides the server's own, whose pages may connect, such as `https://class.example`.
   */
  origins?: readonly string[];
  /** A reverse proxy passes everything on: addresses are what it says in X-Forwarded-For. */
  trustProxy?: boolean;
  /** Lets who presents it as a bearer token read `/metrics` from other machines. */
  metricsToken?: string | null;
  limits?: Partial<Limits>;
  logLevel?: LevelWithSilent;
  clock?: Clock;
}

export interface SignalingServer {
  /**
   * Where to reach it, e.g. `http://127.0.0.1:8080`; of several addresses the one most likely to
   * work for others.
   */
  readonly url: string;
  readonly urls: readonly string[];
  readonly port: number;
  /**
   * Opens a room for tabs to come, under `code` or a random one; the first to join is its host. It
   * lasts as long as the server, also when all have left.
   *
   * @throws PeergradError when the server holds as many rooms as it may, UsageError where there is
   *   a room of that code, or other processes have to be asked (`redisUrl`).
   */
  createRoom(room: RoomToCome): string;
  /** {@link createRoom} on any server. */
  openRoom(room: RoomToCome): Promise<string>;
  /**
   * Tells everyone, closes every connection, and resolves when the port is free. Never hangs.
   * Idempotent.
   */
  close(): Promise<void>;
}

/** A room that the server's owner opens. */
export interface RoomToCome extends Omit<RoomOpening, 'nodes'>, Partial<Pick<RoomOpening, 'nodes'>> {
  code?: string;
}

/** Pieces of one message: browsers send it whole. */
const MAX_FRAGMENTS = 16;
/**
 * Chunks of one message that wait for the rest: the longest comes in some 120 of the smallest
 * packets in use.
 */
const MAX_BUFFERED_CHUNKS = 1024;
/**
 * Milliseconds in which a client has to answer a closing handshake, finish TLS's, or send a
 * request's headers.
 */
const CLOSE_TIMEOUT_MS = 5_000;
const HANDSHAKE_TIMEOUT_MS = 10_000;
const HEADERS_TIMEOUT_MS = 10_000;
/**
 * Connections the system keeps until they are taken: of more, all tabs coming back at once, some
 * would try again after seconds.
 */
const BACKLOG = 2048;

/**
 * @throws (rejects) PeergradError where it cannot listen, SignalingError where Redis does not
 *   answer, UsageError for options that cannot work.
 */
export async function startSignaling(options: SignalingOptions = {}): Promise<SignalingServer> {
  const { host = '127.0.0.1', tls = null, dist = null, data = null, ice = NO_ICE, clock = systemClock } = options;
  checkIceOptions(ice);
  const { trustProxy = false, metricsToken = null } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const connections = new Set<Connection>();
  const counts = (): { rooms: number; connections: number } => ({ rooms: hub.rooms, connections: connections.size });
  const members = () => [...connections].filter(({ isMember }) => isMember).length;
  const metrics = new Metrics(() => ({ ...counts(), members: members() }));
  // To stderr: stdout belongs to the launcher's result.
  const log = pino({ level: options.logLevel ?? 'warn' }, pino.destination({ fd: 2, sync: true }));
  const roomLog = new RoomLog(log, metrics);
  const hub: Hub = new Hub({
    ...{ clock, limits, listener: roomLog, hasRelay: ice.turn.length > 0 },
    seal: (room, removed) => context.credentials.sealOf(room, removed),
  });
  const shared = await shareRooms(options.redisUrl ?? null, { hub, clock, log, roomLog, metrics });
  const rooms = shared ?? localRoomDirectory(hub);
  const secret = options.secret ?? (await shared?.shareSecret()) ?? null;
  const context: ServerContext = {
    ...{ hub, rooms, limits, clock, ice, log, metrics, credentials: new Credentials(secret) },
    wrongCodes: new FailureCounter(clock, limits.wrongCodesPerMinute),
    revivals: new FailureCounter(clock, limits.revivalsPerMinute),
    openings: new AddressBuckets(clock, limits.roomsPerMinute / 60, limits.roomBurst),
    bootId: randomBytes(12).toString('base64url'),
    roomLog,
  };
  const limiter = new ConnectionLimiter(clock, limits, options.origins ?? []);
  let isClosing = false;
  /** Settles once the server closes and the last WebSocket has gone. */
  const emptied = deferred();
  const handler = createHttpHandler({
    ...{ dist, data, metrics, metricsToken, trustProxy, isTls: tls !== null },
    ...{ health: counts, isReady: () => !isClosing && (shared?.isReady ?? true) },
  });
  const times = { headersTimeout: HEADERS_TIMEOUT_MS };
  const http =
    tls === null
      ? createHttpServer(times, handler)
      : createHttpsServer({ ...times, ...tls, handshakeTimeout: HANDSHAKE_TIMEOUT_MS }, handler);
  const sockets = new WebSocketServer({
    ...{ noServer: true, perMessageDeflate: false, closeTimeout: CLOSE_TIMEOUT_MS },
    ...{ maxPayload: MAX_CONTROL_BYTES, maxFragments: MAX_FRAGMENTS, maxBufferedChunks: MAX_BUFFERED_CHUNKS },
  });

  http.on('upgrade', (req: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => {});
    const address = networkOf(clientAddress(req, trustProxy));
    const refusal = isClosing ? 503 : limiter.whyNot(req, address);
    if (refusal !== null) {
      log.info({ status: refusal }, 'upgrade refused');
      metrics.upgradeRefused(refusal);
      // Upgraded sockets are out of the http server's hands: one left half-open would keep it from
      // ever closing.
      socket.once('finish', () => socket.destroy());
      socket.end(`HTTP/1.1 ${refusal} Refused\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
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

  const port = await listen(http, host, options.port ?? 0).catch(async (error: unknown) => {
    await shared?.close();
    throw error;
  });
  http.on('error', ({ code }: NodeJS.ErrnoException) => log.error({ code }, 'server error'));
  const urls = reachableHosts(host).map((name) => `${tls === null ? 'http' : 'https'}://${name}:${port}`);

  async function close(): Promise<void> {
    isClosing = true;
    // Rooms first: nobody may be told that the others have left, for a running ring goes on without
    // the server.
    hub.close();
    const parted = shared?.close();
    for (const connection of connections) {
      connection.refuse('server-closing', 'The server is closing. A run that has begun goes on.', CLOSE_RESTART);
    }
    const cancel = clock.after(limits.closeGraceMs, () => {
      for (const connection of connections) connection.terminate();
      http.closeAllConnections();
    });
    // Until then it answers: who comes back at once, and whoever sends tabs here, hears that it is
    // not ready.
    if (connections.size > 0) await emptied.promise;
    await parted;
    http.closeIdleConnections();
    await new Promise((resolve) => http.close(resolve));
    cancel();
  }

  function asked({ nodes = null, ...room }: RoomToCome): NewRoom {
    if (room.code !== undefined && hub.has(room.code)) throw new UsageError(`There is a room ${room.code} already.`);
    return { ...room, nodes, isPermanent: true };
  }

  function placed(code: string | null): string {
    if (code === null) throw new PeergradError(`The server holds ${limits.maxRooms} rooms, as many as it may.`);
    return code;
  }

  let closing: Promise<void> | null = null;
  return {
    url: urls[0]!,
    urls,
    port,
    createRoom(room) {
      if (shared !== null) throw new UsageError('Other processes have to be asked for a room: call openRoom.');
      return placed(hub.open(asked(room)));
    },
    async openRoom(room) {
      return placed(await rooms.open(asked(room)));
    },
    close: () => (closing ??= close()),
  };
}

/** Loaded only where it is asked for. */
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
  const noAddress = `This machine has no address ${host}: pass one that it has with --host.`;
  const why: Record<string, string> = {
    EADDRINUSE: `Port ${port} on ${host} is in use: stop what listens there, or choose another with --port (of run: --master-port).`,
    EACCES: `Port ${port} needs more rights than this user has: choose one above 1023 with --port.`,
    EADDRNOTAVAIL: noAddress,
    ENOTFOUND: noAddress,
  };
  return why[error.code ?? ''] ?? `The server cannot listen on ${host}:${port}: ${error.message}.`;
}
