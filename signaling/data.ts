/**
 * A folder of IDX files, read-only under `/data/`, with `/data/index.json` naming what is there. Only files that are
 * listed can be asked for, and only IDX files are listed: no path is ever built from a request.
 */
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';

export const DATA_PATH = '/data/';
const IDX_FILE = /^[\w-]+-idx\d-ubyte(\.gz)?$/;

/** Names of the IDX files in `folder`, sorted. @throws where the folder cannot be read. */
export async function listDataFiles(folder: string): Promise<string[]> {
  const names = (await readdir(folder)).filter((name) => IDX_FILE.test(name));
  const isFile = await Promise.all(names.map(async (name) => (await stat(path.join(folder, name))).isFile()));
  return names.filter((_, i) => isFile[i]).sort();
}

/** Answers a GET or HEAD under {@link DATA_PATH}; `false` where there is nothing of that name. */
export async function serveData(
  folder: string,
  pathname: string,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<boolean> {
  const name = pathname.slice(DATA_PATH.length);
  const files = await listDataFiles(folder);
  res.setHeader('cache-control', 'no-cache');
  if (name === 'index.json') {
    res.setHeader('content-type', 'application/json').end(JSON.stringify(files));
    return true;
  }
  if (!files.includes(name)) return false;
  const file = path.join(folder, name);
  // No content-encoding: the page gets the .gz as it lies there, and can tell when it is truncated.
  res.setHeader('content-type', 'application/octet-stream');
  res.setHeader('content-length', (await stat(file)).size);
  if (req.method === 'HEAD') res.end();
  else await pipeline(createReadStream(file), res);
  return true;
}
