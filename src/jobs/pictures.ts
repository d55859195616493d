/** Pictures in folders as samples: a folder's name is the class of what is in it. */
import type { PreviewClass, PreviewPicture } from '../protocol/preview.ts';
import { DataError } from '../util/errors.ts';
import { hashState } from '../util/hash.ts';
import { checkRead, type Dataset, type Labels } from './dataset.ts';
import { isPicture, type DecodePicture, type PictureSize } from './formats/picture.ts';
import { splitOf, type Split } from './split.ts';

/** Decoded pictures that stay in memory: 80 000 of 32 x 32 in colour. Others are decoded whenever they are asked for. */
const KEPT_BYTES = 256 * 1024 * 1024;
/** Pictures decoded side by side. */
const DECODERS = 8;

/** A file in a folder, or in a zip file. */
export interface PathFile {
  /** With its folders: `train/cats/1.png`. */
  path: string;
  /** Bytes. */
  size: number;
  blob: () => Promise<Blob>;
}

interface Picture extends PathFile {
  label: number;
}

export interface ClassFolders {
  classes: readonly string[];
  pictures: readonly Picture[];
  /** Pictures by number. */
  split: Split;
  /** Files that are no pictures. */
  ignored: number;
}

/**
 * Which picture is of which class. Where folders called `train` and `test` (or `val`) are above the classes, they say what is held out.
 *
 * @param name of what the files are in, for errors
 * @throws DataError, naming a file, where there are no pictures, or one is of no class.
 */
export function classFolders(name: string, files: readonly PathFile[], seed: number): ClassFolders {
  const visible = files.filter(
    ({ path }) => !path.split('/').some((part) => part.startsWith('.') || part === '__MACOSX'),
  );
  const found = visible.filter(({ path }) => isPicture(path)).map((file) => ({ ...file, ...placeOf(name, file.path) }));
  if (found.length === 0) {
    throw new DataError(
      `${name} holds no pictures${visible.length === 0 ? '' : `: ${visible[0]!.path} is none`}. Put png, jpg, gif, webp, bmp or avif ` +
        'files into a folder for each class.',
    );
  }
  // By what is the same in a folder and in a zip file of it, on every machine.
  found.sort((a, b) => compare(a.of, b.of) || compare(a.file, b.file) || compare(a.path, b.path));
  const classes = [...new Set(found.map((one) => one.of))];
  const pictures = found.map(({ path, size, blob, of }) => ({ path, size, blob, label: classes.indexOf(of) }));
  const parts = found.map(({ part }) => part);
  const isSaid = parts.includes('train') && parts.includes('test');
  const numbersOf = (part: 'train' | 'test'): Uint32Array =>
    Uint32Array.from(parts.flatMap((one, i) => (one === part || (part === 'train' && one === null) ? [i] : [])));
  const split = isSaid ? { train: numbersOf('train'), test: numbersOf('test') } : splitOf(found.length, seed);
  return { classes, pictures, split, ignored: visible.length - found.length };
}

export function countsOf({ classes, pictures }: ClassFolders): PreviewClass[] {
  const counts = classes.map((name) => ({ name, count: 0 }));
  for (const { label } of pictures) counts[label]!.count++;
  return counts;
}

