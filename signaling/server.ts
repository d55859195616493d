/**
 * The signaling server: one port for the page and the WebSocket that introduces tabs to each other. It never sees a
 * gradient, and running rings go on without it.
 */
import { randomBytes } from 'node:crypto';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import type { Duplex } from 'node:stream';
import { pino, type LevelWithSilent } from 'pino';
import { WebSocketServer } from 'ws';
import { MAX_CONTROL_BYTES, SIGNALING_PATH, type Nodes } from '../src/protocol/control.ts';
import type { JobSpec } from '../src/protocol/job.ts';
import { systemClock, type Clock } from '../src/util/clock.ts';
import { PeergradError, UsageError } from '../src/util/errors.ts';
import { networkOf, reachableHosts } from './address.ts';
import { CLOSE_RESTART, Connection, type ServerContext } from './connection.ts';
import { Credentials } from './credentials.ts';
import { createHttpHandler } from './http.ts';
import { Hub } from './hub.ts';
import { checkIceOptions, NO_ICE, type IceOptions } from './ice.ts';
import { DEFAULT_LIMITS, FailureCounter, type Limits } from './limits.ts';
import type { Certificate } from './tls.ts';

export interface SignalingOptions {
  /** Address to listen on; default 127.0.0.1. */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  /** Serve https and wss. */
  tls?: Certificate | null;
  /** Folder of the built page. */
  dist?: string | null;
  /** Folder of IDX files to serve under `/data/`. */
  data?: string | null;
  ice?: IceOptions;
  /** Signs members' tokens. With the same one after a restart, and in all processes, members prove who they are. */
  secret?: string | null;
  limits?: Partial<Limits>;
  logLevel?: LevelWithSilent;
  clock?: Clock;
}

export interface SignalingServer {
  /** Where to reach it, e.g. `http://127.0.0.1:8080`; of several addresses the one most likely to work for others. */
  readonly url: string;
  readonly urls: readonly string[];
  readonly port: number;
  /**
   * Opens a room for tabs to come, under `code` or a random one; the first to join is its host. It lasts as long as the
   * server, also when all have left.
   *
   * @throws PeergradError when the server holds as many rooms as it may, UsageError where there is a room of that code.
   */
  createRoom(room: { job: JobSpec; startAt: number | null; nodes?: Nodes | null; code?: string }): string;
  /** Tells everyone, closes every connection, and resolves when the port is free. Never hangs. Idempotent. */
  close(): Promise<void>;
}

/** @throws PeergradError where it cannot listen, UsageError for options that cannot work. */
export async function startSignaling(options: SignalingOptions = {}): Promise<SignalingServer> {
  const { host = '127.0.0.1', tls = null, dist = null, data = null, ice = NO_ICE, clock = systemClock } = options;
  checkIceOptions(ice);
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const context: ServerContext = {
    hub: new Hub({ clock, limits, hasRelay: ice.turn.length > 0 }),
    credentials: new Credentials(options.secret ?? null),
    limits,
    clock,
    ice,
    wrongCodes: new FailureCounter(clock, limits.wrongCodesPerMinute),
    bootId: randomBytes(12).toString('base64url'),
    // To stderr: stdout belongs to the launcher's result.
    log: pino({ level: options.logLevel ?? 'warn' }, pino.destination({ fd: 2, sync: true })),
  };
  const connections = new Set<Connection>();
  const health = () => ({ rooms: context.hub.rooms, connections: connections.size });
  const handler = createHttpHandler({ dist, data, health });
  const http = tls === null ? createHttpServer(handler) : createHttpsServer({ cert: tls.cert, key: tls.key }, handler);
  const sockets = new WebSocketServer({ noServer: true, maxPayload: MAX_CONTROL_BYTES, perMessageDeflate: false });
  const perAddress = new Map<string, number>();

  http.on('upgrade', (req: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => {});
    const address = networkOf(req.socket.remoteAddress ?? '');
    const refusal = whyNotUpgrade(req) ?? ((perAddress.get(address) ?? 0) < limits.socketsPerAddress ? null : 429);
    if (refusal !== null) {
      context.log.info({ status: refusal }, 'upgrade refused');
      // Upgraded sockets are out of the http server's hands: one left half-open would keep it from ever closing.
      socket.once('finish', () => socket.destroy());
      socket.end(`HTTP/1.1 ${refusal} Refused\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
      return;
    }
    sockets.handleUpgrade(req, socket, head, (ws) => {
      const connection = new Connection(ws, address, context);
      connections.add(connection);
      perAddress.set(address, (perAddress.get(address) ?? 0) + 1);
      ws.once('close', () => {
        connections.delete(connection);
        const left = (perAddress.get(address) ?? 1) - 1;
        if (left > 0) perAddress.set(address, left);
        else perAddress.delete(address);
      });
    });
  });

  const port = await listen(http, host, options.port ?? 0);
  http.on('error', (err) => context.log.error({ err }, 'server error'));
  const urls = reachableHosts(host).map((name) => `${tls === null ? 'http' : 'https'}://${name}:${port}`);

  async function close(): Promise<void> {
    // Rooms first: nobody may be told that the others have left, for a running ring goes on without the server.
    context.hub.close();
    for (const connection of connections) {
      connection.refuse('server-closing', 'The server is closing. A run that has begun goes on.', CLOSE_RESTART);
    }
    const cancel = clock.after(limits.closeGraceMs, () => {
      for (const connection of connections) connection.terminate();
      http.closeAllConnections();
    });
    http.closeIdleConnections();
    await new Promise((resolve) => http.close(resolve));
    cancel();
  }

  let closing: Promise<void> | null = null;
  return {
    url: urls[0]!,
    urls,
    port,
    createRoom({ job, startAt, nodes = null, code }) {
      if (code !== undefined && context.hub.has(code)) throw new UsageError(`There is a room ${code} already.`);
      const opened = context.hub.open({ job, startAt, nodes, code, isPermanent: true });
      if (opened === null) throw new PeergradError(`The server holds ${limits.maxRooms} rooms, as many as it may.`);
      return opened;
    },
    close: () => (closing ??= close()),
  };
}

/**
 * The HTTP status to refuse an upgrade with, or `null` to go on. Browsers always send Origin: another site's page must
 * not join rooms with its visitors' browsers. (A reverse proxy has to pass on the Host header.)
 */
function whyNotUpgrade(req: IncomingMessage): number | null {
  if (req.url?.split('?', 1)[0] !== SIGNALING_PATH) return 404;
  const { origin, host } = req.headers;
  if (origin === undefined) return null;
  return URL.canParse(origin) && new URL(origin).host === host ? null : 403;
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(new PeergradError(whyNotListening(error, host, port))),
    );
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port));
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
