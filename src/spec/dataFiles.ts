/**
 * Kinds of data files, by their names and first bytes. The server lists a folder by these rules,
 * and tabs read files by the same rules.
 */

import { hashOfArrays } from '../util/hash.ts';
import { hexOf } from '../util/hex.ts';

/** `idx`: arrays, as those of MNIST. */
export type DataFileKind = 'idx' | 'picture' | 'text';

/** Number of bytes that {@link pictureFormat} needs. */
export const PICTURE_HEAD_BYTES = 32;

/** An entry of the list of a folder's files. */
export interface DataFileEntry {
  /** Path in the folder, with slashes. */
  name: string;
  /** Size in bytes. It is missing if no job reads this kind of file. */
  size?: number;
  /** Time of the latest change, in milliseconds since 1970, if the server states it. */
  modified?: number;
}

/**
 * Returns a hash of a list of files. It identifies the list to which positions in contents refer.
 */
export function hashOfFileList(entries: readonly DataFileEntry[]): string {
  const facts = entries.map(({ name, size, modified }) => [name, size, modified]);
  return hashOfArrays([new TextEncoder().encode(JSON.stringify(facts))]);
}

/** Kinds by name. A file with a different name may still be a picture. */
const KINDS: readonly (readonly [DataFileKind, RegExp])[] = [
  ['idx', /(idx\d?(-(ubyte|byte|short|int|float|double))?|-ubyte)(\.gz)?$/i],
  ['picture', /\.(png|apng|jpe?g|jpe|jfif|pjpe?g|pjp|gif|webp|bmp|dib|avif)$/i],
  ['text', /\.txt$/i],
];
/** Names of files that are not pictures, whatever they contain. */
const OTHERS =
  /\.(txt|csv|tsv|jsonl?|md|html?|ya?ml|py|ipynb|np[yz]|mat|h5|pkl|pdf|xlsx?|parquet|mp[34]|mov|avi|zip|tar|t?gz|7z|rar)$/i;
/** Files and folders that systems and programs add. */
const SYSTEM =
  /^(\._.*|__MACOSX|@eaDir|\$RECYCLE\.BIN|System Volume Information|Thumbs\.db|ehthumbs\.db|desktop\.ini)$/i;

/** First bytes of picture formats, in hexadecimal. A dot stands for any digit. */
const PICTURES: readonly (readonly [format: string, start: RegExp])[] = [
  ['PNG', /^89504e470d0a1a0a/],
  ['JPEG', /^ffd8ff/],
  ['GIF', /^474946383[79]61/],
  ['WebP', /^52494646.{8}57454250/],
  ['BMP', /^424d.{8}00000000/],
  // The next two rows contain brands: avif and avis for AVIF; hei*, hev*, mif1 and msf1 for HEIC.
  ['AVIF', /^.{8}66747970617669(66|73)/],
  ['HEIC', /^.{8}66747970(6865(69|76)|6d696631|6d736631)/],
  ['TIFF', /^(4949(2a|2b)00|4d4d00(2a|2b))/],
  ['JPEG XL', /^(ff0a|0000000c4a584c20)/],
  ['JPEG 2000', /^(0000000c6a502020|ff4fff51)/],
  ['Photoshop', /^38425053/],
  ['icon', /^00000100.{8}0[01]/],
  ['SVG', /^(efbbbf)?(20|09|0a|0d)*3c737667/],
];
/** Names of SVG pictures, whose first bytes do not always identify the format. */
const SVG = /\.svgz?$/i;

/** Returns whether a file is hidden, or was added by a system or a program. */
export function isHiddenFile(path: string): boolean {
  return path.split('/').some((step) => step.startsWith('.') || SYSTEM.test(step));
}

/**
 * Returns whether a file is a user's picture or text that is left out because a folder is hidden.
 */
export function isDataInHiddenFolder(path: string): boolean {
  const steps = path.split('/');
  const isHiddenFolder = steps.slice(0, -1).some((step) => step.startsWith('.'));
  // IDX files are never left out, because jobs find them by name in any folder.
  const isData = ['picture', 'text'].includes(fileKindOfName(path) ?? '');
  return isHiddenFolder && isData && !steps.some((step) => SYSTEM.test(step));
}

/** Returns the kind that a file's name states; `null` if its name states none. */
export function fileKindOfName(name: string): DataFileKind | null {
  return KINDS.find(([, pattern]) => pattern.test(name))?.[0] ?? null;
}

/** Returns whether a file's name states that it is not a picture. */
export function isNamedAsNonPicture(path: string): boolean {
  return OTHERS.test(path);
}

/** Returns the format of a picture; `null` if `head` is not the start of a picture. */
export function pictureFormat(name: string, head: Uint8Array): string | null {
  const start = hexOf(head.subarray(0, PICTURE_HEAD_BYTES), '');
  return PICTURES.find(([, pattern]) => pattern.test(start))?.[0] ?? (SVG.test(name) ? 'SVG' : null);
}
