/**
 * Loads the text of the job `gpt`: the built-in text, files from a web server, or files that the
 * user picked.
 */
import type { JobSpec } from '../../spec/job.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import { fetchFiles, type LoadDataOptions } from '../fileSource.ts';
import { writeFables } from './fables.ts';
import { plainText, textOf, type Text } from './text.ts';

/** Names of the text files in a folder. */
const TEXT_NAME = /\.txt$/i;
/**
 * Maximum size of the text. Its tokens need up to twice as much memory, in addition to the memory
 * of the model.
 */
const MAX_TEXT_BYTES = 512 * 1024 * 1024;

/**
 * Opens the text of a job. Invalid UTF-8 is found later, when the text is read.
 *
 * @throws (rejects) DataError if there is no text or the text is too large.
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
      throw new UsageError(`The job ${job} does not support text of kind "${data.kind}".`);
    default:
      return data satisfies never;
  }
}

function checked(files: readonly File[], where: string, signal?: AbortSignal): Text {
  if (files.length === 0) {
    throw new DataError(
      `There is no text ${where}. Enter the address of a text file, or of a folder whose index.json lists .txt files.`,
    );
  }
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (bytes <= MAX_TEXT_BYTES) return textOf(files, signal);
  throw new DataError(
    `The text ${where} has ${bytes} bytes, but at most ${MAX_TEXT_BYTES} are supported. Choose fewer files.`,
  );
}
