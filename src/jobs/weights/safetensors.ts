/**
 * safetensors: the header's length (8 bytes, little-endian), a header as JSON (name -> dtype,
 * shape, first and last byte of what follows it, and texts under `__metadata__`), padded with
 * spaces to 8 bytes, then the tensors without gaps.
 *
 * What is written is byte for byte what Hugging Face's library writes, tensors by name. They keep
 * TensorFlow's layout: a dense kernel is [in, out], a convolution's [height, width, in, out];
 * docs/export.md turns them for PyTorch.
 *
 * Source: https://github.com/huggingface/safetensors#format
 */
import * as v from 'valibot';
import { DataError } from '../../util/errors.ts';
import { parseJson } from '../../util/json.ts';
import { sizeOf } from '../../util/shape.ts';
import type { About, NamedTensor } from './namedTensor.ts';

const LENGTH_BYTES = 8;
/** The library's own limit. */
const MAX_HEADER_BYTES = 100_000_000;
const METADATA = '__metadata__';

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const Entry = v.strictObject({ dtype: v.string(), shape: v.array(count), data_offsets: v.tuple([count, count]) });
const Metadata = v.record(v.string(), v.string());

export function writeSafetensors(tensors: readonly NamedTensor[], about: About): Uint8Array<ArrayBuffer> {
  const sorted = [...tensors].sort((a, b) => (a.name < b.name ? -1 : 1));
  const header: Record<string, unknown> = Object.keys(about).length > 0 ? { [METADATA]: about } : {};
  let end = 0;
  for (const { name, shape, values } of sorted) {
    const begin = end;
    end += values.byteLength;
    header[name] = { dtype: 'F32', shape, data_offsets: [begin, end] };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const headerBytes = Math.ceil(text.length / LENGTH_BYTES) * LENGTH_BYTES;
  const bytes = new Uint8Array(LENGTH_BYTES + headerBytes + end).fill(0x20, LENGTH_BYTES, LENGTH_BYTES + headerBytes);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(headerBytes), true);
  bytes.set(text, LENGTH_BYTES);
  let at = LENGTH_BYTES + headerBytes;
  for (const { values } of sorted) {
    bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), at);
    at += values.byteLength;
  }
  return bytes;
}

/**
 * @param file what to call it in errors.
 * @throws DataError where it is cut off, its header is no such header, or a tensor is not float32,
 *   lies outside of the file, over another, or is not as long as its shape says.
 */
export function readSafetensors(
  file: string,
  bytes: Uint8Array<ArrayBuffer>,
): { tensors: NamedTensor[]; about: About } {
  const header = readHeader(file, bytes);
  const { [METADATA]: metadata = {}, ...entries } = header.entries;
  const about = v.safeParse(Metadata, metadata);
  if (!about.success) throw refusal(file, LENGTH_BYTES, `${METADATA} holds something else than texts`);
  const placed = Object.entries(entries).map(([name, value]) => {
    const entry = v.safeParse(Entry, value);
    if (!entry.success) {
      const [issue] = entry.issues;
      throw refusal(file, LENGTH_BYTES, `tensor "${name}": ${v.getDotPath(issue) ?? 'its entry'}: ${issue.message}`);
    }
    return { name, ...entry.output };
  });
  placed.sort((a, b) => a.data_offsets[0] - b.data_offsets[0] || a.data_offsets[1] - b.data_offsets[1]);
  const available = bytes.length - header.end;
  let last = { name: 'the header', end: 0 };
  const tensors = placed.map(({ name, dtype, shape, data_offsets: [begin, end] }) => {
    const at = header.end + begin;
    if (dtype !== 'F32') {
      throw refusal(file, at, `tensor "${name}" is ${dtype}, and only F32 can be taken: save it as float32`);
    }
    if (begin < last.end) throw refusal(file, at, `tensor "${name}" lies over ${last.name}`);
    if (begin > last.end) throw refusal(file, header.end + last.end, `what follows ${last.name} belongs to no tensor`);
    const length = sizeOf(shape) * Float32Array.BYTES_PER_ELEMENT;
    if (end - begin !== length) {
      const says = `[${shape.join(', ')}] are ${length} bytes`;
      throw refusal(file, at, `tensor "${name}" has ${end - begin} bytes, and its shape ${says}`);
    }
    if (end > available) {
      throw refusal(file, bytes.length, `it ends within tensor "${name}", ${end - available} bytes too early`);
    }
    last = { name: `tensor "${name}"`, end };
    return { name, shape, values: new Float32Array(bytes.slice(at, header.end + end).buffer) };
  });
  if (last.end < available)
    throw refusal(file, header.end + last.end, `what follows ${last.name} belongs to no tensor`);
  return { tensors, about: about.output };
}

/** `end`: where the tensors begin. */
function readHeader(file: string, bytes: Uint8Array): { entries: Record<string, unknown>; end: number } {
  if (bytes.length < LENGTH_BYTES) throw refusal(file, bytes.length, 'it ends within the length of its header');
  const length = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true);
  if (length > BigInt(MAX_HEADER_BYTES)) throw refusal(file, 0, `a header of ${length} bytes cannot be`);
  const end = LENGTH_BYTES + Number(length);
  if (end > bytes.length) throw refusal(file, bytes.length, `it ends within its header, which goes to byte ${end}`);
  const entries = parseJson(bytes.subarray(LENGTH_BYTES, end));
  if (typeof entries !== 'object' || entries === null || Array.isArray(entries)) {
    throw refusal(file, LENGTH_BYTES, 'its header is no JSON object');
  }
  return { entries: entries as Record<string, unknown>, end };
}

function refusal(file: string, at: number, what: string): DataError {
  return new DataError(`${file} is no whole safetensors file: at byte ${at}, ${what}. Copy it again, or save it anew.`);
}
