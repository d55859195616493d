/**
 * Checkpoints: the state of a run as bytes, to continue the run later in this browser or in another
 * one. Stored checkpoints and checkpoint files have the same format: a digest of all that follows
 * (16 hexadecimal digits), the header's length (4 bytes, little-endian), the header as JSON, and
 * the arrays' bytes, one array after the other.
 */
import * as v from 'valibot';
import { DataError, UsageError } from '../util/errors.ts';
import { hashState } from '../util/hash.ts';
import { parseJson } from '../util/json.ts';
import { JobSpec } from '../spec/job.ts';
import { ShardFacts } from '../spec/dataFacts.ts';
import { Vocabulary } from '../spec/vocabulary.ts';
import { count, finite } from './scalars.ts';

const FORMAT = 1;
const HASH_BYTES = 16;
const PREFIX_BYTES = HASH_BYTES + 4;

export const CheckpointMeta = v.strictObject({
  /** Identifies the checkpoint. It is also the name under which the checkpoint is stored. */
  id: v.pipe(v.string(), v.regex(/^[\w-]{1,64}$/)),
  room: v.string(),
  job: JobSpec,
  /** Milliseconds since 1970. */
  savedAt: finite,
  /** Steps done. */
  step: count,
  /** The position in the training data from which the run continues. */
  position: v.strictObject({ epoch: count, offset: count, parts: v.exactOptional(count) }),
  /** Steps between two evaluations on held-out samples. */
  evaluateEvery: count,
  /**
   * Training time in milliseconds when the latest step began. The job's time limit applies to it.
   */
  trainedMs: v.pipe(finite, v.minValue(0)),
  /**
   * The results of the latest two evaluations in a run with early stopping. `best` is the lowest
   * held-out loss, and `since` the number of evaluations since then.
   */
  verdicts: v.array(v.strictObject({ step: count, best: finite, bestStep: count, since: count })),
  /** For each step, the mean loss over the samples of all ranks. */
  losses: v.array(finite),
  /** Digest of the replica's state, computed in the same way as for comparisons between ranks. */
  stateHash: v.string(),
  worldSize: v.pipe(count, v.minValue(1)),
  /** The facts of the data on which all ranks agreed; missing unless the data come from files. */
  agreed: v.exactOptional(ShardFacts),
  /** Vocabulary of a language model; missing for other models. */
  vocabulary: v.exactOptional(Vocabulary),
});
export type CheckpointMeta = v.InferOutput<typeof CheckpointMeta>;

const ARRAYS = { Float32Array, Float64Array, Int32Array, Uint32Array, Uint8Array };
type ArrayName = keyof typeof ARRAYS;
const ARRAY_NAMES = Object.keys(ARRAYS) as ArrayName[];

/**
 * The arrays that make up the state: parameters, running averages, an optimizer's counters, random
 * state, bytes.
 */
export type StateArray = Float32Array | Float64Array | Int32Array | Uint32Array | Uint8Array;

export interface Checkpoint {
  meta: CheckpointMeta;
  arrays: StateArray[];
}

const Header = v.strictObject({
  format: v.literal(FORMAT),
  meta: CheckpointMeta,
  arrays: v.array(v.strictObject({ type: v.picklist(ARRAY_NAMES), length: count })),
});
type Header = v.InferOutput<typeof Header>;

/**
 * Encodes a checkpoint. The arrays are copied, so the caller may change them afterwards.
 *
 * @throws UsageError if `meta` does not match its schema.
 */
export function encodeCheckpoint(meta: CheckpointMeta, arrays: readonly StateArray[]): Uint8Array<ArrayBuffer> {
  const shapes = arrays.map((array) => ({ type: array.constructor.name as ArrayName, length: array.length }));
  const header: Header = { format: FORMAT, meta: parseMeta(meta), arrays: shapes };
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

/**
 * Reads the metadata without the arrays. It does not verify the arrays' bytes; {@link
 * decodeCheckpoint} does.
 *
 * @param name the checkpoint's name in errors.
 * @throws (rejects) DataError if the header is missing or the file's length is not the one in the
 *   header. Errors of reading `blob` are passed on.
 */
export async function readCheckpointMeta(name: string, blob: Blob): Promise<CheckpointMeta> {
  return (await readHeader(name, blob)).header.meta;
}

/**
 * Reads the whole checkpoint.
 *
 * @throws (rejects) as {@link readCheckpointMeta}, and DataError if the digest does not match the
 *   bytes.
 */
export async function decodeCheckpoint(name: string, blob: Blob): Promise<Checkpoint> {
  const { header, hash, bytes } = await readHeader(name, blob);
  const arrays: StateArray[] = [];
  let at = PREFIX_BYTES + bytes.length;
  for (const { type, length } of header.arrays) {
    const end = at + length * ARRAYS[type].BYTES_PER_ELEMENT;
    arrays.push(new ARRAYS[type](await blob.slice(at, end).arrayBuffer()));
    at = end;
  }
  if (hashState([bytes, ...arrays]) !== hash) throw damage(name, 'its bytes are not those that were saved');
  return { meta: header.meta, arrays };
}

/**
 * Returns whether a file that begins with `head` looks like a checkpoint.
 *
 * @param head 21 bytes or more.
 */
export function looksLikeCheckpoint(head: Uint8Array): boolean {
  const isHash = /^[0-9a-f]{16}$/.test(new TextDecoder().decode(head.subarray(0, HASH_BYTES)));
  return isHash && head[PREFIX_BYTES] === '{'.charCodeAt(0);
}

async function readHeader(name: string, blob: Blob): Promise<{ header: Header; hash: string; bytes: Uint8Array }> {
  const prefix = await blob.slice(0, PREFIX_BYTES).arrayBuffer();
  if (prefix.byteLength < PREFIX_BYTES) throw damage(name, `it is cut off after ${blob.size} bytes`);
  const hash = new TextDecoder().decode(prefix.slice(0, HASH_BYTES));
  const end = PREFIX_BYTES + new DataView(prefix).getUint32(HASH_BYTES, true);
  if (end > blob.size)
    throw damage(name, `it is cut off: its header ends at byte ${end}, but the file has only ${blob.size} bytes`);
  const bytes = new Uint8Array(await blob.slice(PREFIX_BYTES, end).arrayBuffer());
  const header = v.safeParse(Header, parseJson(bytes));
  if (!header.success) throw damage(name, 'its header cannot be read, or was written by another version of peergrad');
  const lengths = header.output.arrays.map(({ type, length }) => length * ARRAYS[type].BYTES_PER_ELEMENT);
  const size = lengths.reduce((sum, bytesOfOne) => sum + bytesOfOne, end);
  if (blob.size !== size) throw damage(name, `it has ${blob.size} bytes instead of ${size}`);
  return { header: header.output, hash, bytes };
}

function damage(name: string, what: string): DataError {
  return new DataError(`Checkpoint ${name} is damaged (${what}): remove it and continue from another checkpoint.`);
}

/**
 * Validates the metadata and sorts its fields as in the schema, because jobs are compared as JSON
 * text.
 *
 * @throws UsageError if the metadata do not match the schema.
 */
function parseMeta(meta: CheckpointMeta): CheckpointMeta {
  const result = v.safeParse(CheckpointMeta, meta);
  if (result.success) return result.output;
  const [issue] = result.issues;
  throw new UsageError(`The checkpoint cannot be saved: ${v.getDotPath(issue) ?? 'metadata'}: ${issue.message}.`);
}
