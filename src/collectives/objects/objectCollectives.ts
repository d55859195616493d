/**
 * Collectives of JavaScript values. Each consists of two collectives: the first sends the sizes, so
 * that receivers can allocate memory, and the second sends the bytes.
 */
import { checkScatterList, groupRankOfRoot, type CallerInGroup } from '../argumentChecks.ts';
import { asError, ProtocolError } from '../../util/errors.ts';
import type { CollectiveExecutor } from '../executor.ts';
import { decodeObject, encodeObject } from './encoding.ts';
import type { SizesOptions, WaitOptions } from '../options.ts';
import { checkSignalNotAborted, type Work } from '../work.ts';

/**
 * Maximum size of an encoded object. A limit is necessary, because receivers allocate memory for
 * the object before any of it has arrived.
 */
const MAX_OBJECT_BYTES = 256 * 1024 * 1024;
/** The byte that encoded text is padded with. */
const BLANK = 0x20;

/** The calls of a process group that these collectives use. */
interface ByteGroup {
  readonly rank: number;
  broadcast<T extends Bytes>(tensor: T, src: number, options: WaitOptions): Work<T>;
  allGather<T extends Bytes>(tensor: T, options: SizesOptions): Work<T[]>;
  gather<T extends Bytes>(tensor: T, dst: number, options: SizesOptions): Work<T[] | null>;
  scatter<T extends Bytes>(tensor: T, src: number, parts: readonly T[] | null, options: WaitOptions): Work<T>;
  abort(error: Error): void;
}

type Bytes = Uint8Array | Float64Array;

/** Object collectives of a group. `src` and `dst` are global ranks. */
export class ObjectCollectives {
  readonly #group: ByteGroup;
  readonly #caller: CallerInGroup;
  readonly #reserve: CollectiveExecutor['reserve'];

  constructor(group: ByteGroup, caller: CallerInGroup, reserve: CollectiveExecutor['reserve']) {
    this.#group = group;
    this.#caller = caller;
    this.#reserve = reserve;
  }

  /** @param value the values of ranks other than `src` are ignored. */
  async broadcast<T>(value: T | undefined, src: number, options: WaitOptions): Promise<T> {
    const { rank, self } = this.#caller;
    const isSource = rank === groupRankOfRoot(this.#caller, src);
    if (rank < 0) return value as T;
    checkSignalNotAborted(options.signal, self, 'broadcastObject');
    const mine = isSource ? encodeObject(value) : new Uint8Array();
    const sizeOf = this.#group.broadcast(Float64Array.of(mine.length), src, options);
    const bytes = await this.#issueBoth(sizeOf, ([size]) =>
      this.#group.broadcast(isSource ? mine : bytesFor(size!), src, options),
    );
    return isSource ? (value as T) : (decodeObject(bytes) as T);
  }

  async allGather<T>(value: T, options: WaitOptions): Promise<T[]> {
    if (this.#caller.rank < 0) return [];
    checkSignalNotAborted(options.signal, this.#caller.self, 'allGatherObject');
    const mine = encodeObject(value);
    const sizesOf = this.#group.allGather(Float64Array.of(mine.length), options);
    const parts = await this.#issueBoth(sizesOf, (all) =>
      this.#group.allGather(mine, { ...options, sizes: sizesIn(all) }),
    );
    return this.#decodeAll(parts, value);
  }

  async gather<T>(value: T, dst: number, options: WaitOptions): Promise<T[] | null> {
    groupRankOfRoot(this.#caller, dst);
    if (this.#caller.rank < 0) return null;
    checkSignalNotAborted(options.signal, this.#caller.self, 'gatherObject');
    const mine = encodeObject(value);
    const sizesOf = this.#group.allGather(Float64Array.of(mine.length), options);
    const parts = await this.#issueBoth(sizesOf, (all) =>
      this.#group.gather(mine, dst, { ...options, sizes: sizesIn(all) }),
    );
    return parts && this.#decodeAll(parts, value);
  }

  /** @param values one per rank on `src`, `null` on other ranks. */
  async scatter<T>(values: readonly T[] | null, src: number, options: WaitOptions): Promise<T> {
    groupRankOfRoot(this.#caller, src);
    if (this.#caller.rank < 0) return undefined as T;
    checkSignalNotAborted(options.signal, this.#caller.self, 'scatterObjects');
    checkScatterList(this.#caller, src, values, 'values');
    const encoded = values?.map(encodeObject) ?? null;
    const length = Float64Array.of(Math.max(0, ...(encoded ?? []).map((bytes) => bytes.length)));
    const bytes = await this.#issueBoth(this.#group.broadcast(length, src, options), ([size]) => {
      // All parts of a scatter have the same size. Shorter parts are padded with blanks, because
      // JSON may end with blanks.
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
   * Issues the second collective as soon as the first has received the sizes. The sequence number
   * of the second is reserved immediately. If either collective fails on this rank, the rank aborts
   * the group, because other ranks would wait.
   */
  async #issueBoth<Sizes, Result>(sizes: Work<Sizes>, bytes: (sizes: Sizes) => Work<Result>): Promise<Result> {
    const later = this.#reserve();
    try {
      const known = await sizes;
      return await later(() => bytes(known));
    } catch (error) {
      this.#group.abort(asError(error));
      throw error;
    }
  }

  /**
   * Decodes the values of the other ranks. For this rank, returns `own` itself, not a decoded
   * copy.
   */
  #decodeAll<T>(parts: readonly Uint8Array[], own: T): T[] {
    return parts.map((bytes, rank) => (rank === this.#group.rank ? own : (decodeObject(bytes) as T)));
  }
}

/** @throws ProtocolError if an object of this or another rank is too large. */
function checkObjectSize(size: number): void {
  if (size >= 0 && size <= MAX_OBJECT_BYTES) return;
  throw new ProtocolError(
    `An object of ${size} bytes is too large: ranks accept at most ${MAX_OBJECT_BYTES} bytes. Send typed arrays instead.`,
  );
}

/** Creates an array for an encoded object of that size. */
function bytesFor(size: number): Uint8Array {
  checkObjectSize(size);
  return new Uint8Array(size);
}

function sizesIn(all: readonly Float64Array[]): number[] {
  for (const [size] of all) checkObjectSize(size!);
  return all.map(([size]) => size!);
}