function placeOf(name: string, path: string): { of: string; file: string; part: 'train' | 'test' | null } {
  const folders = path.split('/');
  const file = folders.pop()!;
  const of = folders.pop();
  if (of === undefined) {
    throw new DataError(
      `${name}: ${path} is in no folder, and a folder's name is the class of its pictures. Put each picture into a folder.`,
    );
  }
  const isTest = folders.some((folder) => /^(test(ing)?|val(id|idation)?)$/i.test(folder));
  const isTrain = folders.some((folder) => /^train(ing)?$/i.test(folder));
  return { of, file, part: isTest ? 'test' : isTrain ? 'train' : null };
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Decodes pictures and keeps them, as far as there is room. */
export class DecodedPictures {
  readonly size: PictureSize;
  readonly folders: ClassFolders;
  readonly #decode: DecodePicture;
  readonly #kept: (Uint8Array | undefined)[] = [];
  /** Pictures that there is room for: the first ones. */
  readonly #room: number;

  constructor(folders: ClassFolders, size: PictureSize, decode: DecodePicture) {
    this.folders = folders;
    this.size = size;
    this.#decode = decode;
    this.#room = Math.min(folders.pictures.length, Math.floor(KEPT_BYTES / (size.side * size.side * size.channels)));
  }

  /**
   * Decodes all that there is room for, so that what is damaged is told before a run.
   *
   * @returns digest of the files' bytes, as pixels may differ between browsers; of those beyond the room names and sizes count.
   */
  async decodeAll(): Promise<string> {
    const digests: string[] = [];
    let next = 0;
    const work = async (): Promise<void> => {
      for (let at = next++; at < this.#room; at = next++) {
        const { path, blob } = this.folders.pictures[at]!;
        const bytes = await blob();
        digests[at] = hashState([new Uint8Array(await bytes.arrayBuffer())]);
        this.#kept[at] = await this.#decode(path, bytes, this.size);
      }
    };
    await Promise.all(Array.from({ length: DECODERS }, work)).finally(() => (next = Infinity));
    const facts = this.folders.pictures.map(({ path, size, label }, at) => [
      path.split('/').at(-1),
      size,
      label,
      digests[at],
    ]);
    return hashState([new TextEncoder().encode(JSON.stringify([this.size, this.folders.classes, facts]))]);
  }

  /** @throws (rejects) DataError, naming the file, where it is damaged. */
  async pixels(at: number): Promise<Uint8Array> {
    const kept = this.#kept[at];
    if (kept !== undefined) return kept;
    const { path, blob } = this.folders.pictures[at]!;
    const pixels = await this.#decode(path, await blob(), this.size);
    if (at < this.#room) this.#kept[at] = pixels;
    return pixels;
  }

  async preview(at: number): Promise<PreviewPicture> {
    const { side, channels } = this.size;
    const label = this.folders.classes[this.folders.pictures[at]!.label]!;
    return { pixels: (await this.pixels(at)).slice(), height: side, width: side, channels, label };
  }
}

/** Some of the pictures as samples, 0 read as 0.0 and 255 as 1.0. */
export class PictureDataset implements Dataset {
  readonly size: number;
  readonly inputShape: readonly [number, number, number];
  readonly classes: number;
  readonly classNames: readonly string[];
  readonly digest: string;
  readonly #pictures: DecodedPictures;
  readonly #chosen: Uint32Array;
  /** By the folders' numbers. */
  readonly #labels: readonly number[];

  /** @param classes those of the pictures, maybe among others. */
  constructor(pictures: DecodedPictures, chosen: Uint32Array, classes: readonly string[], digest: string) {
    const { side, channels } = pictures.size;
    this.size = chosen.length;
    this.inputShape = [side, side, channels];
    this.classNames = classes;
    this.classes = classes.length;
    this.#labels = pictures.folders.classes.map((name) => classes.indexOf(name));
    this.digest = digest;
    this.#pictures = pictures;
    this.#chosen = chosen;
  }

  async read(indices: ArrayLike<number>, inputs: Float32Array, labels: Labels): Promise<void> {
    checkRead(this, indices, inputs, labels);
    const chosen = Array.from(indices, (index) => this.#chosen[index]!);
    const all = await Promise.all(chosen.map((at) => this.#pictures.pixels(at)));
    let to = 0;
    for (const [i, pixels] of all.entries()) {
      labels[i] = this.#labels[this.#pictures.folders.pictures[chosen[i]!]!.label]!;
      for (const value of pixels) inputs[to++] = value / 255;
    }
  }
}
