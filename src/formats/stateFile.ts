/**
 * A training state as bytes: a digest of all that follows (16 hexadecimal digits), the header's
 * length (4 bytes, little-endian), the header as JSON, and the arrays' bytes, one array after the
 * other. The header contains the caller's metadata, and the type and length of each array.
 */
import { joinBytes } from '../util/bytes.ts';
import * as v from 'valibot';
import { DataError } from '../util/errors.ts';
import { hashOfArrays } from '../util/hash.ts';
import { parseJson } from '../util/json.ts';
import { countSchema } from '../protocol/scalars.ts';

const FORMAT = 1;
const HASH_BYTES = 16;
const PREFIX_BYTES = HASH_BYTES + 4;

const ARRAYS = { Float32Array, Float64Array, Int32Array, Uint32Array, Uint8Array };
type ArrayName = keyof typeof ARRAYS;
const ARRAY_NAMES = Object.keys(ARRAYS) as ArrayName[];

/**
 * The arrays that make up the state: parameters, running averages, an optimizer's counters, random
 * state, bytes.
 */
export type StateArray = Float32Array | Float64Array | Int32Array | Uint32Array | Uint8Array;

const Header = v.strictObject({
  format: v.literal(FORMAT),
  meta: v.unknown(),
  arrays: v.array(v.strictObject({ type: v.picklist(ARRAY_NAMES), length: countSchema })),
});
type Header = v.InferOutput<typeof Header>;

/**
 * Encodes a state. The arrays are copied, so the caller may change them afterwards.
 *
 * @param meta plain JSON.
 */
export function encodeStateFile(meta: unknown, arrays: readonly StateArray[]): Uint8Array<ArrayBuffer> {
  const shapes = arrays.map((array) => ({ type: array.constructor.name as ArrayName, length: array.length }));
  const header: Header = { format: FORMAT, meta, arrays: shapes };
  const text = new TextEncoder().encode(JSON.stringify(header));
  const hash = new TextEncoder().encode(hashOfArrays([text, ...arrays]));
  const length = new DataView(new ArrayBuffer(PREFIX_BYTES - HASH_BYTES));
  length.setUint32(0, text.length, true);
  return joinBytes([hash, length, text, ...arrays]);
}

/**
 * Reads the metadata without the arrays. The arrays' bytes are not verified; {@link
 * decodeStateFile} verifies them.
 *
 * @param name the checkpoint's name in errors.
 * @param schema the schema of the metadata.
 * @throws (rejects) DataError if the header is missing, or if the file's length differs from the
 *   length that follows from the header. Errors of reading `blob` are passed on.
 */
export async function readStateFileMeta<S extends v.GenericSchema>(
  name: string,
  blob: Blob,
  schema: S,
): Promise<v.InferOutput<S>> {
  return (await readHeader(name, blob, schema)).meta;
}

/**
 * Reads the whole state.
 *
 * @throws (rejects) as {@link readStateFileMeta}, and DataError if the digest does not match the
 *   bytes.
 */
export async function decodeStateFile<S extends v.GenericSchema>(
  name: string,
  blob: Blob,
  schema: S,
): Promise<{ meta: v.InferOutput<S>; arrays: StateArray[] }> {
  const { meta, shapes, hash, bytes } = await readHeader(name, blob, schema);
  const arrays: StateArray[] = [];
  let at = PREFIX_BYTES + bytes.length;
  for (const { type, length } of shapes) {
    const end = at + length * ARRAYS[type].BYTES_PER_ELEMENT;
    arrays.push(new ARRAYS[type](await blob.slice(at, end).arrayBuffer()));
    at = end;
  }
  if (hashOfArrays([bytes, ...arrays]) !== hash) throw damage(name, 'its bytes are not those that were saved');
  return { meta, arrays };
}

/**
 * Returns whether a file that begins with `head` looks like a state.
 *
 * @param head 21 bytes or more.
 */
export function looksLikeStateFile(head: Uint8Array): boolean {
  const isHash = /^[0-9a-f]{16}$/.test(new TextDecoder().decode(head.subarray(0, HASH_BYTES)));
  return isHash && head[PREFIX_BYTES] === '{'.charCodeAt(0);
}

async function readHeader<S extends v.GenericSchema>(
  name: string,
  blob: Blob,
  schema: S,
): Promise<{ meta: v.InferOutput<S>; shapes: Header['arrays']; hash: string; bytes: Uint8Array }> {
  const prefix = await blob.slice(0, PREFIX_BYTES).arrayBuffer();
  if (prefix.byteLength < PREFIX_BYTES) throw damage(name, `it is cut off after ${blob.size} bytes`);
  const hash = new TextDecoder().decode(prefix.slice(0, HASH_BYTES));
  const end = PREFIX_BYTES + new DataView(prefix).getUint32(HASH_BYTES, true);
  if (end > blob.size)
    throw damage(name, `it is cut off: its header ends at byte ${end}, but the file has only ${blob.size} bytes`);
  const bytes = new Uint8Array(await blob.slice(PREFIX_BYTES, end).arrayBuffer());
  const header = v.safeParse(Header, parseJson(bytes));
  const meta = v.safeParse(schema, header.success ? header.output.meta : undefined);
  if (!header.success || !meta.success) {
    throw damage(name, 'its header cannot be read, or was written by another program or version of peergrad');
  }
  const shapes = header.output.arrays;
  const size = shapes.reduce((sum, { type, length }) => sum + length * ARRAYS[type].BYTES_PER_ELEMENT, end);
  if (blob.size !== size) throw damage(name, `it has ${blob.size} bytes instead of ${size}`);
  return { meta: meta.output, shapes, hash, bytes };
}

function damage(name: string, what: string): DataError {
  return new DataError(`${name} is damaged (${what}). Remove this checkpoint and continue from another one.`);
}
