/**
 * Pictures that are read and decoded when they are needed. The pictures that are needed next are
 * read ahead. Decoded pictures stay in memory, up to a limit.
 */
import type { PictureSize } from '../../formats/decodePicture.ts';
import type { PreviewPicture } from '../../spec/preview.ts';
import { DataError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';
import type { LazyFileContents } from '../dataset.ts';
import { maxKeptSampleBytes } from '../sampleMemory.ts';
import { placeOnceArrived, sharedFileRangeOf, type FilePlace } from '../dataFile.ts';
import type { ClassFolders } from './pictureFolders.ts';
import type { PictureRequest, PictureReadResult, ReadPictures } from './readPictures.ts';

/** Maximum number of bytes of decoded pictures that are read ahead. */
const AHEAD_BYTES = 32 * 1024 * 1024;
/** Maximum and minimum number of pictures that are read ahead. */
const [MOST_AHEAD, LEAST_AHEAD] = [1024, 64];
/**
 * Maximum number of pictures, of bytes of their files, and of decoded bytes, that are read with one
 * request.
 */
const CHUNK = { pictures: 64, bytes: 16 * 1024 * 1024, decodedBytes: 4 * 1024 * 1024 };
/** Number of requests that are under way ahead of the run. */
const REQUESTS = 3;

export class PictureFiles implements LazyFileContents {
  /** CRC-32 of each file that was read. The keys are indices into `folders.pictures`. */
  readonly crcs = new Map<number, number>();
  readonly size: PictureSize;
  readonly folders: ClassFolders;
  /** Number of pictures that are read before they are needed. */
  readonly ahead: number;
  readonly #readAll: ReadPictures;
  readonly #most: number;
  readonly #kept = new Map<number, Uint8Array>();
  /** Pictures that are requested, or that were read ahead and have no room in `#kept`. */
  readonly #requested = new Map<number, Promise<PictureReadResult>>();
  readonly #undecoded = new Set<number>();
  /** For each data set: the pictures that it needs next, in order. */
  readonly #lists = new Map<object, readonly number[]>();
  #requests = 0;
  readonly #onundecoded: (problem: string) => void;
  readonly #store: string | null;

  /**
   * @param onundecoded called once for each picture that cannot be decoded, with the reason.
   */
  constructor(
    folders: ClassFolders,
    size: PictureSize,
    readAll: ReadPictures,
    onundecoded: (problem: string) => void = () => {},
  ) {
    const bytes = size.side * size.side * size.channels;
    this.folders = folders;
    this.size = size;
    this.ahead = Math.min(MOST_AHEAD, Math.max(LEAST_AHEAD, Math.floor(AHEAD_BYTES / bytes)));
    this.#most = Math.floor(maxKeptSampleBytes() / bytes);
    this.#readAll = readAll;
    this.#onundecoded = onundecoded;
    this.#store = storeOf(folders, size);
  }

  /**
   * A digest of the names, sizes and labels of all pictures, and of the size to which they are
   * scaled. No picture has to be read for it.
   */
  get digest(): string {
    const { classes, pictures } = this.folders;
    const facts = pictures.map(({ path, size, label }) => [path.split('/').at(-1), size, label]);
    return hashOfArrays([new TextEncoder().encode(JSON.stringify([this.size, classes, facts]))]);
  }

  get stated(): Uint32Array | null {
    const places = this.folders.pictures.map(({ place }) => place);
    return places.every((place) => place.in === 'zip') ? Uint32Array.from(places, ({ entry }) => entry.crc) : null;
  }

  nameOf(file: number): string {
    return this.folders.pictures[file]!.path;
  }

  /**
   * Reads ahead the pictures that are needed next, in their order. Earlier expectations of the same
   * data set end. Data sets that expect pictures at the same time share the budget.
   *
   * @param by the data set.
   */
  expect(next: readonly number[], by: object = this): void {
    this.#setList(by, next);
    const needed = new Set([...this.#lists.values()].flat());
    for (const at of this.#requested.keys()) if (!needed.has(at)) this.#requested.delete(at);
    this.#readAhead();
  }

  /**
   * Returns the pixels of pictures; `null` for a picture that cannot be decoded.
   *
   * @throws (rejects) DataError, which names the file, if a file cannot be read.
   */
  read(wanted: readonly number[]): Promise<(Uint8Array | null)[]> {
    return this.#take(wanted, this.#store);
  }

  async #take(wanted: readonly number[], store: string | null): Promise<(Uint8Array | null)[]> {
    const now = new Set(wanted);
    for (const [by, list] of this.#lists) {
      this.#setList(
        by,
        list.filter((at) => !now.has(at)),
      );
    }
    const missing = wanted.filter((at) => !this.#kept.has(at) && !this.#requested.has(at));
    for (let rest = [...new Set(missing)]; rest.length > 0;) {
      const some = this.#chunkOf(rest);
      rest = rest.slice(some.length);
      void this.#request(some, store);
    }
    // Pictures are taken now, because an expectation may end while others are awaited.
    const taken = wanted.map((at) => this.#kept.get(at) ?? this.#requested.get(at)!);
    return Promise.all(
      taken.map(async (one, i) => {
        if (one instanceof Uint8Array) return one;
        const picture = await one;
        const at = wanted[i]!;
        this.#requested.delete(at);
        if ('unread' in picture) throw new DataError(picture.unread);
        if ('pixels' in picture) return picture.pixels;
        if (!this.#undecoded.has(at)) this.#onundecoded(picture.undecoded);
        this.#undecoded.add(at);
        return null;
      }),
    );
  }

  /** Paths of the pictures that turned out to be undecodable so far. */
  get undecoded(): string[] {
    return [...this.#undecoded].map((at) => this.folders.pictures[at]!.path);
  }

  /**
   * Returns the pictures of a preview, with their numbers. Pictures that cannot be decoded are left
   * out.
   *
   * @throws (rejects) DataError, which names the file, if a file cannot be read.
   */
  async preview(shown: readonly number[]): Promise<{ at: number; picture: PreviewPicture }[]> {
    const { side, channels } = this.size;
    // These pictures are not stored, because the user may still choose a different size.
    const all = await this.#take(shown, null);
    return all.flatMap((pixels, i) => {
      if (pixels === null) return [];
      const at = shown[i]!;
      const label = this.folders.classes[this.folders.pictures[at]!.label]!;
      return [{ at, picture: { pixels: pixels.slice(), height: side, width: side, channels, label } }];
    });
  }

  #setList(by: object, next: readonly number[]): void {
    if (next.length > 0) this.#lists.set(by, next);
    else this.#lists.delete(by);
  }

  /** The pictures that are read ahead, in order. */
  get #expected(): number[] {
    const lists = [...this.#lists.values()];
    const most = lists.length > 1 ? Math.ceil(this.ahead / lists.length) : Infinity;
    return lists.flatMap((list) => list.slice(0, most));
  }

  /**
   * Returns the first pictures of a list, as many as are read with one request. A picture whose
   * bytes other ranks still send is requested alone, because other pictures of the request would
   * wait for it.
   */
  #chunkOf(list: readonly number[]): number[] {
    const { side, channels } = this.size;
    const isHere = (at: number): boolean => hasArrived(this.folders.pictures[at]!.place);
    let bytes = 0;
    const most = list.findIndex((at, i) => {
      bytes += this.folders.pictures[at]!.size;
      const decodedBytes = (i + 1) * side * side * channels;
      const isFull = i === CHUNK.pictures || bytes > CHUNK.bytes || decodedBytes > CHUNK.decodedBytes;
      return i > 0 && (isFull || !isHere(at) || (i === 1 && !isHere(list[0]!)));
    });
    return list.slice(0, most === -1 ? undefined : most);
  }

  #readAhead(): void {
    const most = Math.max(...[...this.#lists.values()].map(({ length }) => length));
    while (this.#requests < REQUESTS && this.#requested.size < most) {
      const next = this.#chunkOf(this.#expected.filter((at) => !this.#kept.has(at) && !this.#requested.has(at)));
      if (next.length === 0) return;
      this.#requests++;
      void this.#request(next, this.#store).then((isRead) => {
        this.#requests--;
        // After a failure, nothing is read ahead until the next step, which reports it.
        if (isRead) this.#readAhead();
      });
    }
  }

  /**
   * Resolves with whether the pictures were read. Callers that wait for these pictures are told of
   * a failure.
   */
  async #request(next: readonly number[], store: string | null): Promise<boolean> {
    const { pictures } = this.folders;
    const files = next.map((at) => {
      const { path, place } = pictures[at]!;
      return { at, path, place };
    });
    const all = this.#readArrived({ files, size: this.size, store });
    for (const [i, at] of next.entries()) {
      const one = all.then((read) => read[i]!);
      // A picture that nobody waits for is requested again when it is needed.
      one.catch(() => this.#requested.delete(at));
      this.#requested.set(at, one);
    }
    const read = await all.catch(() => []);
    for (const [i, picture] of read.entries()) {
      if ('crc' in picture) this.crcs.set(next[i]!, picture.crc);
      if (!('pixels' in picture) || this.#kept.size >= this.#most) continue;
      this.#kept.set(next[i]!, picture.pixels);
      this.#requested.delete(next[i]!);
    }
    return read.length > 0;
  }

  /** Reads pictures as soon as their bytes are here. */
  async #readArrived({ files, ...request }: PictureRequest): Promise<PictureReadResult[]> {
    if (files.every(({ place }) => sharedFileRangeOf(place) === null)) return this.#readAll({ files, ...request });
    const here = files.map(async (file) => ({ ...file, place: await placeOnceArrived(file.place) }));
    return this.#readAll({ files: await Promise.all(here), ...request });
  }
}

/** Returns whether this tab has the bytes at a place and need not wait for other ranks. */
function hasArrived(place: FilePlace): boolean {
  const shared = sharedFileRangeOf(place);
  return shared === null || shared.file.has(shared.range.start, shared.range.end);
}

/**
 * Returns the name of the file in which decoded pictures are stored; `null` if it is unknown
 * whether a file has changed.
 */
function storeOf({ pictures }: ClassFolders, size: PictureSize): string | null {
  const facts = pictures.map(({ path, size: bytes, version }) => [path, bytes, version]);
  if (facts.some(([, , version]) => version === undefined)) return null;
  return hashOfArrays([new TextEncoder().encode(JSON.stringify([size, facts]))]);
}
