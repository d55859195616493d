/**
 * Checkpoints: a run's state in this browser's storage, so that its room can go on after all have closed it.
 *
 * A checkpoint is one blob: a digest of all that follows (16 hexadecimal digits), the header's length (4 bytes, little-endian),
 * the header as JSON, and the arrays' bytes, one behind the other.
 */
import * as v from 'valibot';
import { JobSpec } from '../protocol/job.ts';
import { DataError, messageOf, PeergradError, StorageError, UsageError } from '../util/errors.ts';
import { hashState } from '../util/hash.ts';
import { openBlobStore, preferredMedium, type BlobStore, type Medium } from './blobStore.ts';

/** Checkpoints kept of one job in one room: the last, and two before it in case that one cannot be read. */
export const CHECKPOINTS_KEPT = 3;

const FORMAT = 1;
const HASH_BYTES = 16;
const PREFIX_BYTES = HASH_BYTES + 4;

const count = v.pipe(v.number(), v.integer(), v.minValue(0));

export const CheckpointMeta = v.strictObject({
  /** Told apart by it; also the name it is stored under. */
  id: v.pipe(v.string(), v.regex(/^[\w-]{1,64}$/)),
  room: v.string(),
  job: JobSpec,
  /** Milliseconds since 1970. */
  savedAt: v.pipe(v.number(), v.finite()),
  /** Steps done. */
  step: count,
  /** Where the data cursor is. */
  position: v.strictObject({ dataEpoch: count, offset: count }),
  /** Steps between two tests on held-out samples. */
  evaluateEvery: count,
  /** Milliseconds that steps have taken, where their time has a bound; those of earlier versions do not say. */
  trainedMs: v.optional(v.pipe(v.number(), v.finite(), v.minValue(0)), 0),
  /** Of all ranks' samples, by step. */
  losses: v.array(v.pipe(v.number(), v.finite())),
  /** Digest of the replica's state, as ranks compare it. */
  stateHash: v.string(),
  worldSize: v.pipe(count, v.minValue(1)),
});
export type CheckpointMeta = v.InferOutput<typeof CheckpointMeta>;

const ARRAYS = { Float32Array, Float64Array, Int32Array, Uint32Array, Uint8Array };
type ArrayName = keyof typeof ARRAYS;
const ARRAY_NAMES = Object.keys(ARRAYS) as ArrayName[];

/** What state is made of: parameters and running averages, an optimizer's counters, random state, bytes. */
export type StateArray = Float32Array | Float64Array | Int32Array | Uint32Array | Uint8Array;

const Header = v.strictObject({
  format: v.literal(FORMAT),
  meta: CheckpointMeta,
  arrays: v.array(v.strictObject({ type: v.picklist(ARRAY_NAMES), length: count })),
});
type Header = v.InferOutput<typeof Header>;

export interface CheckpointList {
  /** The latest first. */
  checkpoints: CheckpointMeta[];
  /** What is stored and is no whole checkpoint, with a sentence each. */
  damaged: { id: string; reason: string }[];
}

export class Checkpoints {
  readonly #store: BlobStore;

  private constructor(store: BlobStore) {
    this.#store = store;
  }

  /**
   * Those of this browser.
   *
   * @param medium by default the preferred one; the same each time, or they will not be found.
   * @throws (rejects) StorageError where storage is blocked; so do all methods.
   */
  static async open(medium?: Medium): Promise<Checkpoints> {
    return new Checkpoints(await explained('be opened', openBlobStore(medium ?? (await preferredMedium()))));
  }

