/** Where data files come from: a folder on a web server, or files that the user picked. */
import { DataError, messageOf } from '../util/errors.ts';
import { parseJson } from '../util/json.ts';

/** A larger file is not a data set for a browser tab. MNIST's largest has 47 MB. */
const MAX_FILE_BYTES = 512 * 1024 * 1024;
export interface LoadDataOptions {
  /**
   * For data of kind "files": what this tab's user picked; of kind "spread": what this rank was
   * handed.
   */
  files?: readonly File[];
  /** What a relative folder URL is relative to: the page's address. */
  baseUrl: string;
  signal?: AbortSignal;
}

/**
 * Answers for a file that is not there. 403 is what object stores give to those who may not list
 * the folder.
 */
const MISSING = new Set([403, 404, 410]);

export interface FoundFile {
  /** The file's name, for errors; from a folder its whole URL. */
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export interface FileSource {
  /** For errors: "in <url>" or "among the files you chose". */
  readonly where: string;
  /** The names that exist, or null if only trying can tell. */
  readonly names: readonly string[] | null;
  /**
   * The first of `candidates` that exists, read whole, or null.
   *
   * @throws DataError if one exists and cannot be read; whatever the signal was aborted with.
   */
  find(candidates: readonly string[]): Promise<FoundFile | null>;
}

/** A folder may name its files in this one: a JSON list of strings. */
const INDEX_NAME = 'index.json';
/**
 * For one request, from start to last byte: MNIST's 10 MB over a slow classroom link, and then
 * some.
 */
const REQUEST_TIMEOUT_MS = 120_000;
/** Requests under way at once. */
const REQUESTS = 6;

/** Files by their names. */
export function pickedSource(files: readonly File[]): FileSource {
  return {
    where: 'among the files you chose',
    names: files.map((file) => file.name),
    async find(candidates) {
      for (const candidate of candidates) {
        const file = files.find(({ name }) => name === candidate);
        if (file === undefined) continue;
        if (file.size > MAX_FILE_BYTES)
          throw new DataError(`${file.name} has ${file.size} bytes: choose smaller files.`);
        try {
          return { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) };
        } catch (cause) {
          const reason = messageOf(cause);
          throw new DataError(`${file.name} could not be read (${reason}): choose it again.`, {}, { cause });
        }
      }
      return null;
    },
  };
}

/**
 * A folder's files over http or https. `index.json`, if it is there, says what exists; otherwise
 * names are tried. A web page in place of a file counts as missing: many servers answer every
 * address with their start page.
 *
 * @param folder URL with or without a slash at its end, absolute or relative to `baseUrl`
 * @throws DataError if the URL is not valid or not of the web, or if the server cannot be reached.
 */
export async function folderSource(folder: string, baseUrl: string, signal?: AbortSignal): Promise<FileSource> {
  const url = folderUrl(folder, baseUrl);
  const names = await readIndex(url, signal);
  return {
    where: `in ${url.href}`,
    names,
    async find(candidates) {
      for (const candidate of candidates) {
        if (names !== null && !names.includes(candidate)) continue;
        const address = new URL(candidate, url);
        const blob = await download(address, signal);
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
 * All files of a folder that has an `index.json`, or the one file that `address` names: with names
 * as in the folder, `cats/1.png`.
 *
 * @param address ends with a slash if it is a folder's; absolute or relative to `baseUrl`
 * @param isWanted of a folder's files, by their names: others are not fetched
 * @throws DataError as {@link folderSource}, and where the folder does not say what is in it, or a
 *   file is not there.
 */
export async function fetchFiles(
  address: string,
  baseUrl: string,
  signal?: AbortSignal,
  isWanted: (name: string) => boolean = () => true,
): Promise<File[]> {
  const url = webUrl(address, baseUrl);
  const isFolder = url.pathname.endsWith('/');
  const folder = new URL('.', url);
  const listed = isFolder ? await readIndex(folder, signal) : null;
  const names = isFolder ? listed?.filter(isWanted) : [nameOf(url)];
  if (names === undefined) {
    throw new DataError(
      `${url.href} has no ${INDEX_NAME}, a JSON list of its files' names: give a file's address, or put one there.`,
    );
  }
  const files: File[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < names.length; at = next++) {
      const one = isFolder ? new URL(names[at]!.split('/').map(encodeURIComponent).join('/'), folder) : url;
      const blob = await download(one, signal);
      if (blob === null) throw isFolder ? notThere(one) : new DataError(`${one.href} is not there. Check the address.`);
      files[at] = new File([blob], names[at]!);
    }
  };
  // After one that failed, no more are fetched.
  await Promise.all(Array.from({ length: REQUESTS }, work)).finally(() => (next = Infinity));
  return files;
}

/** A file's name by its address, as people read it. */
function nameOf({ pathname }: URL): string {
  const name = pathname.split('/').at(-1)!;
  try {
    return decodeURIComponent(name);
  } catch {
    // A lone "%" is allowed in addresses, and stands for itself.
    return name;
  }
}

function notThere(address: URL): DataError {
  return new DataError(
    `${address.href} is listed in ${INDEX_NAME} but not there: put the file there, or take its name out.`,
  );
}

function folderUrl(folder: string, baseUrl: string): URL {
  const url = webUrl(folder, baseUrl);
  url.search = '';
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}

function webUrl(address: string, baseUrl: string): URL {
  if (!URL.canParse(address, baseUrl)) {
    throw new DataError(`"${address}" is not a URL: give the address of the folder with the data files.`);
  }
  const url = new URL(address, baseUrl);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new DataError(`${url.href} is not a web address: give a folder's http or https URL, or choose the files.`);
  }
  url.hash = '';
  return url;
}

async function readIndex(folder: URL, signal?: AbortSignal): Promise<string[] | null> {
  const address = new URL(INDEX_NAME, folder);
  const blob = await download(address, signal);
  if (blob === null) return null;
  const names = parseJson(await blob.text());
  if (Array.isArray(names) && names.every((name) => typeof name === 'string')) return names;
  throw new DataError(
    `${address.href} is not a JSON list of file names, such as ["train-images-idx3-ubyte.gz"]: correct it, or remove ` +
      'it and the usual names are tried.',
  );
}

/**
 * A file's bytes, where the browser likes to have them, or null if the server says that it does not
 * have it.
 */
async function download(url: URL, signal?: AbortSignal): Promise<Blob | null> {
  const deadline = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  try {
    const response = await fetch(url, {
      signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
    });
    const isPage = response.headers.get('content-type')?.startsWith('text/html') === true;
    if (MISSING.has(response.status) || (response.ok && isPage)) {
      await response.body?.cancel();
      return null;
    }
    if (!response.ok) {
      await response.body?.cancel();
      throw new DataError(
        `${url.href}: the server answered ${response.status}. Check the address and its permissions.`,
      );
    }
    return await response.blob();
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    signal?.throwIfAborted();
    if (deadline.aborted) {
      throw new DataError(
        `${url.href} was not there after ${REQUEST_TIMEOUT_MS / 1000} s: try a nearer server, or choose the files.`,
        {},
        { cause },
      );
    }
    throw new DataError(
      `${url.href} could not be fetched (${messageOf(cause)}). Check that the server runs and, if it is another one than ` +
        "this page's, that it allows requests from here (CORS: Access-Control-Allow-Origin).",
      {},
      { cause },
    );
  }
}
