/** Sources of data files: a folder on a web server, or files that the user picked. */
import type { Preview } from '../spec/preview.ts';
import { DataError, messageOf } from '../util/errors.ts';
import { parseJson } from '../util/json.ts';

/** Maximum size of a file that is read as a whole. MNIST's largest file has 47 MB. */
const MAX_FILE_BYTES = 512 * 1024 * 1024;
export interface LoadDataOptions {
  /**
   * For data of kind `files`: the files that the user of this tab picked. For data of kind
   * `shared`: the files that this rank received from another tab.
   */
  files?: readonly File[];
  /** The page's address; relative URLs are resolved against it. Empty: all URLs are absolute. */
  baseUrl: string;
  signal?: AbortSignal;
  /** Receives the preview of the data, before samples are read. */
  onpreview?: (preview: Preview) => void;
  /**
   * Called as loading makes progress, with an amount such as the bytes received or pictures
   * decoded. A tab that makes none for long counts as one that hangs.
   */
  advance?: (amount: number) => void;
}

/**
 * HTTP status codes that mean that a file does not exist. Object stores answer 403 for a missing
 * file if clients may not list the folder.
 */
const MISSING = new Set([403, 404, 410]);

export interface FoundFile {
  /** Name of the file in errors. For a file on a web server, this is its full URL. */
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export interface FileSource {
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
 * Maximum duration of one request, up to its last byte. It is enough for the 10 MB of MNIST over a
 * slow classroom network.
 */
const REQUEST_TIMEOUT_MS = 120_000;
/** Maximum number of concurrent requests. */
const REQUESTS = 6;

/** Returns a source that finds files by name among those that the user picked. */
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
            `${file.name} has ${file.size} bytes, more than the maximum of ${MAX_FILE_BYTES}. Choose a smaller file.`,
          );
        try {
          return { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) };
        } catch (cause) {
          const reason = messageOf(cause);
          throw new DataError(`${file.name} could not be read (${reason}). Choose it again.`, {}, { cause });
        }
      }
      return null;
    },
  };
}

/**
 * Returns a source for a folder on a web server. If the folder has an `index.json`, this list tells
 * which files exist. Otherwise, files are requested by their possible names, one after the other.
 * If the server answers with an HTML page, the file is treated as missing, because many servers
 * answer unknown addresses with their start page.
 *
 * @param folder URL with or without a trailing slash, absolute or relative to `baseUrl`.
 * @throws (rejects) DataError if the URL is invalid or not http(s), or the server cannot be
 *   reached.
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
 * Fetches all files of a folder that has an `index.json`, or a single file. The names of the
 * fetched files include the path within the folder, such as `cats/1.png`.
 *
 * @param address the URL of a folder if it ends with a slash, otherwise of a file. The URL is
 *   absolute or relative to `baseUrl`.
 * @param isWanted receives the name of each file in the folder, and returns whether to fetch it.
 * @throws (rejects) DataError as {@link folderSource}, and if the folder has no `index.json` or a
 *   listed file is missing.
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
      `${url.href} has no ${INDEX_NAME} (a JSON list of its file names). Add this file, or enter the address of a single file.`,
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
  // After a failure, no further file is requested.
  await Promise.all(Array.from({ length: REQUESTS }, work)).finally(() => (next = Infinity));
  return files;
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

async function readIndex(folder: URL, signal?: AbortSignal): Promise<string[] | null> {
  const address = new URL(INDEX_NAME, folder);
  const blob = await download(address, signal);
  if (blob === null) return null;
  const names = parseJson(await blob.text());
  if (Array.isArray(names) && names.every((name) => typeof name === 'string')) return names;
  throw new DataError(
    `${address.href} is not a JSON list of file names, such as ["train-images-idx3-ubyte.gz"]. Correct the list, or remove ` +
      'it so that the usual file names are tried.',
  );
}

/**
 * Downloads a file as a blob. Returns `null` if the server reports that the file does not exist.
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
        `${url.href}: the server answered ${response.status}. Check the address and its permissions, or try again later.`,
      );
    }
    return await response.blob();
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    signal?.throwIfAborted();
    if (deadline.aborted) {
      throw new DataError(
        `${url.href} was not received within ${REQUEST_TIMEOUT_MS / 1000} s. Use a faster server, or choose the files on this device.`,
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
