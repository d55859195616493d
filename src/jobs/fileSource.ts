/** Sources of data files: a folder on a web server, or files that the user picked. */
import { hashOfFileList, type DataFileEntry } from '../spec/dataFiles.ts';
import { pathWithFileName } from '../spec/mnistFiles.ts';
import type { LoadProgress } from '../protocol/events.ts';
import type { DataPreview } from '../spec/preview.ts';
import { DataError, errorMessageOf } from '../util/errors.ts';
import { parseJson } from '../util/json.ts';
import { mapConcurrently } from '../util/mapConcurrently.ts';
import { downloadAsBlob, fileSizeIfRanged, type DownloadOptions } from './download.ts';
import { dataFileOf, type FilePlace, type DataFile } from './dataFile.ts';
import { readWebRange } from './webRanges.ts';

/** Maximum size of a file that is read as a whole. MNIST's largest file has 47 MB. */
const MAX_FILE_BYTES = 512 * 1024 * 1024;
export interface LoadDataOptions {
  /**
   * For data of kind `files`: the files that the user of this tab picked. For data of kind `shared`
   * other than images: the files that this rank received from other tabs.
   */
  files?: readonly File[];
  /**
   * For images in data of kind `shared`: the files that this rank receives from other tabs, some
   * of them while it trains.
   */
  shared?: readonly DataFile[];
  /**
   * The page's address; relative URLs are resolved against it. It is empty if all URLs are
   * absolute.
   */
  baseUrl: string;
  signal?: AbortSignal;
  /** Called once for each picture that cannot be decoded, with the reason. It is left out. */
  onundecoded?: (problem: string) => void;
  /** Receives the preview of the data, before samples are read. */
  onpreview?: (preview: DataPreview) => void;
  /**
   * Receives the progress of loading. A tab without progress for a long time is treated as hanging.
   */
  onprogress?: (progress: LoadProgress) => void;
}

export interface FoundFile {
  /** Name of the file in errors. For a file on a web server, this is its full URL. */
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export interface DataFileSource {
  /** Description of the source in errors: "in <url>" or "among the files you chose". */
  readonly where: string;
  /**
   * Names of the existing files. `null` if they are unknown; a file must be requested to find out
   * whether it exists.
   */
  readonly names: readonly string[] | null;
  /**
   * Reads the first file of `candidates` that exists. Returns `null` if none of them exists.
   *
   * @throws (rejects) DataError if a file exists but cannot be read. If the signal was aborted,
   *   throws its reason.
   */
  find(candidates: readonly string[]): Promise<FoundFile | null>;
}

/** Optional file in a folder on a web server: a JSON list of the names of the folder's files. */
const INDEX_NAME = 'index.json';
/**
 * Optional file in a folder whose {@link INDEX_NAME} lists the sizes of files. It contains the
 * bytes of all these files, one after the other.
 */
const CONTENTS_NAME = 'index.bin';
/** Maximum number of bytes of files that are requested together. */
const PART_BYTES = 16 * 1024 * 1024;
/** Maximum number of concurrent requests. */
const REQUESTS = 6;

/** Returns a source that finds files by name among those that the user picked. */
export function pickedFileSource(files: readonly File[]): DataFileSource {
  return {
    where: 'among the files you chose',
    names: files.map((file) => file.name),
    async find(candidates) {
      for (const candidate of candidates) {
        const path = pathWithFileName(
          files.map(({ name }) => name),
          candidate,
        );
        const file = files.find(({ name }) => name === path);
        if (file === undefined) continue;
        if (file.size > MAX_FILE_BYTES)
          throw new DataError(
            `${file.name} has ${file.size} bytes, more than the maximum of ${MAX_FILE_BYTES}. Choose a smaller file.`,
          );
        try {
          return { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) };
        } catch (cause) {
          const reason = errorMessageOf(cause);
          throw new DataError(`${file.name} could not be read (${reason}). Choose it again.`, {}, { cause });
        }
      }
      return null;
    },
  };
}

/**
 * Returns a source for a folder on a web server. If the folder has an `index.json`, this list says
 * which files exist. Otherwise, each possible name is requested, one after the other. If the server
 * answers with an HTML page, the file is treated as missing, because many servers answer unknown
 * addresses with their start page.
 *
 * @param folder URL with or without a trailing slash, absolute or relative to `baseUrl`.
 * @throws (rejects) DataError if the URL is invalid or not http(s), or the server cannot be
 *   reached.
 */
export async function webFolderSource(
  folder: string,
  { baseUrl, signal, onprogress }: Pick<LoadDataOptions, 'baseUrl' | 'signal' | 'onprogress'>,
): Promise<DataFileSource> {
  const received = sumOfBytes(onprogress);
  const url = folderUrl(folder, baseUrl);
  const names = (await readIndex(url, signal))?.map(({ name }) => name) ?? null;
  return {
    where: `in ${url.href}`,
    names,
    async find(candidates) {
      for (const candidate of candidates) {
        const path = names === null ? candidate : pathWithFileName(names, candidate);
        if (path === undefined) continue;
        const address = addressOf(path, url);
        const blob = await downloadAsBlob(address, { signal, onbytes: received() });
        if (blob !== null) return { name: address.href, bytes: new Uint8Array(await blob.arrayBuffer()) };
        if (names !== null) {
          throw notThere(address);
        }
      }
      return null;
    },
  };
}

