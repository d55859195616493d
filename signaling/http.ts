/** What the server answers to plain HTTP: the built page, the data folder, and its health. GET and HEAD only. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import sirv from 'sirv';
import { DATA_PATH, serveData } from './data.ts';

export interface HttpOptions {
  /** Folder of the built page, or `null` to serve none. */
  dist: string | null;
  /** Folder of IDX files, or `null`. */
  data: string | null;
  /** What `/healthz` says. */
  health: () => Record<string, unknown>;
}

/** Vite names everything in here by its content's hash. */
const HASHED = /^\/assets\//;
const FOR_EVER = 'public,max-age=31536000,immutable';

export function createHttpHandler({ dist, data, health }: HttpOptions) {
  // `dev` looks at the disk on every request: a page rebuilt under a running server is served, and never half-known.
  const serveApp =
    dist === null
      ? null
      : sirv(dist, {
          dev: true,
          etag: true,
          setHeaders: (res, pathname) => {
            res.setHeader('cache-control', HASHED.test(pathname) ? FOR_EVER : 'no-cache');
          },
        });

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    res.setHeader('x-content-type-options', 'nosniff');
    if (req.method !== 'GET' && req.method !== 'HEAD') return plain(res, 405, 'Only GET is served here.');
    // A range that sirv cannot satisfy would throw after its headers are out, and nothing here is large enough to need one.
    delete req.headers.range;
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
    if (serveApp === null) return plain(res, 404, 'There is nothing here.');
    serveApp(req, res, () => plain(res, 404, 'There is nothing here.'));
  }

  return (req: IncomingMessage, res: ServerResponse): void => {
    answer(req, res).catch(() => {
      // The client went away, or a file did: there is nobody to tell or it is too late for a status.
      if (res.headersSent) res.destroy();
      else plain(res, 500, 'The server could not read that.');
    });
  };
}

function plain(res: ServerResponse, status: number, text: string): void {
  res.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`);
}
