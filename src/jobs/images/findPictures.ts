/**
 * Finds the pictures among files. If a file's name does not say its kind, its first bytes are read.
 */
import {
  PICTURE_HEAD_BYTES,
  isDataInHiddenFolder,
  isHiddenFile,
  isNamedAsNonPicture,
  fileKindOfName,
  pictureFormat,
} from '../../spec/dataFiles.ts';
import { DataError } from '../../util/errors.ts';
import { canonicalText } from '../../formats/classNames.ts';
import { folderOfPath } from '../fileNotes.ts';
import { readFilesAtPlaces, type DataFile } from '../dataFile.ts';
import type { DecodePicture } from '../../formats/decodePicture.ts';

/** Number of files whose first bytes are read together. */
const FILES_PER_READ = 64;
/** Maximum size of a file whose first bytes are read. A larger picture cannot be used. */
const MAX_EXAMINED_BYTES = 64 * 1024 * 1024;

export interface FoundPictures {
  pictures: readonly DataFile[];
  /** Visible files that are not pictures. */
  others: readonly DataFile[];
  /** Pictures and texts in hidden folders. */
  hidden: readonly DataFile[];
  /** Pictures in formats that this browser does not decode. */
  undecoded: readonly (DataFile & { format: string })[];
}

/**
 * Finds the pictures among `given`. Hidden files are left out.
 *
 * @throws (rejects) DataError if all pictures of a folder are in formats that this browser does not
 *   decode.
 */
export async function findPictures(
  name: string,
  given: readonly DataFile[],
  decode: DecodePicture,
): Promise<FoundPictures> {
  const files = given.map((file) => ({ ...file, path: canonicalText(file.path) }));
  const visible = files.filter(({ path }) => !isHiddenFile(path));
  const formats = await formatsOf(visible);
  const unusual = visible.flatMap((file, at) => (formats[at] ? [{ ...file, format: formats[at] }] : []));
  const refused = new Set<string>();
  for (const format of new Set(unusual.map((one) => one.format))) {
    const first = unusual.find((one) => one.format === format)!;
    const file = new Uint8Array(await (await first.blob()).arrayBuffer());
    const isDecoded = await decode(first.path, file, { side: 1, channels: 1 }).then(
      () => true,
      () => false,
    );
    if (!isDecoded) refused.add(format);
  }
  const isRefused = (at: number): boolean => refused.has(formats[at] ?? '');
  const pictures = visible.filter((_, at) => formats[at] !== null && !isRefused(at));
  const undecoded = unusual.filter(({ format }) => refused.has(format));
  checkFolders(name, pictures, undecoded);
  return {
    pictures,
    undecoded,
    others: visible.filter((_, at) => formats[at] === null),
    hidden: files.filter(({ path }) => isDataInHiddenFolder(path)),
  };
}

/**
 * Returns, for each file, the format if the file is a picture, otherwise `null`. The format is
 * empty if the name states that the file is a picture.
 *
 * @throws (rejects) DataError if a file cannot be read.
 */
async function formatsOf(files: readonly DataFile[]): Promise<(string | null)[]> {
  const formats: (string | null)[] = files.map(({ path }) => (fileKindOfName(path) === 'picture' ? '' : null));
  const unclear = [...files.keys()].filter((at) => {
    const { path, size } = files[at]!;
    return formats[at] === null && !isNamedAsNonPicture(path) && size > 0 && size <= MAX_EXAMINED_BYTES;
  });
  for (let from = 0; from < unclear.length; from += FILES_PER_READ) {
    const some = unclear.slice(from, from + FILES_PER_READ);
    const starts = await readFilesAtPlaces(
      some.map((at) => files[at]!),
      PICTURE_HEAD_BYTES,
    );
    for (const [i, start] of starts.entries()) {
      if (start instanceof DataError) throw start;
      formats[some[i]!] = pictureFormat(files[some[i]!]!.path, start);
    }
  }
  return formats;
}

function checkFolders(name: string, pictures: readonly DataFile[], undecoded: FoundPictures['undecoded']): void {
  const kept = new Set(pictures.map(({ path }) => folderOfPath(path)));
  const lost = undecoded.find(({ path }) => !kept.has(folderOfPath(path)));
  if (lost === undefined) return;
  const own = undecoded.filter(({ path }) => folderOfPath(path) === folderOfPath(lost.path));
  throw new DataError(
    `${name}: this browser does not decode ${lost.format} pictures such as ${lost.path}, so the folder ` +
      `${JSON.stringify(folderOfPath(lost.path))} would lose all of its ${own.length} pictures. Convert them to JPEG or PNG, or remove the folder.`,
  );
}
