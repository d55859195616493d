/**
 * Collectives of values, each as two of bytes: first how many there are, so that receivers can make
 * room, then the bytes.
 */
import { asError, ProtocolError } from '../../util/errors.ts';
import type { Executor } from '../executor.ts';
import { decodeObject, encodeObject } from './encoding.ts';
import type { SizesOptions, TimeoutOption } from '../options.ts';
import type { Work } from '../work.ts';

/** Largest encoded object: what its receivers make room for before they have seen any of it. */
const MAX_OBJECT_BYTES = 256 * 1024 * 1024;
/** What text is filled up with. */
const BLANK = 0x20;

/** The calls of a process group that these are made of. */
interface ByteGroup {
  readonly rank: number;
  broadcast<T extends Bytes>(tensor: T, src: number, options: TimeoutOption): Work<T>;
  allGather<T extends Bytes>(tensor: T, options: SizesOptions): Work<T[]>;
  gather<T extends Bytes>(tensor: T, dst: number, options: SizesOptions): Work<T[] | null>;
  scatter<T extends Bytes>(tensor: T, src: number, parts: readonly T[] | null, options: TimeoutOption): Work<T>;
  abort(error: Error): void;
}

type Bytes = Uint8Array | Float64Array;

/**
 * Those of a group that this rank is a member of. `src` and `dst` are global ranks, and have been
 * checked.
 */
export class ObjectCollectives {
  readonly #group: ByteGroup;
  readonly #reserve: Executor['reserve'];

  constructor(group: ByteGroup, reserve: Executor['reserve']) {
    this.#group = group;
    this.#reserve = reserve;
  }

  /** @param isSource whether this rank is `src`; only its value counts. */
  async broadcast<T>(value: T | undefined, src: number, isSource: boolean, options: TimeoutOption): Promise<T> {
    const mine = isSource ? encodeObject(value) : new Uint8Array();
    const sizeOf = this.#group.broadcast(Float64Array.of(mine.length), src, options);
    const bytes = await this.#inTwo(sizeOf, ([size]) =>
      this.#group.broadcast(isSource ? mine : bytesFor(size!), src, options),
    );
    return isSource ? (value as T) : (decodeObject(bytes) as T);
  }

  async allGather<T>(value: T, options: TimeoutOption): Promise<T[]> {
    const mine = encodeObject(value);
    const sizesOf = this.#group.allGather(Float64Array.of(mine.length), options);
    const parts = await this.#inTwo(sizesOf, (all) => this.#group.allGather(mine, { ...options, sizes: sizesIn(all) }));
    return this.#decodeAll(parts, value);
  }

  async gather<T>(value: T, dst: number, options: TimeoutOption): Promise<T[] | null> {
    const mine = encodeObject(value);
    const sizesOf = this.#group.allGather(Float64Array.of(mine.length), options);
    const parts = await this.#inTwo(sizesOf, (all) =>
      this.#group.gather(mine, dst, { ...options, sizes: sizesIn(all) }),
    );
    return parts && this.#decodeAll(parts, value);
  }

  /** @param values one per rank on `src`, `null` elsewhere. */
  async scatter<T>(values: readonly T[] | null, src: number, options: TimeoutOption): Promise<T> {
    const encoded = values?.map(encodeObject) ?? null;
    const length = Float64Array.of(Math.max(0, ...(encoded ?? []).map((bytes) => bytes.length)));
    const bytes = await this.#inTwo(this.#group.broadcast(length, src, options), ([size]) => {
      // Parts of a scatter are of one size: shorter ones are filled up with blanks, which JSON may
      // end with.
      const parts = encoded?.map((part) => {
        const filled = bytesFor(size!).fill(BLANK);
        filled.set(part);
        return filled;
      });
      return this.#group.scatter(bytesFor(size!), src, parts ?? null, options);
    });
    return values ? values[this.#group.rank]! : (decodeObject(bytes) as T);
  }

  /**
   * The two collectives of an object: sizes, then bytes, under a number that is taken now. Ranks
   * that fail between the two would leave the others waiting, so the group fails.
   */
  async #inTwo<Sizes, Result>(sizes: Work<Sizes>, bytes: (sizes: Sizes) => Work<Result>): Promise<Result> {
    const later = this.#reserve();
    try {
      const known = await sizes;
      return await later(() => bytes(known));
    } catch (error) {
      this.#group.abort(asError(error));
      throw error;
    }
  }

  /** All ranks' values, this rank's as it is. */
  #decodeAll<T>(parts: readonly Uint8Array[], own: T): T[] {
    return parts.map((bytes, rank) => (rank === this.#group.rank ? own : (decodeObject(bytes) as T)));
  }
}

/** @throws ProtocolError where another rank's object says that it is larger than any may be. */
function checkObjectSize(size: number): void {
  if (size >= 0 && size <= MAX_OBJECT_BYTES) return;
  throw new ProtocolError(
    `An object of ${size} bytes is more than ranks take (${MAX_OBJECT_BYTES}): send typed arrays.`,
  );
}

/** Room for an object. */
function bytesFor(size: number): Uint8Array {
  checkObjectSize(size);
  return new Uint8Array(size);
}

function sizesIn(all: readonly Float64Array[]): number[] {
  for (const [size] of all) checkObjectSize(size!);
  return all.map(([size]) => size!);
}
