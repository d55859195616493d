/**
 * The slices that this tab has of a job's distributed files. Received slices are blobs, which a
 * browser keeps outside of the page's memory (on disk if there are many). Slices of files that the
 * user chose are read from these files.
 *
 * Hashes (`util/hash.ts`) detect accidents: a changed file, another file of the same name, slices
 * in the wrong order. Hashes do not stop attackers. An attacker could ruin a run with wrong
 * gradients anyway.
 */
import type { FilePlace, DataFile } from '../../jobs/dataFile.ts';
import type { DistributedFileSlices } from '../../parallel/data/distributeFiles.ts';
import { FILE_SLICE_BYTES } from '../../protocol/frame.ts';
import {
  DIGEST_LENGTH,
  MAX_FILE_NAME_LENGTH,
  MAX_SHARED_BYTES,
  MAX_SHARED_FILES,
  totalFileBytes,
  type ManifestFile,
} from '../../spec/fileManifest.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import { DataError, errorMessageOf, PeergradError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';

/**
 * The number of slices that are cached. The cache helps because a slice is usually sent on soon
 * after it has arrived.
 */
const AT_HAND = 16;
/** The number of slices of the user's files that are read at the same time. */
const READ_AT_ONCE = 32;

/** The position of a slice in its file. */
interface SliceRange {
  readonly file: number;
  readonly start: number;
  readonly end: number;
}

export class SharedFileSlices implements DistributedFileSlices {
  readonly manifest: readonly ManifestFile[];
  readonly #places: readonly SliceRange[];
  /** For each file: the number of its first slice. */
  readonly #firsts: readonly number[];
  readonly #parts: (Blob | null)[];
  #digests: string | null;
  #heldBytes = 0;
  readonly #spoilt = new Set<string>();
  /** The most recently received slices. The keys are slice numbers. */
  readonly #atHand = new Map<number, Uint8Array<ArrayBuffer>>();
  /** Missing slices for which a read waits. The keys are slice numbers. */
  readonly #awaited = new Map<number, Deferred<void>>();
  /** The reason why no slices arrive; `null` while slices are distributed. */
  #ended: Error | null = new PeergradError('The files of this run have not been distributed yet.');

  private constructor(manifest: readonly ManifestFile[], digests: string | null) {
    this.manifest = manifest;
    this.#digests = digests;
    this.#places = placesOf(manifest);
    let first = 0;
    this.#firsts = manifest.map(({ size }) => (first += sliceCount(size)) - sliceCount(size));
    this.#parts = this.#places.map(() => null);
  }

  /** Creates the files of a job without any slices. The slices are received later. */
  static awaited(manifest: readonly ManifestFile[]): SharedFileSlices {
    return new SharedFileSlices(manifest, null);
  }

  /**
   * Creates the slices of the files that this tab's user chose. Reads each file once.
   *
   * @param onprogress called with the number of bytes read.
   * @throws (rejects) DataError if there are too many files, if they are too large, or if a file
   *   cannot be read.
   */
  static async chosen(files: readonly File[], onprogress: (bytes: number) => void): Promise<SharedFileSlices> {
    checkSizes(files);
    const manifest: ManifestFile[] = [];
    const digests: string[] = [];
    let read = 0;
    for (const file of files) {
      const own: string[] = [];
      for (let at = 0; at < file.size; at += READ_AT_ONCE * FILE_SLICE_BYTES) {
        const bytes = await readChosen(file, at, Math.min(at + READ_AT_ONCE * FILE_SLICE_BYTES, file.size));
        for (let start = 0; start < bytes.length; start += FILE_SLICE_BYTES) {
          own.push(hashOfArrays([bytes.subarray(start, start + FILE_SLICE_BYTES)]));
        }
        read += bytes.length;
        onprogress(read);
      }
      manifest.push({ name: file.name, size: file.size, hash: digestOf(own.join('')) });
      digests.push(...own);
    }
    const shared = new SharedFileSlices(manifest, digests.join(''));
    for (const [slice, { file, start, end }] of shared.#places.entries()) {
      shared.#parts[slice] = files[file]!.slice(start, end);
    }
    shared.#heldBytes = read;
    return shared;
  }

