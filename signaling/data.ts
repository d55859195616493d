/**
 * Data files, read-only under `/data/`, with `/data/index.json` naming what is there: those of a folder that are IDX files, or, where it
 * has none, texts; or one file, whatever its name. Only files that are listed can be asked for: no path is ever built from a request.
 */
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';

export const DATA_PATH = '/data/';
/** What is data in a folder; of these kinds the first that it has. */
const FILE_KINDS = [/^[\w-]+-idx\d-ubyte(\.gz)?$/, /^[^.].*\.txt$/i];

/** Names of what is served of `data`, a folder or a file, sorted. @throws where it cannot be read. */
export async function listDataFiles(data: string): Promise<string[]> {
  return [...(await filesOf(data)).keys()];
}

/** Paths by name. */
async function filesOf(data: string): Promise<Map<string, string>> {
  if ((await stat(data)).isFile()) return new Map([[path.basename(data), data]]);
  const all = (await readdir(data)).sort();
  for (const kind of FILE_KINDS) {
    const named = all.filter((name) => kind.test(name)).map((name) => [name, path.join(data, name)] as const);
    const isFile = await Promise.all(named.map(async ([, file]) => (await stat(file)).isFile()));
    const files = named.filter((_, i) => isFile[i]);
    if (files.length > 0) return new Map(files);
  }
  return new Map();
}

/** Answers a GET or HEAD under {@link DATA_PATH}; `false` where there is nothing of that name. */
export async function serveData(
  data: string,
  pathname: string,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<boolean> {
  const files = await filesOf(data);
  res.setHeader('cache-control', 'no-cache');
  if (pathname === `${DATA_PATH}index.json`) {
    res.setHeader('content-type', 'application/json').end(JSON.stringify([...files.keys()]));
    return true;
  }
  const file = files.get(decode(pathname.slice(DATA_PATH.length)));
  if (file === undefined) return false;
  // No content-encoding: the page gets the .gz as it lies there, and can tell when it is truncated.
  res.setHeader('content-type', 'application/octet-stream');
  res.setHeader('content-length', (await stat(file)).size);
  if (req.method === 'HEAD') res.end();
  else await pipeline(createReadStream(file), res);
  return true;
}

/** Without a browser's escapes; as it is where these are none. */
function decode(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