/**
 * Fetches all files of a folder that has an `index.json`, or a single file. The names of the
 * fetched files include the path within the folder, such as `cats/1.png`. Listed files that are not
 * fetched are returned without their bytes, so that they can be reported.
 *
 * @param address the URL of a folder if it ends with a slash, otherwise of a file. The URL is
 *   absolute or relative to `baseUrl`.
 * @param isWanted receives the name of each file in the folder, and returns whether to fetch it.
 * @throws (rejects) DataError as {@link webFolderSource}, and if the folder has no `index.json` or
 *   a listed file is missing.
 */
export async function fetchFiles(
  address: string,
  { baseUrl, signal, onprogress }: Pick<LoadDataOptions, 'baseUrl' | 'signal' | 'onprogress'>,
  isWanted: (name: string) => boolean = () => true,
): Promise<File[]> {
  const url = webUrl(address, baseUrl);
  if (!url.pathname.endsWith('/')) {
    const blob = await downloadAsBlob(url, {
      signal,
      onbytes: (done, total) => onprogress?.({ unit: 'bytes', done, total }),
    });
    if (blob === null) throw new DataError(`${url.href} does not exist. Check the address.`);
    return [new File([blob], nameOf(url), { lastModified: 0 })];
  }
  const entries = await readIndex(url, signal);
  if (entries === null) {
    throw new DataError(
      `${url.href} has no ${INDEX_NAME} (a JSON list of its file names). Add this file, or enter the address of a single file.`,
    );
  }
  return entries.some(({ size }) => size !== undefined)
    ? fetchTogether(entries, url, { isWanted, signal, onprogress })
    : fetchEach(entries, url, { isWanted, signal, onprogress });
}

/**
 * Lists the files of a folder, or a single file, like {@link fetchFiles}. If the server sends parts
 * of files, a file is read when it is needed. Otherwise it is downloaded now.
 */
export async function listFiles(
  address: string,
  options: Pick<LoadDataOptions, 'baseUrl' | 'signal' | 'onprogress'>,
  isWanted: (name: string) => boolean = () => true,
): Promise<DataFile[]> {
  const { baseUrl, signal, onprogress } = options;
  const url = webUrl(address, baseUrl);
  const received = sumOfBytes(onprogress);
  const fileAt = (path: string, place: Extract<FilePlace, { in: 'web' }>, version?: number): DataFile => {
    const size = place.range.end - place.range.start;
    const blob = (): Promise<Blob> =>
      readWebRange(place.url, { ...place.range, path }, { signal, onbytes: received() });
    return { path, size, version, place, blob };
  };
  if (!url.pathname.endsWith('/')) {
    const size = /\.zip$/i.test(url.pathname) ? await fileSizeIfRanged(url, signal) : null;
    if (size !== null) return [fileAt(nameOf(url), { in: 'web', url: url.href, range: { start: 0, end: size } })];
    return (await fetchFiles(address, options)).map(dataFileOf);
  }
  const entries = await readIndex(url, signal);
  if (!entries?.some(({ size }) => size !== undefined)) {
    return (await fetchFiles(address, options, isWanted)).map(dataFileOf);
  }
  const contents = contentsOf(url, entries).href;
  let end = 0;
  return entries.map(({ name, size = 0, modified }) => {
    const range = { start: end, end: (end += size) };
    return size > 0 && isWanted(name)
      ? fileAt(name, { in: 'web', url: contents, range }, modified)
      : dataFileOf(new File([], name, { lastModified: 0 }));
  });
}

interface FetchOptions {
  isWanted: (name: string) => boolean;
  signal: AbortSignal | undefined;
  onprogress: LoadDataOptions['onprogress'] | undefined;
}

/**
 * Reports the bytes of several downloads together. Returns a function that begins a download, and
 * returns its `onbytes`.
 *
 * @param files the number of downloads, if it is known. The sizes of those that have not begun are
 *   estimated.
 */
function sumOfBytes(
  onprogress: LoadDataOptions['onprogress'],
  files = 0,
): () => NonNullable<DownloadOptions['onbytes']> {
  const all = { done: 0, total: 0 };
  let begun = 0;
  return () => {
    const own = { done: 0, total: 0 };
    return (done, total) => {
      if (own.total === 0) begun += 1;
      all.done += done - own.done;
      all.total += total - own.total;
      Object.assign(own, { done, total });
      onprogress?.({ unit: 'bytes', done: all.done, total: Math.round((all.total * Math.max(files, begun)) / begun) });
    };
  };
}