  /**
   * Keeps `arrays` as they are now, then removes the oldest of the same room and job beyond {@link CHECKPOINTS_KEPT}. Tabs may
   * save at the same time, under different ids.
   *
   * @throws (rejects) UsageError where `meta` is not what it must be, StorageError where there is no room for it.
   */
  async save(meta: CheckpointMeta, arrays: readonly StateArray[]): Promise<void> {
    const own = parseMeta(meta);
    const bytes = encode(own, arrays);
    const size = `${(bytes.length / 2 ** 20).toFixed(1)} MiB`;
    await explained(`keep a checkpoint of ${size}`, this.#store.write(own.id, bytes));
    const { checkpoints } = await this.list();
    const others = checkpoints.filter((other) => other.id !== own.id && isSameRun(other, own));
    // The latest come first, whatever the clock says of this one.
    for (const { id } of others.slice(CHECKPOINTS_KEPT - 1)) await this.remove(id);
  }

  /** All checkpoints that are whole. Whether their bytes are right is seen when they are loaded. */
  async list(): Promise<CheckpointList> {
    const list: CheckpointList = { checkpoints: [], damaged: [] };
    for (const id of await explained('be read', this.#store.names())) {
      const blob = await explained('be read', this.#store.read(id));
      // Written or removed at this moment, or none of ours: browsers keep files beside those that are written.
      if (!blob || !v.is(CheckpointMeta.entries.id, id)) continue;
      try {
        list.checkpoints.push((await readHeader(id, blob)).header.meta);
      } catch (error) {
        list.damaged.push({ id, reason: messageOf(error) });
      }
    }
    list.checkpoints.sort((a, b) => b.savedAt - a.savedAt);
    return list;
  }

  /** @throws (rejects) DataError where there is no such checkpoint, or its bytes are not those that were saved. */
  async load(id: string): Promise<{ meta: CheckpointMeta; arrays: StateArray[] }> {
    const blob = await explained('be read', this.#store.read(id));
    if (!blob) throw new DataError(`There is no checkpoint ${id} in this browser any more: choose another.`);
    const { header, hash, bytes } = await readHeader(id, blob);
    const arrays: StateArray[] = [];
    let at = PREFIX_BYTES + bytes.length;
    for (const { type, length } of header.arrays) {
      const end = at + length * ARRAYS[type].BYTES_PER_ELEMENT;
      arrays.push(new ARRAYS[type](await explained('be read', blob.slice(at, end).arrayBuffer())));
      at = end;
    }
    if (hashState([bytes, ...arrays]) !== hash) throw damage(id, 'its bytes are not those that were saved');
    return { meta: header.meta, arrays };
  }

  /** Removes it, if it is there. */
  async remove(id: string): Promise<void> {
    await explained(`remove checkpoint ${id}`, this.#store.remove(id));
  }

  /** Removes all of one job in one room. */
  async removeRun(run: RunOf): Promise<void> {
    const { checkpoints } = await this.list();
    for (const one of checkpoints) if (isSameRun(one, run)) await this.remove(one.id);
  }
}

type RunOf = Pick<CheckpointMeta, 'room' | 'job'>;

/** Whether they are of the same job in the same room. */
export function isSameRun(a: RunOf, b: RunOf): boolean {
  return a.room === b.room && JSON.stringify(a.job) === JSON.stringify(b.job);
}

/** Copies the arrays, which may change from then on. */
function encode(meta: CheckpointMeta, arrays: readonly StateArray[]): Uint8Array<ArrayBuffer> {
  const shapes = arrays.map((array) => ({ type: array.constructor.name as ArrayName, length: array.length }));
  const header: Header = { format: FORMAT, meta, arrays: shapes };
  const text = new TextEncoder().encode(JSON.stringify(header));
  const hash = new TextEncoder().encode(hashState([text, ...arrays]));
  const size = arrays.reduce((sum, { byteLength }) => sum + byteLength, PREFIX_BYTES + text.length);
  const bytes = new Uint8Array(size);
  bytes.set(hash);
  new DataView(bytes.buffer).setUint32(HASH_BYTES, text.length, true);
  let at = PREFIX_BYTES;
  for (const { buffer, byteOffset, byteLength } of [text, ...arrays]) {
    bytes.set(new Uint8Array(buffer, byteOffset, byteLength), at);
    at += byteLength;
  }
  return bytes;
}

/** @throws (rejects) DataError where the blob is not as long as its header says, or has none. */
async function readHeader(id: string, blob: Blob): Promise<{ header: Header; hash: string; bytes: Uint8Array }> {
  const prefix = await explained('be read', blob.slice(0, PREFIX_BYTES).arrayBuffer());
  if (prefix.byteLength < PREFIX_BYTES) throw damage(id, 'it is cut off');
  const hash = new TextDecoder().decode(prefix.slice(0, HASH_BYTES));
  const end = PREFIX_BYTES + new DataView(prefix).getUint32(HASH_BYTES, true);
  if (end > blob.size) throw damage(id, 'it is cut off');
  const bytes = new Uint8Array(await explained('be read', blob.slice(PREFIX_BYTES, end).arrayBuffer()));
  const header = v.safeParse(Header, parseJson(bytes));
  if (!header.success || header.output.meta.id !== id) {
    throw damage(id, 'its header cannot be read, or is of another version of peergrad');
  }
  const lengths = header.output.arrays.map(({ type, length }) => length * ARRAYS[type].BYTES_PER_ELEMENT);
  const size = lengths.reduce((sum, bytesOfOne) => sum + bytesOfOne, end);
  if (blob.size !== size) throw damage(id, `it has ${blob.size} bytes of ${size}`);
  return { header: header.output, hash, bytes };
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}

function damage(id: string, what: string): DataError {
  return new DataError(`Checkpoint ${id} is damaged (${what}): remove it, and go on from another.`);
}

/** With its fields in the schema's order, by which jobs are compared. @throws UsageError */
function parseMeta(meta: CheckpointMeta): CheckpointMeta {
  const result = v.safeParse(CheckpointMeta, meta);
  if (result.success) return result.output;
  const [issue] = result.issues;
  throw new UsageError(`A checkpoint cannot be saved with this: ${v.getDotPath(issue) ?? ''}: ${issue.message}.`);
}

/** What storage says of itself, as a sentence. */
async function explained<T>(what: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof PeergradError) throw error;
    const isFull = error instanceof DOMException && error.name === 'QuotaExceededError';
    throw new StorageError(
      isFull
        ? `This browser's storage is full and could not ${what}: remove old checkpoints, or free space on the disk.`
        : `This browser's storage could not ${what}: ${messageOf(error)}.`,
    );
  }
}
