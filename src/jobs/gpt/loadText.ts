/** Where the job `gpt` has its text from: the one that is built in, files on a web server, or files that the user picked. */
import type { JobSpec } from '../../protocol/job.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import type { LoadDataOptions } from '../index.ts';
import { folderSource, pickedSource, type FileSource, type FoundFile } from '../source.ts';
import { writeFables } from './fables.ts';

/** Of a folder's files, those that are text. */
const TEXT_NAME = /\.txt$/i;

/** @throws (rejects) DataError where there is no text, or it is not UTF-8: with the file's name, and the byte. */
export async function loadText(
  { job, data }: Pick<JobSpec, 'job' | 'data'>,
  { files = [], baseUrl, signal }: LoadDataOptions,
): Promise<string> {
  switch (data.kind) {
    case 'built-in':
      return writeFables();
    case 'url': {
      const { folder, name } = splitUrl(data.url);
      const source = await folderSource(folder, baseUrl, signal);
      return readAll(source, name === '' ? (source.names?.filter((one) => TEXT_NAME.test(one)) ?? []) : [name]);
    }
    case 'files':
    case 'spread':
      return readAll(
        pickedSource(files),
        files.map((file) => file.name),
      );
    case 'drawn':
    case 'none':
    case 'federated':
      throw new UsageError(`The job ${job} has no text of kind "${data.kind}".`);
    default:
      return data satisfies never;
  }
}

/** A folder ends with a slash; what does not is a file. */
function splitUrl(url: string): { folder: string; name: string } {
  const cut = url.lastIndexOf('/') + 1;
  return { folder: cut === 0 ? './' : url.slice(0, cut), name: decodeURIComponent(url.slice(cut)) };
}

/** All files, in the order of their names. */
async function readAll(source: FileSource, names: readonly string[]): Promise<string> {
  const texts: string[] = [];
  for (const name of [...names].sort()) {
    const file = await source.find([name]);
    if (file === null) throw new DataError(`There is no ${name} ${source.where}: check the address.`);
    texts.push(decode(file));
  }
  if (texts.length > 0) return texts.join('\n');
  throw new DataError(
    `No text ${source.where}: give the address of a text file, or of a folder whose index.json names files ending in .txt.`,
  );
}

function decode({ name, bytes }: FoundFile): string {
  if (isUtf8(bytes, bytes.length)) return new TextDecoder().decode(bytes);
  // The first byte that is wrong, by halving.
  let [good, bad] = [0, bytes.length];
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (isUtf8(bytes, middle)) good = middle;
    else bad = middle;
  }
  throw new DataError(
    `${name} is not a text in UTF-8: byte ${good} (${bytes[good]}) is part of no character. Save it as UTF-8, or choose ` +
      'another file.',
  );
}

/** Whether the first `length` bytes may begin a text. */
function isUtf8(bytes: Uint8Array, length: number): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, length), { stream: length < bytes.length });
    return true;
  } catch {
    return false;
  }
}
