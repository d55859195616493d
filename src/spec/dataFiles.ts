/**
 * Kinds of data files, by their names and first bytes. The server lists a folder by these rules, and
 * tabs read files by the same rules.
 */

/** `idx`: arrays, as those of MNIST. */
export type DataFileKind = 'idx' | 'picture' | 'text';

/** Number of bytes that {@link pictureFormat} needs. */
export const HEAD_BYTES = 32;

/** An entry of the list of a folder's files. */
export interface DataFileEntry {
  /** Path in the folder, with slashes. */
  name: string;
  /** Size in bytes. It is missing if the file is only named, because no job reads its kind. */
  size?: number;
}

/** Kinds by name. A file with another name may still be a picture. */
const KINDS: readonly (readonly [DataFileKind, RegExp])[] = [
  ['idx', /(idx\d?(-(ubyte|byte|short|int|float|double))?|-ubyte)(\.gz)?$/i],
  ['picture', /\.(png|apng|jpe?g|jpe|jfif|pjpe?g|pjp|gif|webp|bmp|dib|avif)$/i],
  ['text', /\.txt$/i],
];
/** Files and folders that systems and programs add. */
const SYSTEM =
  /^(\..*|__MACOSX|@eaDir|\$RECYCLE\.BIN|System Volume Information|Thumbs\.db|ehthumbs\.db|desktop\.ini)$/i;

/** First bytes of picture formats. A dot stands for any byte. */
const PICTURES: readonly (readonly [format: string, start: RegExp])[] = [
  ['PNG', /^\x89PNG\r\n\x1a\n/],
  ['JPEG', /^\xff\xd8\xff/],
  ['GIF', /^GIF8[79]a/],
  ['WebP', /^RIFF....WEBP/s],
  ['BMP', /^BM....\0\0\0\0/s],
  ['AVIF', /^....ftypavi[fs]/s],
  ['HEIC', /^....ftyp(hei|hev|mif1|msf1)/s],
  ['TIFF', /^(II[*+]\0|MM\0[*+])/],
  ['JPEG XL', /^(\xff\x0a|\0\0\0\x0cJXL )/],
  ['JPEG 2000', /^(\0\0\0\x0cjP {2}|\xff\x4f\xff\x51)/],
  ['Photoshop', /^8BPS/],
  ['icon', /^\0\0\x01\0.{4}[\0\x01]/s],
];

/** Returns whether a file is hidden, or was added by a system or a program. */
export function isHidden(path: string): boolean {
  return path.split('/').some((step) => SYSTEM.test(step));
}

/** Returns the kind that a file's name states; `null` if its name states none. */
export function kindOfName(name: string): DataFileKind | null {
  return KINDS.find(([, pattern]) => pattern.test(name))?.[0] ?? null;
}

/** Returns the format of a picture; `null` if the bytes do not begin a picture. */
export function pictureFormat(head: Uint8Array): string | null {
  const start = String.fromCharCode(...head.subarray(0, HEAD_BYTES));
  return PICTURES.find(([, pattern]) => pattern.test(start))?.[0] ?? null;
}
