/**
 * Loads the text of the job `gpt`: the built-in text, files from a web server, or files that the
 * user picked.
 */
import type { JobSpec } from '../../spec/job.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import { isHiddenFile, fileKindOfName } from '../../spec/dataFiles.ts';
import { fetchFiles, type LoadDataOptions } from '../fileSource.ts';
import { writeFables } from './fables.ts';
import { readByteRange } from '../../formats/partialFile.ts';
import { detectTextEncoding, ENCODING_EXAMINED_BYTES } from '../../formats/textEncoding.ts';
import { textInMemory, textOfFiles, type TrainingText } from './text.ts';

/**
 * Maximum size of the text. Its tokens need at most as much memory again if it has at most 256
 * different characters, otherwise up to twice as much. In a text of byte pairs, each word needs
 * four bytes until the pairs are learned.
 */
const MAX_TEXT_BYTES = 512 * 1024 * 1024;

/**
 * Opens the text of a job. Invalid UTF-8 is found later, when the text is read.
 *
 * @throws (rejects) DataError if there is no text or the text is too large.
 */
export async function openTrainingText(
  { job, data, encoding }: Pick<JobSpec, 'job' | 'data'> & Partial<Pick<JobSpec, 'encoding'>>,
  options: LoadDataOptions,
): Promise<TrainingText> {
  switch (data.kind) {
    case 'built-in':
      return textInMemory(writeFables());
    case 'url': {
      const fetched = await fetchFiles(data.url, options, (name) => fileKindOfName(name) === 'text');
      return checked(fetched, `in ${new URL(data.url, options.baseUrl).href}`, encoding, options.signal);
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

/**
 * Checks the files of a text. If there are several files, hidden files are left out, and so are
 * files that are not text and whose names do not end in .txt.
 */
async function checked(
  given: readonly File[],
  where: string,
  encoding?: JobSpec['encoding'],
  signal?: AbortSignal,
): Promise<TrainingText> {
  const visible = given.filter(({ name }) => !isHiddenFile(name));
  const isText = await Promise.all(
    visible.map(
      async (file) =>
        fileKindOfName(file.name) === 'text' ||
        (file.size > 0 &&
          detectTextEncoding(await readByteRange(file.name, file, 0, ENCODING_EXAMINED_BYTES)) !== null),
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
  if (bytes <= MAX_TEXT_BYTES) return textOfFiles(files, { signal, encoding, ignored: others.map(({ name }) => name) });
  throw new DataError(
    `The text ${where} has ${bytes} bytes, but at most ${MAX_TEXT_BYTES} are supported. Choose fewer files.`,
  );
}
