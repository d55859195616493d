/** Sources of data files: a folder on a web server, or files that the user picked. */
import { DataError, messageOf } from '../util/errors.ts';
import { parseJson } from '../util/json.ts';

/** Largest file that is read whole. MNIST's largest file has 47 MB. */
const MAX_FILE_BYTES = 512 * 1024 * 1024;
export interface LoadDataOptions {
  /**
   * Kind `files`: the files that this tab's user picked. Kind `shared`: the files that this rank
   * received.
   */
  files?: readonly File[];
  /** Base of relative URLs: the page's address. */
  baseUrl: string;
  signal?: AbortSignal;
}

/**
 * Status codes that mean a missing file. Object stores answer 403 if the folder may not be listed.
 */
const MISSING = new Set([403, 404, 410]);

export interface FoundFile {
  /** The file's name in errors; for a file from a folder its full URL. */
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export interface FileSource {
  /** For errors: "in <url>" or "among the files you chose". */
  readonly where: string;
  /** Names of the existing files; `null` if they are unknown until requested. */
  readonly names: readonly string[] | null;
  /**
   * Reads the first of `candidates` that exists; `null` if none exists.
   *
   * @throws DataError if a file exists but cannot be read; the reason of the signal if it was
   *   aborted.
   */
  find(candidates: readonly string[]): Promise<FoundFile | null>;
}

/** Optional file with a JSON list of the folder's file names. */
const INDEX_NAME = 'index.json';
/**
 * Timeout of one request, from its start to the last byte: enough for MNIST's 10 MB over a slow
 * classroom network.
 */
const REQUEST_TIMEOUT_MS = 120_000;
/** Concurrent requests. */
const REQUESTS = 6;

/** A source that finds picked files by name. */
export function pickedSource(files: readonly File[]): FileSource {
  return {
    where: 'among the files you chose',
    names: files.map((file) => file.name),
    async find(candidates) {
      for (const candidate of candidates) {
        const file = files.find(({ name }) => name === candidate);
        if (file === undefined) continue;
        if (file.size > MAX_FILE_BYTES)
          throw new DataError(
            `${file.name} has ${file.size} bytes, more than ${MAX_FILE_BYTES}: choose a smaller file.`,
          );
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
 * A source for a folder on a web server. If the folder has an `index.json`, it lists the existing
 * files; otherwise names are tried. An HTML page in place of a file counts as missing, because many
 * servers answer unknown addresses with their start page.
 *
 * @param folder URL with or without a trailing slash, absolute or relative to `baseUrl`.
 * @throws DataError if the URL is invalid or not http(s), or the server cannot be reached.
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
 * Fetches all files of a folder with an `index.json`, or the one file at `address`. Names include
 * the path within the folder: `cats/1.png`.
 *
 * @param address of a folder if it ends with a slash; absolute or relative to `baseUrl`.
 * @param isWanted selects the files of a folder to fetch, by name.
 * @throws DataError as {@link folderSource}, and if the folder has no `index.json` or a listed file
 *   is missing.
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
      `${url.href} has no ${INDEX_NAME} (a JSON list of its file names): add one, or enter the address of a single file.`,
    );
  }
  const files: File[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < names.length; at = next++) {
      const one = isFolder ? new URL(names[at]!.split('/').map(encodeURIComponent).join('/'), folder) : url;
      const blob = await download(one, signal);
      if (blob === null)
        throw isFolder ? notThere(one) : new DataError(`${one.href} does not exist. Check the address.`);
      files[at] = new File([blob], names[at]!);
    }
  };
  // No further file is requested after a failure.
  await Promise.all(Array.from({ length: REQUESTS }, work)).finally(() => (next = Infinity));
  return files;
}

/** The decoded file name of an address. */
function nameOf({ pathname }: URL): string {
  const name = pathname.split('/').at(-1)!;
  try {
    return decodeURIComponent(name);
  } catch {
    // A "%" that starts no escape sequence is allowed in addresses and stands for itself.
    return name;
  }
}

function notThere(address: URL): DataError {
  return new DataError(
    `${address.href} is listed in ${INDEX_NAME} but does not exist: upload the file, or remove its name from the list.`,
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
    throw new DataError(`"${address}" is not a URL: enter the address of the folder with the data files.`);
  }
  const url = new URL(address, baseUrl);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new DataError(
      `${url.href} is not a web address: enter the http or https URL of a folder, or choose the files.`,
    );
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
      'it to have the usual names tried.',
  );
}

/** Downloads a file as a blob; `null` if the server reports that it does not exist. */
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
        `${url.href} was not received within ${REQUEST_TIMEOUT_MS / 1000} s: use a faster server, or choose the files.`,
        {},
        { cause },
      );
    }
    throw new DataError(
      `${url.href} could not be fetched (${messageOf(cause)}). Check that the server is running and that, if it is not ` +
        "this page's server, it allows requests from this page (CORS: Access-Control-Allow-Origin).",
      {},
      { cause },
    );
  }
}
