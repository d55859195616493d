/**
 * Loads the text of the job `gpt`: the built-in text, files from a web server, or files that the
 * user picked.
 */
import type { JobSpec } from '../../spec/job.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import { isHidden, kindOfName } from '../../spec/dataFiles.ts';
import { listFiles, type LoadDataOptions } from '../fileSource.ts';
import { bytesAt, type BytesPlace } from '../storedFile.ts';
import { readRanges } from '../webRanges.ts';
import { writeFables } from './fables.ts';
import { bytesOf, PartialFile, readBytes, type Bytes } from '../../formats/partialFile.ts';
import { encodingOf, EXAMINED_BYTES } from '../../formats/textEncoding.ts';
import { plainText, textOf, type Text, type TextFile } from './text.ts';

/**
 * Maximum size of the text. Its tokens need at most as much memory again if it has at most 256
 * different characters, otherwise up to twice as much. In a text of byte pairs, each word needs
 * four bytes until the pairs are learned.
 */
const MAX_TEXT_BYTES = 512 * 1024 * 1024;

/**
 * Opens the text of a job. Invalid UTF-8 is found later, when the text is read. If a web server
 * sends parts of files, its text is received only then.
 *
 * @throws (rejects) DataError if there is no text or the text is too large.
 */
export async function loadText(
  { job, data, encoding }: Pick<JobSpec, 'job' | 'data'> & Partial<Pick<JobSpec, 'encoding'>>,
  options: LoadDataOptions,
): Promise<Text> {
  switch (data.kind) {
    case 'built-in':
      return plainText(writeFables());
    case 'url': {
      const listed = await listFiles(data.url, options, (name) => kindOfName(name) === 'text');
      const files = inWindows(listed);
      return checked(files, `in ${new URL(data.url, options.baseUrl).href}`, encoding, options.signal);
    }
    case 'files':
    case 'shared':
      return checked(options.files ?? [], 'among the files you chose', encoding, options.signal);
    case 'synthetic':
    case 'none':
    case 'federated':
      throw new UsageError(`The job ${job} does not support text of kind "${data.kind}".`);
    default:
      return data satisfies never;
  }
}

/** Bytes of a web server's file that are requested together, and how many of them stay in memory. */
const WINDOWS = { blockBytes: 1024 * 1024, keptBytes: 8 * 1024 * 1024 };

/**
 * Returns files whose bytes are requested when they are read. A request receives the bytes of
 * several small files if a web server's file contains them.
 */
function inWindows(files: readonly { path: string; place: BytesPlace }[]): TextFile[] {
  const ends = new Map<string, number>();
  for (const { place } of files) {
    if (place.in === 'web') ends.set(place.url, Math.max(place.range.end, ends.get(place.url) ?? 0));
  }
  const windows = new Map<string, PartialFile>();
  for (const [url, end] of ends) {
    windows.set(url, new PartialFile(url, bytesAt({ in: 'web', url, range: { start: 0, end } }), WINDOWS));
  }
  return files.map(({ path: name, place }) => {
    if (place.in !== 'web') return withName(name, bytesAt(place));
    const { url, range } = place;
    const read = async (from: number, to: number): Promise<ArrayBuffer> => {
      const own = { start: range.start + from, end: range.start + to, path: name };
      // If a window cannot be received, perhaps only another file in it has changed.
      const bytes = await windows
        .get(url)!
        .read(own.start, own.end)
        .catch(async () => (await readRanges(url, [own]))[0]!);
      return bytes.slice().buffer;
    };
    return withName(name, bytesOf(range.end - range.start, read));
  });
}

function withName(name: string, bytes: Bytes): TextFile {
  return {
    name,
    size: bytes.size,
    slice: (start, end) => bytes.slice(start, end),
    arrayBuffer: () => bytes.arrayBuffer(),
  };
}

/**
 * Checks the files of a text. If there are several files, hidden files are left out, and so are
 * files that are not text and whose names do not end in .txt.
 */
async function checked(
  given: readonly TextFile[],
  where: string,
  encoding?: JobSpec['encoding'],
  signal?: AbortSignal,
): Promise<Text> {
  const visible = given.filter(({ name }) => !isHidden(name));
  const isText = await Promise.all(
    visible.map(
      async (file) =>
        kindOfName(file.name) === 'text' ||
        (file.size > 0 && encodingOf(await readBytes(file.name, file, 0, EXAMINED_BYTES)) !== null),
    ),
  );
  const files = given.length === 1 ? given : visible.filter((_, i) => isText[i]);
  const others = given.filter((file) => !files.includes(file));
  if (files.length === 0) {
    const [other] = others;
    const found = other === undefined ? '' : `: ${other.name} is not plain text`;
    throw new DataError(
      `There is no text ${where}${found}. Choose .txt files, or enter the address of a text file or of a folder whose index.json lists .txt files.`,
    );
  }
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (bytes <= MAX_TEXT_BYTES) return textOf(files, { signal, encoding, ignored: others.map(({ name }) => name) });
  throw new DataError(
    `The text ${where} has ${bytes} bytes, but at most ${MAX_TEXT_BYTES} are supported. Choose fewer files.`,
  );
}