/** Requests each file, a few at a time. */
function fetchEach(
  entries: readonly DataFileEntry[],
  folder: URL,
  { isWanted, signal, onprogress }: FetchOptions,
): Promise<File[]> {
  const received = sumOfBytes(onprogress, entries.filter(({ name }) => isWanted(name)).length);
  return mapConcurrently(entries, REQUESTS, async ({ name }) => {
    const one = addressOf(name, folder);
    const blob = isWanted(name) ? await downloadAsBlob(one, { signal, onbytes: received() }) : new Blob();
    if (blob === null) throw notThere(one);
    return new File([blob], name, { lastModified: 0 });
  });
}

/** Requests the contents of many files together, because thousands of requests take minutes. */
async function fetchTogether(
  entries: readonly DataFileEntry[],
  folder: URL,
  { isWanted, signal, onprogress }: FetchOptions,
): Promise<File[]> {
  const files: File[] = [];
  /**
   * Each part is a range of bytes in {@link CONTENTS_NAME}, with the files in it. One request
   * fetches one part.
   */
  const parts: { start: number; end: number; files: { at: number; size: number }[] }[] = [];
  let offset = 0;
  for (const [at, { name, size }] of entries.entries()) {
    const start = offset;
    offset += size ?? 0;
    if (size === undefined || size === 0 || !isWanted(name)) {
      files[at] = new File([], name, { lastModified: 0 });
      continue;
    }
    const last = parts.at(-1);
    if (last?.end === start && offset - last.start <= PART_BYTES) {
      last.end = offset;
      last.files.push({ at, size });
    } else parts.push({ start, end: offset, files: [{ at, size }] });
  }
  const total = parts.reduce((sum, { start, end }) => sum + end - start, 0);
  let received = 0;
  for (const { start, end, files: own } of parts) {
    const address = contentsOf(folder, entries);
    const onbytes = (bytes: number): void => onprogress?.({ unit: 'bytes', done: received + bytes, total });
    const blob = await downloadAsBlob(address, { signal, onbytes, headers: { range: `bytes=${start}-${end - 1}` } });
    if (blob?.size !== end - start) {
      throw new DataError(`The files in ${folder.href} have changed since they were listed. Start the run again.`);
    }
    received += blob.size;
    let from = 0;
    for (const { at, size } of own) files[at] = new File([blob.slice(from, (from += size))], entries[at]!.name);
  }
  return files;
}

/**
 * Returns the address of the contents of listed files. Servers that know one list ignore the query.
 */
function contentsOf(folder: URL, entries: readonly DataFileEntry[]): URL {
  const address = new URL(CONTENTS_NAME, folder);
  address.searchParams.set('of', hashOfFileList(entries));
  return address;
}

function addressOf(path: string, folder: URL): URL {
  return new URL(path.split('/').map(encodeURIComponent).join('/'), folder);
}

/** Returns the decoded file name of an address. */
function nameOf({ pathname }: URL): string {
  const name = pathname.split('/').at(-1)!;
  try {
    return decodeURIComponent(name);
  } catch {
    // A "%" without two hex digits after it is allowed in addresses and is an ordinary character.
    return name;
  }
}

function notThere(address: URL): DataError {
  return new DataError(
    `${address.href} is listed in ${INDEX_NAME} but does not exist. Upload the file, or remove its name from the list.`,
  );
}

function folderUrl(folder: string, baseUrl: string): URL {
  const url = webUrl(folder, baseUrl);
  url.search = '';
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}

function webUrl(address: string, baseUrl: string): URL {
  const base = baseUrl === '' ? undefined : baseUrl;
  if (!URL.canParse(address, base)) {
    throw new DataError(`"${address}" is not a URL. Enter the address of the folder with the data files.`);
  }
  const url = new URL(address, base);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new DataError(
      `${url.href} is not a web address. Enter the http or https URL of a folder, or choose the files on this device.`,
    );
  }
  url.hash = '';
  return url;
}

async function readIndex(folder: URL, signal?: AbortSignal): Promise<DataFileEntry[] | null> {
  const address = new URL(INDEX_NAME, folder);
  const blob = await downloadAsBlob(address, { signal });
  if (blob === null) return null;
  const entries = parseJson(await blob.text());
  if (Array.isArray(entries)) {
    const all = entries.map((entry: unknown) => (typeof entry === 'string' ? { name: entry } : entry));
    if (all.every(isEntry)) return all;
  }
  throw new DataError(
    `${address.href} is not a JSON list of file names, such as ["train-images-idx3-ubyte.gz"]. Correct the list, or remove ` +
      'it so that the usual file names are tried.',
  );
}

function isEntry(entry: unknown): entry is DataFileEntry {
  if (typeof entry !== 'object' || entry === null || !('name' in entry) || typeof entry.name !== 'string') return false;
  return ['size', 'modified'].every((field) => ['undefined', 'number'].includes(typeof Reflect.get(entry, field)));
}
