/**
 * Where the job `gpt` has its text from: the one that is built in, files on a web server, or files
 * that the user picked.
 */
import type { JobSpec } from '../../spec/job.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import { fetchFiles, type LoadDataOptions } from '../fileSource.ts';
import { writeFables } from './fables.ts';
import { plainText, textOf, type Text } from './text.ts';

/** Of a folder's files, those that are text. */
const TEXT_NAME = /\.txt$/i;
/** Their tokens take twice as many, which a tab has beside the model. */
const MAX_TEXT_BYTES = 512 * 1024 * 1024;

/**
 * @throws (rejects) DataError where there is no text, or too much; whether it is UTF-8 is seen as
 *   it is read.
 */
export async function loadText(
  { job, data }: Pick<JobSpec, 'job' | 'data'>,
  { files = [], baseUrl, signal }: LoadDataOptions,
): Promise<Text> {
  switch (data.kind) {
    case 'built-in':
      return plainText(writeFables());
    case 'url': {
      const fetched = await fetchFiles(data.url, baseUrl, signal, (name) => TEXT_NAME.test(name));
      return checked(fetched, `in ${new URL(data.url, baseUrl).href}`, signal);
    }
    case 'files':
    case 'shared':
      return checked(files, 'among the files you chose', signal);
    case 'synthetic':
    case 'none':
    case 'federated':
      throw new UsageError(`The job ${job} has no text of kind "${data.kind}".`);
    default:
      return data satisfies never;
  }
}

function checked(files: readonly File[], where: string, signal?: AbortSignal): Text {
  if (files.length === 0) {
    throw new DataError(
      `No text ${where}: give the address of a text file, or of a folder whose index.json names files ending in .txt.`,
    );
  }
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (bytes <= MAX_TEXT_BYTES) return textOf(files, signal);
  throw new DataError(
    `The text ${where} has ${bytes} bytes, and a tab learns from ${MAX_TEXT_BYTES} at most: choose less.`,
  );
}
