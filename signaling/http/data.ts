/**
 * Serves a job's files, read-only, under `/data/`, with a list in `/data/index.json`. The user who
 * runs the server chooses a single file or a folder. In a folder, the IDX files and the pictures in
 * subfolders are served or, if there are none, the text files. Only listed files are served, so no
 * path is built from a request. IDX and text files may also be links to files elsewhere, because
 * the user chose the folder and its contents.
 */
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';

export const DATA_PATH = '/data/';
/** Path of the list of files. */
export const INDEX_PATH = `${DATA_PATH}index.json`;
/** Matches the name of a file of IDX arrays. */
export const IDX_FILE = /^[\w-]+-idx\d-ubyte(\.gz)?$/;
/** Matches the name of a picture. The folder that contains a picture is its class. */
const PICTURE = /^[^.].*\.(png|jpe?g|gif|webp|bmp|avif)$/i;
const TEXT = /^[^.].*\.txt$/i;
/** Maximum number of folders above a picture, as in `train/cats/1.png`. */
const MAX_DEPTH = 3;

/**
 * Returns the names of the served files of `root`, which is a folder or a file. The names are
 * sorted and contain slashes.
 * @throws (rejects) if `root` cannot be read.
 */
export async function listDataFiles(root: string): Promise<string[]> {
  if ((await stat(root)).isFile()) return [path.basename(root)];
  const images = [...(await filesIn(root, IDX_FILE)), ...(await picturesIn(root, '', 0))];
  return (images.length > 0 ? images : await filesIn(root, TEXT)).sort();
}

async function filesIn(root: string, kind: RegExp): Promise<string[]> {
  const entries = await readdir(root);
  const names = entries.filter((name) => kind.test(name));
  const isFile = await Promise.all(names.map(async (name) => (await stat(path.join(root, name))).isFile()));
  return names.filter((_, i) => isFile[i]);
}

async function picturesIn(root: string, folder: string, depth: number): Promise<string[]> {
  const entries = await readdir(path.join(root, folder), { withFileTypes: true });
  const below = entries.filter((entry) => entry.isDirectory() && depth < MAX_DEPTH && !entry.name.startsWith('.'));
  const nested = await Promise.all(below.map(({ name }) => picturesIn(root, `${folder}${name}/`, depth + 1)));
  const own = entries.filter((entry) => depth > 0 && entry.isFile() && PICTURE.test(entry.name));
  return [...own.map(({ name }) => folder + name), ...nested.flat()];
}

/** Answers requests for the files of `root`. */
export class DataFiles {
  readonly #root: string;
  /** The list of files when it was last requested. */
  #names: Promise<string[]> | null = null;

  constructor(root: string) {
    this.#root = root;
  }

  /**
   * Answers a GET or HEAD request under {@link DATA_PATH}; resolves with `false` if there is no
   * such file.
   */
  async serve(pathname: string, req: IncomingMessage, res: ServerResponse): Promise<boolean> {
    const name = decoded(pathname.slice(DATA_PATH.length));
    res.setHeader('cache-control', 'no-cache');
    if (pathname === INDEX_PATH) {
      const listed = await this.#list();
      res.setHeader('content-type', 'application/json').end(JSON.stringify(listed));
      return true;
    }
    const names = await (this.#names ?? this.#list());
    if (name === null || !names.includes(name)) return false;
    const isFile = name === path.basename(this.#root) && (await stat(this.#root)).isFile();
    const file = isFile ? this.#root : path.join(this.#root, name);
    // No content-encoding: the page receives the .gz as it is, and can detect that it is truncated.
    res.setHeader('content-type', 'application/octet-stream');
    res.setHeader('content-length', (await stat(file)).size);
    if (req.method === 'HEAD') res.end();
    else await pipeline(createReadStream(file), res);
    return true;
  }

  /** Lists the files; a failed listing is not cached. */
  #list(): Promise<string[]> {
    const names = listDataFiles(this.#root);
    this.#names = names;
    names.catch(() => {
      if (this.#names === names) this.#names = null;
    });
    return names;
  }
}

/** Decodes a name from a URL; returns `null` if it is invalid. */
function decoded(name: string): string | null {
  try {
    return decodeURIComponent(name);
  } catch {
    return null;
  }
}
