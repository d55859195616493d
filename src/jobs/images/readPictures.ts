/** Reads and decodes pictures, in any thread. */
import { decodePicture, type DecodePicture, type PictureSize } from '../../formats/decodePicture.ts';
import { crc32 } from '../../util/crc32.ts';
import { DataError } from '../../util/errors.ts';
import { mapConcurrently } from '../../util/mapConcurrently.ts';
import { readFilesAtPlaces, type DataFile } from '../dataFile.ts';

export type PictureReadResult =
  | {
      readonly pixels: Uint8Array<ArrayBuffer>;
      /** CRC-32 of the file. */
      readonly crc: number;
    }
  /** The file was read, but it is not a picture that can be decoded. */
  | { readonly undecoded: string; readonly crc: number }
  /** The file cannot be read, or is damaged. */
  | { readonly unread: string };

/**
 * Reads pictures. The result has an item for each of them.
 *
 * @throws (rejects) DataError if a web server does not send them.
 */
export type ReadPictures = (request: PictureRequest) => Promise<PictureReadResult[]>;

export interface PictureRequest {
  readonly files: readonly (Pick<DataFile, 'path' | 'place'> & {
    at: number;
  })[];
  readonly size: PictureSize;
  /** Name of the file in which decoded pictures are stored; `null` if they are not stored. */
  readonly store: string | null;
}

/** Number of pictures that a thread decodes concurrently. */
const DECODERS = 4;

export function readPicturesWith(decode: DecodePicture): ReadPictures {
  return async ({ files, size }) => {
    const contents = await readFilesAtPlaces(files);
    return mapConcurrently(files, DECODERS, ({ path }, i) => decoded(path, contents[i]!, size, decode));
  };
}

export const readPictures = readPicturesWith(decodePicture);

async function decoded(
  path: string,
  content: Uint8Array<ArrayBuffer> | DataError,
  size: PictureSize,
  decode: DecodePicture,
): Promise<PictureReadResult> {
  if (content instanceof DataError) return { unread: content.message };
  const crc = crc32(content);
  try {
    return { pixels: await decode(path, content, size), crc };
  } catch (error) {
    if (error instanceof DataError) return { undecoded: error.message, crc };
    throw error;
  }
}
