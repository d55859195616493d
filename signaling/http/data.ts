/**
 * Serves a job's files, read-only, under `/data/`, with a list in `/data/index.json`. The user who
 * runs the server chooses a single file or a folder. The list names all visible files of a folder,
 * at any depth. It contains sizes only of the files that a job may read: IDX files and pictures or,
 * if there are none, text files. Only files with a size in this list are served: a request selects
 * one of them, so no path is built from it. Files may also be links to files elsewhere, because the
 * user chose the folder and its contents. `/data/index.bin` has the contents of all these files, in
 * the order of the list, so a few requests fetch thousands of files.
 */
import { createReadStream } from 'node:fs';
import { open, readdir, readFile, stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import {
  hashOfFileList,
  PICTURE_HEAD_BYTES,
  isDataInHiddenFolder,
  isHiddenFile,
  fileKindOfName,
  pictureFormat,
  type DataFileEntry,
} from '../../src/spec/dataFiles.ts';
import { mapConcurrently } from '../../src/util/mapConcurrently.ts';

export const DATA_PATH = '/data/';
/** Path of the list of files. */
export const INDEX_PATH = `${DATA_PATH}index.json`;
/** Path of the contents of all listed files. */
const CONTENTS_PATH = `${DATA_PATH}index.bin`;
/** Number of the latest lists of files whose contents clients can still request. */
const MAX_LISTS = 8;
/** Number of files of a folder that are listed at the same time. */
const LISTED_AT_ONCE = 64;
/** Files up to this number of bytes are read into memory as a whole. */
const SMALL_BYTES = 1024 * 1024;

/**
 * Lists the visible files of `root`, which is a folder or a file, sorted by name.
 *
 * @throws (rejects) if `root` cannot be read.
 */
export async function listDataFiles(root: string): Promise<DataFileEntry[]> {
  const { size, modified, isFile } = await statOf(root);
  if (isFile) return [{ name: path.basename(root), size, modified }];
  const entries = await filesIn(root, '');
  const hasSamples = entries.some((entry) => entry.size !== undefined && !isText(entry));
  return entries
    .map((entry) => (hasSamples && isText(entry) ? { name: entry.name } : entry))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function isText({ name }: DataFileEntry): boolean {
  return fileKindOfName(name) === 'text';
}

async function filesIn(root: string, folder: string): Promise<DataFileEntry[]> {
  const entries = await readdir(path.join(root, folder), { withFileTypes: true });
  const found = await mapConcurrently(entries, LISTED_AT_ONCE, async (entry): Promise<DataFileEntry[]> => {
    const name = folder + entry.name;
    if (isHiddenFile(entry.name)) return entry.isDirectory() ? namesInHidden(root, `${name}/`) : [];
    // Links to folders are not followed, because they may form a circle.
    if (entry.isDirectory()) return filesIn(root, `${name}/`);
    return entry.isFile() || entry.isSymbolicLink() ? entryOf(root, name) : [];
  });
  return found.flat();
}

/**
 * Lists the names of pictures and texts in a hidden folder, so that a run reports that they are
 * left out.
 */
async function namesInHidden(root: string, folder: string): Promise<DataFileEntry[]> {
  const options = { recursive: true, withFileTypes: true } as const;
  const entries = await readdir(path.join(root, folder), options).catch(() => []);
  return entries.flatMap((entry) => {
    const name = path.relative(root, path.join(entry.parentPath, entry.name)).split(path.sep).join('/');
    return entry.isFile() && isDataInHiddenFolder(name) ? [{ name }] : [];
  });
}

async function entryOf(root: string, name: string): Promise<DataFileEntry[]> {
  const file = path.join(root, name);
  const { size, modified, isFile } = await statOf(file).catch(() => ({ size: 0, modified: 0, isFile: false }));
  // A link to a folder, or to nothing, is listed by its name alone, so that a run can report it.
  if (!isFile) return [{ name }];
  const isRead = fileKindOfName(name) !== null || pictureFormat(name, await headOf(file)) !== null;
  return [isRead ? { name, size, modified } : { name }];
}

async function statOf(file: string): Promise<{ size: number; modified: number; isFile: boolean }> {
  const found = await stat(file);
  return { size: found.size, modified: Math.round(found.mtimeMs), isFile: found.isFile() };
}

async function headOf(file: string): Promise<Uint8Array> {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(new Uint8Array(PICTURE_HEAD_BYTES), 0, PICTURE_HEAD_BYTES, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

interface Listed {
  entries: readonly DataFileEntry[];
  /** Sizes of the served files. */
  sizes: ReadonlyMap<string, number>;
  /** Names of the served files. */
  names: readonly string[];
  /** For each name, the offset of the file in the contents of all files. */
  starts: readonly number[];
  /** Bytes of all served files. */
  total: number;
  /** Whether the root is a single file. */
  isFile: boolean;
}

/** Answers requests for the files of `root`. */
export class DataFiles {
  readonly #root: string;
  /** The files when they were last listed. */
  #listed: Promise<Listed> | null = null;
  /** The latest lists that clients may have, by their hashes. */
  readonly #lists = new Map<string, Listed>();

  constructor(root: string) {
    this.#root = root;
  }

  /**
   * Answers a GET or HEAD request under {@link DATA_PATH}; resolves with `false` if there is no
   * such file.
   */
  async serve(pathname: string, req: IncomingMessage, res: ServerResponse): Promise<boolean> {
    res.setHeader('cache-control', 'no-cache');
    if (pathname === INDEX_PATH) {
      const { entries } = await this.#list();
      res.setHeader('content-type', 'application/json').end(JSON.stringify(entries));
      return true;
    }
    const name = decoded(pathname.slice(DATA_PATH.length));
    const listed = await (this.#listed ?? this.#list());
    if (pathname === CONTENTS_PATH) {
      const of = new URL(req.url!, 'http://localhost').searchParams.get('of');
      // Files may have been added since the client received its list.
      const known = of === null ? listed : this.#lists.get(of);
      if (known === undefined) return false;
      await answer(req, res, {
        size: known.total,
        read: (from, to) => this.#contents(known, from, to),
        isOfSeveral: (from, to) => known.starts.some((start) => from < start && start < to),
      });
      return true;
    }
    if (name === null || !listed.sizes.has(name)) return false;
    const file = this.#pathOf(name, listed);
    const read = (start: number, to: number): AsyncIterable<Uint8Array, undefined> =>
      createReadStream(file, { start, end: to - 1 }) as AsyncIterable<Uint8Array, undefined>;
    await answer(req, res, { size: (await stat(file)).size, read, isOfSeveral: () => false });
    return true;
  }

  #pathOf(name: string, { isFile }: Listed): string {
    return isFile ? this.#root : path.join(this.#root, name);
  }

  /**
   * Yields bytes from..to-1 of all files together.
   *
   * @throws (rejects) if a file has changed since it was listed.
   */
  async *#contents(listed: Listed, from: number, to: number): AsyncGenerator<Uint8Array, undefined> {
    const { names, starts, sizes } = listed;
    const begin = starts.findLastIndex((start) => start <= from);
    for (let at = Math.max(0, begin); starts[at]! < to; at++) {
      const [name, start] = [names[at]!, starts[at]!];
      const size = sizes.get(name)!;
      const [first, end] = [Math.max(0, from - start), Math.min(size, to - start)];
      if (first >= end) continue;
      const file = this.#pathOf(name, listed);
      if (size <= SMALL_BYTES) {
        const content = await readFile(file);
        if (content.length !== size) throw changed(name);
        yield content.subarray(first, end);
        continue;
      }
      if ((await stat(file)).size !== size) throw changed(name);
      yield* createReadStream(file, { start: first, end: end - 1 }) as AsyncIterable<Uint8Array>;
    }
  }

  /** Lists the files; a failed listing is not cached. */
  #list(): Promise<Listed> {
    const listed = Promise.all([listDataFiles(this.#root), statOf(this.#root)]).then(([entries, { isFile }]) => {
      const sizes = new Map(entries.flatMap(({ name, size }) => (size === undefined ? [] : [[name, size]])));
      let total = 0;
      const starts = [...sizes.values()].map((size) => (total += size) - size);
      const list = { entries, sizes, names: [...sizes.keys()], starts, total, isFile };
      this.#lists.set(hashOfFileList(entries), list);
      if (this.#lists.size > MAX_LISTS) this.#lists.delete([...this.#lists.keys()][0]!);
      return list;
    });
    this.#listed = listed;
    listed.catch(() => {
      if (this.#listed === listed) this.#listed = null;
    });
    return listed;
  }
}

function changed(name: string): Error {
  return new Error(`${name} has changed.`);
}

interface Content {
  size: number;
  /** Yields bytes from..to-1. */
  read: (from: number, to: number) => AsyncIterable<Uint8Array, undefined>;
  /** Returns whether bytes from..to-1 are in several files. */
  isOfSeveral: (from: number, to: number) => boolean;
}

/** Separates the parts of an answer. No file that a job reads contains it by accident. */
const BOUNDARY = 'peergrad-7c1e5a90b3f24d68';
/** Maximum number of ranges in a request. */
const MAX_RANGES = 256;
/** Number of parts of an answer that are read from the disk at the same time. */
const PARTS_AHEAD = 16;

/**
 * Answers with the whole content, or with the ranges that a request asks for. If one of the files
 * has changed, an answer with ranges ends before that file, so that the client can name the file.
 *
 * Source: RFC 9110, sections 14 and 15.3.7.
 */
async function answer(req: IncomingMessage, res: ServerResponse, content: Content): Promise<void> {
  const { size, read } = content;
  res.setHeader('accept-ranges', 'bytes');
  const ranges = rangesOf(req.headers.range, size);
  const type = 'application/octet-stream';
  const [first] = ranges;
  /** A body is begun only if it is sent, because a file that is opened must be read to its end. */
  let body: () => AsyncIterable<Uint8Array> | Uint8Array[];
  if (first === undefined) {
    // No content-encoding: the page receives the .gz as it is, and can detect that it is truncated.
    res.writeHead(200, { 'content-type': type, 'content-length': size });
    body = () => (size === 0 ? [] : read(0, size));
  } else if (ranges.length === 1) {
    body = () => rangeOf(first, content, res);
  } else {
    res.writeHead(206, { 'content-type': `multipart/byteranges; boundary=${BOUNDARY}` });
    body = () => partsOf(ranges, content);
  }
  if (req.method === 'HEAD') res.end();
  else await pipeline(body(), res);
}

/** Yields a range. The status is 404 if its first file has changed. */
async function* rangeOf({ from, to }: Range, content: Content, res: ServerResponse): AsyncGenerator<Uint8Array> {
  const mayEndEarly = content.isOfSeveral(from, to);
  try {
    for await (const chunk of content.read(from, to)) {
      if (!res.headersSent) {
        res.writeHead(206, {
          'content-type': 'application/octet-stream',
          'content-range': `bytes ${from}-${to - 1}/${content.size}`,
          ...(!mayEndEarly && { 'content-length': to - from }),
        });
      }
      yield chunk;
    }
  } catch (error) {
    if (!res.headersSent) res.writeHead(404);
    else if (!mayEndEarly) throw error;
  }
}

async function* partsOf(ranges: readonly Range[], { size, read }: Content): AsyncGenerator<Uint8Array> {
  const begin = (range: Range): Begun => {
    const chunks = read(range.from, range.to)[Symbol.asyncIterator]();
    const first = chunks.next();
    // A failure is thrown when it is this part's turn.
    first.catch(() => {});
    return { range, chunks, first };
  };
  const begun = ranges.slice(0, PARTS_AHEAD).map(begin);
  try {
    for (let next = begun.length; begun.length > 0; next++) {
      const [{ range, chunks, first }] = begun as [Begun, ...Begun[]];
      const { from, to } = range;
      const head = Buffer.from(`\r\n--${BOUNDARY}\r\ncontent-range: bytes ${from}-${to - 1}/${size}\r\n\r\n`);
      const { value } = await first;
      yield value === undefined ? head : Buffer.concat([head, value]);
      for (let chunk = await chunks.next(); chunk.done !== true; chunk = await chunks.next()) yield chunk.value;
      begun.shift();
      if (next < ranges.length) begun.push(begin(ranges[next]!));
    }
    yield Buffer.from(`\r\n--${BOUNDARY}--\r\n`);
  } catch {
    // The client then requests each missing file separately.
  } finally {
    await Promise.all(begun.map(async ({ chunks }) => chunks.return?.()));
  }
}

/** A part of an answer that is being read. */
interface Begun {
  range: Range;
  chunks: AsyncIterator<Uint8Array, undefined>;
  first: Promise<IteratorResult<Uint8Array, undefined>>;
}

/** Bytes from..to-1. */
interface Range {
  from: number;
  to: number;
}

/**
 * Returns the requested ranges. If the header is missing or invalid, returns none. Ranges that
 * overlap or go backwards are invalid, because a small request with such ranges would cause a huge
 * answer (RFC 9110, section 14.2).
 */
function rangesOf(header: string | undefined, size: number): Range[] {
  const list = /^bytes=(\d+-\d+(,\d+-\d+)*)$/.exec(header ?? '')?.[1]?.split(',') ?? [];
  const ranges = list.map((one) => {
    const [from, last] = one.split('-').map(Number) as [number, number];
    return { from, to: Math.min(last + 1, size) };
  });
  const isValid = ranges.every(({ from, to }, i) => from < to && from >= (ranges[i - 1]?.to ?? 0));
  return isValid && ranges.length <= MAX_RANGES ? ranges : [];
}

/** Decodes a name from a URL; returns `null` if it is invalid. */
function decoded(name: string): string | null {
  try {
    return decodeURIComponent(name);
  } catch {
    return null;
  }
}