  get count(): number {
    return this.#places.length;
  }

  get digests(): string | null {
    return this.#digests;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  get totalBytes(): number {
    return totalFileBytes(this.manifest);
  }

  get isWhole(): boolean {
    return this.#parts.every((part) => part !== null);
  }

  isOf(manifest: readonly ManifestFile[]): boolean {
    return JSON.stringify(manifest) === JSON.stringify(this.manifest);
  }

  /** Names of files that were changed, moved or deleted since this tab's user chose them. */
  get spoilt(): readonly string[] {
    return [...this.#spoilt];
  }

  /** @throws DataError if slices are missing. */
  files(): File[] {
    return this.manifest.map(({ name, size }, file) => {
      const parts = this.#parts.filter((_, slice) => this.#places[slice]!.file === file);
      const blobs = parts.filter((part) => part !== null);
      if (blobs.length < parts.length) {
        throw new DataError(`${name} is incomplete: ${parts.length - blobs.length} of its slices are missing.`);
      }
      const whole = new File(blobs, name, { lastModified: 0 });
      if (whole.size !== size) throw new DataError(`${name} has ${whole.size} bytes, not ${size}.`);
      return whole;
    });
  }

  /**
   * Returns the files for data sets that read parts of files. While slices are distributed, a read
   * waits until its slices are here. If they do not arrive, the read rejects with the error of
   * {@link end}.
   */
  stored(): (DataFile & { place: Extract<FilePlace, { in: 'shared' }> })[] {
    return this.manifest.map(({ name, size }, at) => {
      const range = (start: number, end: number): Promise<Blob> => this.#range(at, start, end);
      const has = (start: number, end: number): boolean =>
        this.slicesOf(at, start, end).every((slice) => this.has(slice));
      return { path: name, size, place: { in: 'shared', file: { size, has, range } }, blob: () => range(0, size) };
    });
  }

  /** Returns the slices that contain bytes start..end-1 of a file. */
  slicesOf(file: number, start: number, end: number): number[] {
    const count = Math.min(Math.ceil(end / FILE_SLICE_BYTES), sliceCount(this.manifest[file]!.size));
    const slices: number[] = [];
    for (let at = Math.floor(start / FILE_SLICE_BYTES); at < count; at++) slices.push(this.#firsts[file]! + at);
    return slices;
  }

  /** Called when a distribution begins: from now on, reads wait for missing slices. */
  begin(): void {
    this.#ended = null;
  }

  /** Called when a distribution ends. Reads of missing slices reject with `error`. */
  end(error: Error): void {
    this.#ended = error;
    for (const { reject } of this.#awaited.values()) reject(error);
    this.#awaited.clear();
  }

  bytesOf(slice: number): number {
    const { start, end } = this.#places[slice]!;
    return end - start;
  }

  has(slice: number): boolean {
    return this.#parts[slice] !== null;
  }

  setDigests(digests: string): void {
    let at = 0;
    for (const { name, size, hash } of this.manifest) {
      const end = at + sliceCount(size) * DIGEST_LENGTH;
      if (digestOf(digests.slice(at, end)) !== hash) {
        throw new DataError(
          `Another rank's hashes of the slices of ${name} do not match this file. Choose the file again.`,
        );
      }
      at = end;
    }
    this.#digests = digests;
  }

  put(slice: number, bytes: Uint8Array<ArrayBuffer>): boolean {
    if (!this.#isIntact(slice, bytes)) return false;
    if (!this.has(slice)) {
      this.#parts[slice] = new Blob([bytes]);
      this.#heldBytes += bytes.length;
      this.#awaited.get(slice)?.resolve();
      this.#awaited.delete(slice);
    }
    this.#keepAtHand(slice, bytes);
    return true;
  }

  async read(slice: number): Promise<Uint8Array<ArrayBuffer> | null> {
    const known = this.#atHand.get(slice);
    if (known) return known;
    const bytes = await this.#parts[slice]?.arrayBuffer().catch(() => null);
    if (bytes) {
      const read = new Uint8Array(bytes);
      if (this.#isIntact(slice, read)) return read;
    }
    if (this.has(slice)) this.#heldBytes -= this.bytesOf(slice);
    this.#parts[slice] = null;
    this.#spoilt.add(this.manifest[this.#places[slice]!.file]!.name);
    return null;
  }

  async #range(file: number, start: number, end: number): Promise<Blob> {
    const slices = this.slicesOf(file, start, end);
    for (;;) {
      const missing = slices.find((slice) => !this.has(slice));
      if (missing === undefined) break;
      await this.#arrival(missing);
    }
    const from = Math.floor(start / FILE_SLICE_BYTES) * FILE_SLICE_BYTES;
    return new Blob(slices.map((slice) => this.#parts[slice]!)).slice(start - from, end - from);
  }

  #arrival(slice: number): Promise<void> {
    if (this.#ended) return Promise.reject(this.#ended);
    const awaited = this.#awaited.get(slice) ?? createDeferred();
    this.#awaited.set(slice, awaited);
    return awaited.promise;
  }

  #isIntact(slice: number, bytes: Uint8Array): boolean {
    const at = slice * DIGEST_LENGTH;
    const isAsLong = bytes.length === this.bytesOf(slice);
    return isAsLong && hashOfArrays([bytes]) === this.#digests?.slice(at, at + DIGEST_LENGTH);
  }

  #keepAtHand(slice: number, bytes: Uint8Array<ArrayBuffer>): void {
    this.#atHand.set(slice, bytes);
    if (this.#atHand.size <= AT_HAND) return;
    const [oldest] = this.#atHand.keys();
    this.#atHand.delete(oldest!);
  }
}

/**
 * Returns the position of each slice. Slices are numbered through all files, in the order of the
 * manifest.
 */
function placesOf(manifest: readonly ManifestFile[]): SliceRange[] {
  return manifest.flatMap(({ size }, file) =>
    Array.from({ length: sliceCount(size) }, (_, i) => {
      const start = i * FILE_SLICE_BYTES;
      return { file, start, end: Math.min(start + FILE_SLICE_BYTES, size) };
    }),
  );
}

function sliceCount(size: number): number {
  return Math.ceil(size / FILE_SLICE_BYTES);
}

function digestOf(digests: string): string {
  return hashOfArrays([new TextEncoder().encode(digests)]);
}

function checkSizes(files: readonly File[]): void {
  if (files.length > MAX_SHARED_FILES) {
    throw new DataError(
      `You chose ${files.length} files, but at most ${MAX_SHARED_FILES} can be distributed. Put them into one archive.`,
    );
  }
  const bytes = totalFileBytes(files);
  if (bytes > MAX_SHARED_BYTES) {
    throw new DataError(
      `These files have ${bytes} bytes, but at most ${MAX_SHARED_BYTES} bytes can be distributed. Choose smaller files.`,
    );
  }
  const names = new Set<string>();
  for (const { name } of files) {
    if (name.length > MAX_FILE_NAME_LENGTH) {
      throw new DataError(
        `The name ${name.slice(0, 40)}... is longer than ${MAX_FILE_NAME_LENGTH} characters. Rename the file.`,
      );
    }
    if (names.has(name)) throw new DataError(`Two files are called ${name}. Rename one of them.`);
    names.add(name);
  }
}

async function readChosen(file: File, start: number, end: number): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return new Uint8Array(await file.slice(start, end).arrayBuffer());
  } catch (cause) {
    throw new DataError(
      `${file.name} could not be read (${errorMessageOf(cause)}). Choose the file again.`,
      {},
      { cause },
    );
  }
}
