/**
 * Answers plain HTTP requests for the built page, the data folder, health and metrics. Only GET and
 * HEAD are allowed.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import send from 'send';
import { clientAddress, isLoopback } from './address.ts';
import { acceptsGzip, CompressedAssets } from './compressedAssets.ts';
import { DATA_PATH, DataFiles, INDEX_PATH } from './data.ts';
import { SIGNALING_PATH } from '../../src/protocol/control.ts';
import { pageHeaders } from './headers.ts';
import type { AnsweredHosts } from './hosts.ts';
import type { Metrics } from '../monitoring/metrics.ts';

interface HttpOptions {
  /** Folder of the built page; `null` serves no page. */
  dist: string | null;
  /** Folder of a job's files, or a single file; `null` serves no data. */
  data: string | null;
  /** Returns the response of `/healthz`, which answers as long as the process lives. */
  health: () => Record<string, unknown>;
  /** Returns the answer of `/readyz`: whether new tabs should connect to this process. */
  isReady: () => boolean;
  metrics: Metrics;
  /** Bearer token with which other machines may read `/metrics`. */
  metricsToken: string | null;
  trustProxy: boolean;
  isTls: boolean;
  hosts: AnsweredHosts;
  /** Returns the origins at which other machines reach this server. */
  origins: () => string[];
}

/**
 * Path of the origins at which other machines reach this server. Only pages on this machine may
 * read it: a page that was opened at localhost cannot know them.
 */
const ORIGINS_PATH = '/origins.json';

/** Folder within the built page. Vite adds a hash of the content to the names of its files. */
const HASHED = 'assets';
const IMMUTABLE = 'public,max-age=31536000,immutable';

export function createHttpHandler(options: HttpOptions) {
  const { dist, health, isReady, metrics, metricsToken, trustProxy, isTls, hosts, origins } = options;
  const data = options.data === null ? null : new DataFiles(options.data);
  const compressed = dist === null ? null : new CompressedAssets(path.join(dist, HASHED));

  function mayReadMetrics(req: IncomingMessage): boolean {
    const bearer = /^Bearer (.+)$/.exec(req.headers.authorization ?? '')?.[1];
    if (metricsToken !== null && bearer !== undefined && isEqual(bearer, metricsToken)) return true;
    return isFromThisMachine(req);
  }

  function isFromThisMachine(req: IncomingMessage): boolean {
    // If a proxy on this machine forwards a request, the request arrives from the loopback address,
    // although its sender may be another machine.
    const isForwarded = !trustProxy && ['x-forwarded-for', 'forwarded', 'via'].some((name) => name in req.headers);
    return !isForwarded && isLoopback(clientAddress(req, trustProxy));
  }

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const isSecure = isTls || (trustProxy && req.headers['x-forwarded-proto'] === 'https');
    res.setHeaders(new Headers(pageHeaders(req, isSecure)));
    const refusal = hosts.refusalOf(req);
    if (refusal !== null) return plain(res, 421, refusal);
    if (req.method !== 'GET' && req.method !== 'HEAD') return plain(res, 405, 'Only GET is served here.');
    // A pipelined response has no socket yet. Without a socket, it would not notice that the client
    // is gone, and its file would stay open.
    if (res.socket === null) await once(res, 'socket');
    const pathname = req.url?.split('?', 1)[0] ?? '/';
    if (pathname === '/healthz') {
      return json(res, 200, { ok: true, ...health() });
    }
    if (pathname === '/readyz') {
      const ready = isReady();
      return json(res, ready ? 200 : 503, { ready });
    }
    if (pathname === '/metrics') {
      if (!mayReadMetrics(req)) {
        res.setHeader('www-authenticate', 'Bearer');
        return plain(
          res,
          401,
          'Metrics are served to this machine only. From another machine, send the bearer token of --metrics-token.',
        );
      }
      res.setHeader('content-type', metrics.contentType).setHeader('cache-control', 'no-store');
      res.end(await metrics.text());
      return;
    }
    if (pathname === SIGNALING_PATH) {
      // With HEAD, the library asks whether this is a signaling server. The answer is not 426,
      // because browsers log such a status as an error.
      if (req.method === 'HEAD') return void res.writeHead(204).end();
      return plain(res, 426, 'Open a WebSocket here.');
    }
    if (pathname === ORIGINS_PATH) return json(res, 200, isFromThisMachine(req) ? origins() : []);
    if (data !== null && pathname.startsWith(DATA_PATH)) {
      if (!(await data.serve(pathname, req, res))) plain(res, 404, 'There is no such data file.');
      return;
    }
    // Without a data folder, the answer is an empty list of files: the page requests the list in
    // any case.
    if (pathname === INDEX_PATH) return json(res, 200, []);
    if (dist === null) return nothingHere(res);
    if (await serveCompressed(pathname, req, res)) return;
    serveApp(dist, pathname, req, res);
  }

  /**
   * Answers with a compressed file. Resolves with `false` if it does not answer, for example
   * because the page is on this machine and gains nothing by compression.
   */
  async function serveCompressed(pathname: string, req: IncomingMessage, res: ServerResponse): Promise<boolean> {
    const [, folder, name] = /^\/([^/]+)\/([^/%]+)$/.exec(pathname) ?? [];
    if (folder !== HASHED || isFromThisMachine(req) || !acceptsGzip(req.headers['accept-encoding'])) return false;
    const asset = await compressed!.file(name!);
    if (asset === null) return false;
    res.writeHead(200, {
      'content-type': asset.type,
      'content-encoding': 'gzip',
      'content-length': asset.content.length,
      'cache-control': IMMUTABLE,
      vary: 'accept-encoding',
    });
    res.end(req.method === 'HEAD' ? undefined : asset.content);
    return true;
  }

  return (req: IncomingMessage, res: ServerResponse): void => {
    answer(req, res).catch(() => unreadable(res));
  };
}

/**
 * Serves the built page. It reads the disk on every request, so a page that is rebuilt while the
 * server runs is served completely.
 */
function serveApp(dist: string, pathname: string, req: IncomingMessage, res: ServerResponse): void {
  // No file of the page is large enough for requests of byte ranges.
  send(req, pathname, { root: dist, acceptRanges: false, cacheControl: false })
    .on('headers', (_: ServerResponse, file: string) => {
      const isHashed = path.dirname(file) === path.resolve(dist, HASHED);
      res.setHeader('cache-control', isHashed ? IMMUTABLE : 'no-cache');
      if (isHashed) res.setHeader('vary', 'accept-encoding');
    })
    .on('directory', () => nothingHere(res))
    .on('error', ({ status }: { status: number }) => (status < 500 ? nothingHere(res) : unreadable(res)))
    .pipe(res);
}

/** Compares two strings in constant time. */
function isEqual(a: string, b: string): boolean {
  const [x, y] = [a, b].map((text) => createHash('sha256').update(text).digest());
  return timingSafeEqual(x!, y!);
}

function json(res: ServerResponse, status: number, value: unknown): void {
  res.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  res.end(JSON.stringify(value));
}

function nothingHere(res: ServerResponse): void {
  plain(res, 404, 'There is nothing here.');
}

/**
 * Answers with status 500 if a file can no longer be read. Drops the response if its headers have
 * been sent.
 */
function unreadable(res: ServerResponse): void {
  if (res.headersSent) res.destroy();
  else plain(res, 500, 'The server could not read this file.');
}

/** Answers with a status and a sentence. Overwrites headers that were set for a file. */
function plain(res: ServerResponse, status: number, text: string): void {
  const body = `${text}\n`;
  res.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
  });
  res.end(body);
}
