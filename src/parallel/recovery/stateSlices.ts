/** A state as slices that a newcomer receives while the run trains. */
import { FILE_SLICE_BYTES } from '../../protocol/frame.ts';
import { DIGEST_LENGTH } from '../../spec/fileManifest.ts';
import { hashOfArrays } from '../../util/hash.ts';
import type { DistributedFileSlices } from '../data/distributeFiles.ts';

export class StateSlices implements DistributedFileSlices {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly count: number;
  #digests: string | null;
  readonly #held: Uint8Array;
  #heldBytes: number;
  /** Slices of an interrupted transfer, some of which may belong to this state. */
  #earlier: StateSlices | null;

  private constructor(bytes: Uint8Array<ArrayBuffer>, digests: string | null, earlier: StateSlices | null) {
    this.bytes = bytes;
    this.#earlier = earlier;
    this.count = Math.ceil(bytes.length / FILE_SLICE_BYTES);
    this.#digests = digests;
    this.#held = new Uint8Array(this.count).fill(digests === null ? 0 : 1);
    this.#heldBytes = digests === null ? 0 : bytes.length;
  }

  /** @param bytes the whole state. It is not copied. */
  static of(bytes: Uint8Array<ArrayBuffer>): StateSlices {
    const digests: string[] = [];
    for (let at = 0; at < bytes.length; at += FILE_SLICE_BYTES) {
      digests.push(hashOfArrays([bytes.subarray(at, at + FILE_SLICE_BYTES)]));
    }
    return new StateSlices(bytes, digests.join(''), null);
  }

  /**
   * Returns empty slices for a state of `length` bytes, which is not received yet.
   *
   * @param earlier slices that an interrupted transfer has left. Those that are equal are used
   *   again.
   */
  static empty(length: number, earlier: StateSlices | null = null): StateSlices {
    // A transfer that was interrupted before it knew the digests has no slices. In that case the
    // slices of the transfer before it are used.
    return new StateSlices(new Uint8Array(length), null, earlier?.mayHave ? earlier.#earlier : earlier);
  }

  get mayHave(): boolean {
    return this.#digests === null && this.#earlier !== null;
  }

  get digests(): string | null {
    return this.#digests;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  bytesOf(slice: number): number {
    return Math.min(FILE_SLICE_BYTES, this.bytes.length - slice * FILE_SLICE_BYTES);
  }

  has(slice: number): boolean {
    return this.#held[slice] === 1;
  }

  setDigests(digests: string): void {
    this.#digests = digests;
    for (let slice = 0; slice < this.count; slice++) {
      if (this.#earlier?.has(slice)) this.put(slice, this.#earlier.#read(slice));
    }
    this.#earlier = null;
  }

  put(slice: number, bytes: Uint8Array<ArrayBuffer>): boolean {
    const at = slice * DIGEST_LENGTH;
    if (hashOfArrays([bytes]) !== this.#digests?.slice(at, at + DIGEST_LENGTH)) return false;
    this.bytes.set(bytes, slice * FILE_SLICE_BYTES);
    if (!this.has(slice)) this.#heldBytes += bytes.length;
    this.#held[slice] = 1;
    return true;
  }

  async read(slice: number): Promise<Uint8Array<ArrayBuffer>> {
    return this.#read(slice);
  }

  #read(slice: number): Uint8Array<ArrayBuffer> {
    return this.bytes.slice(slice * FILE_SLICE_BYTES, slice * FILE_SLICE_BYTES + this.bytesOf(slice));
  }
}
