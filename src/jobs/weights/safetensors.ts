/**
 * The safetensors format. A file contains the length of the header (8 bytes, little-endian), the
 * header as JSON, and the tensors without gaps. The header has an entry for each tensor: dtype,
 * shape, and offsets of its first byte and its end. The header may also have texts under
 * `__metadata__`, and it is padded with spaces to a multiple of 8 bytes.
 *
 * Files are written with tensors sorted by name. They have the same bytes as files of Hugging
 * Face's library. Tensors have TensorFlow's layout: the kernel of a dense layer is [in, out], that
 * of a convolution [height, width, in, out]. docs/export.md shows how to transpose them for
 * PyTorch.
 *
 * Source: https://github.com/huggingface/safetensors#format
 */
import * as v from 'valibot';
import { DataError } from '../../util/errors.ts';
import { parseJson } from '../../util/json.ts';
import { sizeOf } from '../../util/shape.ts';
import type { About, NamedTensor } from './namedTensor.ts';

const LENGTH_BYTES = 8;
/** Maximum length of a header. Hugging Face's library has the same limit. */
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
 * Reads a safetensors file.
 *
 * @param file the file's name in errors.
 * @throws DataError if the file is cut off, its header is invalid, a tensor is not float32 or does
 *   not match its shape, or there are overlaps or gaps between tensors.
 */
export function readSafetensors(
  file: string,
  bytes: Uint8Array<ArrayBuffer>,
): { tensors: NamedTensor[]; about: About } {
  const header = readHeader(file, bytes);
  const { [METADATA]: metadata = {}, ...entries } = header.entries;
  const about = v.safeParse(Metadata, metadata);
  if (!about.success) throw refusal(file, LENGTH_BYTES, `${METADATA} contains values that are not texts`);
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
      throw refusal(file, at, `tensor "${name}" is ${dtype}, but only F32 is supported (save it as float32)`);
    }
    if (begin < last.end) throw refusal(file, at, `tensor "${name}" overlaps ${last.name}`);
    if (begin > last.end)
      throw refusal(file, header.end + last.end, `the bytes after ${last.name} do not belong to a tensor`);
    const length = sizeOf(shape) * Float32Array.BYTES_PER_ELEMENT;
    if (end - begin !== length) {
      const says = `[${shape.join(', ')}] needs ${length} bytes`;
      throw refusal(file, at, `tensor "${name}" has ${end - begin} bytes, but its shape ${says}`);
    }
    if (end > available) {
      throw refusal(file, bytes.length, `it ends within tensor "${name}", ${end - available} bytes too early`);
    }
    last = { name: `tensor "${name}"`, end };
    return { name, shape, values: new Float32Array(bytes.slice(at, header.end + end).buffer) };
  });
  if (last.end < available)
    throw refusal(file, header.end + last.end, `the bytes after ${last.name} do not belong to a tensor`);
  return { tensors, about: about.output };
}

/** Reads the header. `end` is the offset of the first tensor. */
function readHeader(file: string, bytes: Uint8Array): { entries: Record<string, unknown>; end: number } {
  if (bytes.length < LENGTH_BYTES) throw refusal(file, bytes.length, 'it ends within the length of its header');
  const length = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true);
  if (length > BigInt(MAX_HEADER_BYTES)) throw refusal(file, 0, `the header's length of ${length} bytes is invalid`);
  const end = LENGTH_BYTES + Number(length);
  if (end > bytes.length)
    throw refusal(file, bytes.length, `it ends within its header, but the header ends at byte ${end}`);
  const entries = parseJson(bytes.subarray(LENGTH_BYTES, end));
  if (typeof entries !== 'object' || entries === null || Array.isArray(entries)) {
    throw refusal(file, LENGTH_BYTES, 'its header is not a JSON object');
  }
  return { entries: entries as Record<string, unknown>, end };
}

function refusal(file: string, at: number, what: string): DataError {
  return new DataError(`${file} is not a complete safetensors file: at byte ${at}, ${what}. Copy or save it again.`);
}
