/** What the server answers to plain HTTP: the built page, the data folder, and its health. GET and HEAD only. */
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import send from 'send';
import { DATA_PATH, serveData } from './data.ts';

export interface HttpOptions {
  /** Folder of the built page, or `null` to serve none. */
  dist: string | null;
  /** Folder of IDX files, or `null`. */
  data: string | null;
  /** What `/healthz` says. */
  health: () => Record<string, unknown>;
}

/** Folder of the page in which Vite names everything by its content's hash. */
const HASHED = 'assets';
const FOR_EVER = 'public,max-age=31536000,immutable';

export function createHttpHandler({ dist, data, health }: HttpOptions) {
  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    res.setHeader('x-content-type-options', 'nosniff');
    if (req.method !== 'GET' && req.method !== 'HEAD') return plain(res, 405, 'Only GET is served here.');
    // A response behind others on its connection has no socket yet: it would never hear that the client has gone, and its
    // file would stay open.
    if (res.socket === null) await once(res, 'socket');
    const pathname = req.url?.split('?', 1)[0] ?? '/';
    if (pathname === '/healthz') {
      res.setHeader('content-type', 'application/json').setHeader('cache-control', 'no-store');
      res.end(JSON.stringify({ ok: true, ...health() }));
      return;
    }
    if (data !== null && pathname.startsWith(DATA_PATH)) {
      if (!(await serveData(data, pathname, req, res))) plain(res, 404, 'There is no such data file.');
      return;
    }
    if (dist === null) return nothingHere(res);
    serveApp(dist, pathname, req, res);
  }

  return (req: IncomingMessage, res: ServerResponse): void => {
    answer(req, res).catch(() => unreadable(res));
  };
}

/** The built page. Looks at the disk on every request: a page rebuilt under a running server is served, never half-known. */
function serveApp(dist: string, pathname: string, req: IncomingMessage, res: ServerResponse): void {
  // Nothing here is large enough to need ranges.
  send(req, pathname, { root: dist, acceptRanges: false, cacheControl: false })
    .on('headers', (_: ServerResponse, file: string) => {
      res.setHeader('cache-control', path.dirname(file) === path.resolve(dist, HASHED) ? FOR_EVER : 'no-cache');
    })
    .on('directory', () => nothingHere(res))
    .on('error', ({ status }: { status: number }) => (status < 500 ? nothingHere(res) : unreadable(res)))
    .pipe(res);
}

function nothingHere(res: ServerResponse): void {
  plain(res, 404, 'There is nothing here.');
}

/** The client went away, or a file did: there may be nobody to tell, or it may be too late for a status. */
function unreadable(res: ServerResponse): void {
  if (res.headersSent) res.destroy();
  else plain(res, 500, 'The server could not read that.');
}

/** A status and a sentence; what was meant to describe a file (its length, how long to keep it) is overruled. */
function plain(res: ServerResponse, status: number, text: string): void {
  const body = `${text}\n`;
  res.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
  });
  res.end(body);
}
