/**
 * The safetensors format. A file contains the length of the header (8 bytes, little-endian), the
 * header as JSON, and the tensors without gaps. The header has an entry for each tensor: dtype,
 * shape, and offsets of its first byte and its end. The header may also have texts under
 * `__metadata__`, and it is padded with spaces to a multiple of 8 bytes.
 *
 * Files are written with tensors sorted by name. They have the same bytes as files of Hugging
 * Face's library. Tensors have TensorFlow's layout: the kernel of a dense layer is [in, out], and
 * the kernel of a convolution is [height, width, in, out]. docs/export.md shows how to transpose
 * them for PyTorch.
 *
 * Source: https://github.com/huggingface/safetensors#format
 */
import { bytesOfArray, joinBytes } from '../../util/bytes.ts';
import * as v from 'valibot';
import type { DataNote } from '../../spec/preview.ts';
import { DataError, errorMessageOf, UsageError } from '../../util/errors.ts';
import { parseJson } from '../../util/json.ts';
import { elementCountOf } from '../../util/shape.ts';
import { toFloat32, type FloatType } from './floatTypes.ts';
import {
  checkSavedTensorDigests,
  noteOnWeights,
  type WeightsMetadata,
  type DecodedWeights,
  type NamedTensor,
  type TensorEntry,
} from './namedTensor.ts';

const LENGTH_BYTES = 8;
/** Maximum length of a header. Hugging Face's library has the same limit. */
const MAX_HEADER_BYTES = 100_000_000;
const METADATA = '__metadata__';
const FLOATS: Readonly<Record<string, { type: FloatType; bytes: number }>> = {
  F16: { type: 'float16', bytes: 2 },
  BF16: { type: 'bfloat16', bytes: 2 },
  F32: { type: 'float32', bytes: 4 },
  F64: { type: 'float64', bytes: 8 },
};

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const Entry = v.strictObject({ dtype: v.string(), shape: v.array(count), data_offsets: v.tuple([count, count]) });
const Metadata = v.record(v.string(), v.string());

export function writeSafetensors(tensors: readonly NamedTensor[], about: WeightsMetadata): Uint8Array<ArrayBuffer> {
  const sorted = sortTensorsByName(tensors);
  return joinBytes([headerOf(sorted, about), ...sorted.map(({ values }) => values)]);
}

/** Sorts tensors by name: their order in a file. */
export function sortTensorsByName<T extends TensorEntry>(tensors: readonly T[]): T[] {
  return [...tensors].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Some consecutive values of a tensor. */
export type TensorPart = Pick<NamedTensor, 'name' | 'values'>;

/**
 * Yields the bytes of a file: the header, then the tensors' values as soon as they arrive. So the
 * memory holds only one part of a model at a time, even if the model is spread over several ranks.
 *
 * @param entries all tensors, in any order.
 * @param parts their values, {@link sortTensorsByName in the order of the file}. A tensor may have
 *   several parts.
 * @throws (rejects) UsageError if a part does not belong to the next tensor of the file, or values
 *   are missing.
 */
export async function* streamSafetensors(
  entries: readonly TensorEntry[],
  about: WeightsMetadata,
  parts: AsyncIterable<TensorPart>,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  const missing = sortTensorsByName(entries).map(({ name, shape }) => ({ name, values: elementCountOf(shape) }));
  yield headerOf(sortTensorsByName(entries), about);
  for await (const part of parts) {
    const [next] = missing;
    const isNext = next?.name === part.name && part.values.length <= next.values;
    if (!isNext) throw outOfOrder(next, `"${part.name}" with ${part.values.length} values`);
    next.values -= part.values.length;
    if (next.values === 0) missing.shift();
    yield bytesOfArray(part.values);
  }
  if (missing.length > 0) throw outOfOrder(missing[0], 'the end');
}

function outOfOrder(next: { name: string; values: number } | undefined, actual: string): UsageError {
  const wanted = next ? `"${next.name}" with ${next.values} values` : 'the end';
  return new UsageError(`The next tensor of the file must be ${wanted}, but it is ${actual}.`);
}

function headerOf(sorted: readonly TensorEntry[], about: WeightsMetadata): Uint8Array<ArrayBuffer> {
  const header: Record<string, unknown> = Object.keys(about).length > 0 ? { [METADATA]: about } : {};
  let end = 0;
  for (const { name, shape } of sorted) {
    const begin = end;
    end += elementCountOf(shape) * Float32Array.BYTES_PER_ELEMENT;
    header[name] = { dtype: 'F32', shape, data_offsets: [begin, end] };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = Math.ceil(text.length / LENGTH_BYTES) * LENGTH_BYTES;
  const bytes = new Uint8Array(LENGTH_BYTES + length).fill(0x20, LENGTH_BYTES);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length), true);
  bytes.set(text, LENGTH_BYTES);
  return bytes;
}

/**
 * Reads a safetensors file. Tensors whose type no weight has, such as integers, are left out, with
 * notes.
 *
 * @param file the file's name in errors.
 * @throws DataError if the file is cut off, its header is invalid, a tensor does not match its
 *   shape, there are overlaps or gaps between tensors, or a value is too large for float32.
 */
export function readSafetensors(file: string, bytes: Uint8Array<ArrayBuffer>): DecodedWeights {
  const header = readHeader(file, bytes, bytes.length);
  const { about, placed, notes } = checkHeader(file, header, bytes.length);
  const tensors = placed.map(({ name, shape, type, begin, end }) => ({
    name,
    shape,
    values: toFloat32(type, bytes.slice(begin, end), { file, name }),
  }));
  return { tensors, about, notes };
}

/** A safetensors file whose tensors are read one by one. */
export interface OpenSafetensors extends Omit<DecodedWeights, 'tensors'> {
  /** The file's tensors, in the order of their bytes in the file. */
  readonly entries: readonly TensorEntry[];
  /**
   * Reads the bytes of one tensor.
   *
   * @throws (rejects) DataError if the file has no such tensor, its bytes were changed after they
   *   were saved, or the file cannot be read.
   */
  readonly read: (name: string) => Promise<NamedTensor>;
}

/**
 * Reads the header of a file. A rank of a pipeline then reads the tensors of its own layers, so no
 * rank holds the whole file.
 *
 * @param file the file's name in errors.
 * @throws (rejects) DataError like {@link readSafetensors}, but the tensors' bytes are not checked.
 */
export async function openSafetensors(file: string, blob: Blob): Promise<OpenSafetensors> {
  const start = await readBytes(file, blob, 0, LENGTH_BYTES);
  const bytes = await readBytes(file, blob, 0, headerEnd(file, start));
  const { about, placed, notes } = checkHeader(file, readHeader(file, bytes, blob.size), blob.size);
  const places = new Map(placed.map((place) => [place.name, place]));
  return {
    about,
    notes,
    entries: placed.map(({ name, shape }) => ({ name, shape })),
    read: async (name) => {
      const place = places.get(name);
      if (!place) throw new DataError(`${file} does not contain "${name}". Choose the file of this model.`);
      const own = await readBytes(file, blob, place.begin, place.end);
      const tensor = { name, shape: place.shape, values: toFloat32(place.type, own, { file, name }) };
      checkSavedTensorDigests(file, [tensor], about);
      return tensor;
    },
  };
}

async function readBytes(file: string, blob: Blob, from: number, to: number): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return new Uint8Array(await blob.slice(from, to).arrayBuffer());
  } catch (cause) {
    throw new DataError(`${file} could not be read (${errorMessageOf(cause)}). Choose it again.`, {}, { cause });
  }
}

interface Header {
  entries: Record<string, unknown>;
  /** Offset of the first tensor. */
  end: number;
}

/** A tensor, and the positions of its first byte and its end in the file. */
interface TensorRange extends TensorEntry {
  type: FloatType;
  begin: number;
  end: number;
}

function checkHeader(
  file: string,
  header: Header,
  fileBytes: number,
): { about: WeightsMetadata; placed: TensorRange[]; notes: DataNote[] } {
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
  const available = fileBytes - header.end;
  let last = { name: 'the header', end: 0 };
  const notes: DataNote[] = [];
  const places = placed.flatMap(({ name, dtype, shape, data_offsets: [begin, end] }): TensorRange[] => {
    const at = header.end + begin;
    if (begin < last.end) throw refusal(file, at, `tensor "${name}" overlaps ${last.name}`);
    if (begin > last.end)
      throw refusal(file, header.end + last.end, `the bytes after ${last.name} do not belong to a tensor`);
    const float = Object.hasOwn(FLOATS, dtype) ? FLOATS[dtype]! : null;
    const length = float === null ? end - begin : elementCountOf(shape) * float.bytes;
    if (end - begin !== length) {
      const says = `[${shape.join(', ')}] needs ${length} bytes`;
      throw refusal(file, at, `tensor "${name}" has ${end - begin} bytes, but its shape ${says}`);
    }
    if (end > available) {
      throw refusal(file, fileBytes, `it ends within tensor "${name}", ${end - available} bytes too early`);
    }
    last = { name: `tensor "${name}"`, end };
    if (float === null) notes.push(noteOnWeights('weights-left-out', name, dtype));
    if (float?.type === 'float64') notes.push(noteOnWeights('weights-rounded', name, float.type));
    return float === null ? [] : [{ name, shape, type: float.type, begin: at, end: header.end + end }];
  });
  if (last.end < available)
    throw refusal(file, header.end + last.end, `the bytes after ${last.name} do not belong to a tensor`);
  return { placed: places, about: about.output, notes };
}

/** @param bytes the start of the file, at least up to the end of the header. */
function readHeader(file: string, bytes: Uint8Array, fileBytes: number): Header {
  const end = headerEnd(file, bytes);
  if (end > fileBytes) throw refusal(file, fileBytes, `it ends within its header, but the header ends at byte ${end}`);
  const entries = parseJson(bytes.subarray(LENGTH_BYTES, end));
  if (typeof entries !== 'object' || entries === null || Array.isArray(entries)) {
    throw refusal(file, LENGTH_BYTES, 'its header is not a JSON object');
  }
  return { entries: entries as Record<string, unknown>, end };
}

function headerEnd(file: string, bytes: Uint8Array): number {
  if (bytes.length < LENGTH_BYTES) throw refusal(file, bytes.length, 'it ends within the length of its header');
  const length = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true);
  if (length > BigInt(MAX_HEADER_BYTES)) throw refusal(file, 0, `the header's length of ${length} bytes is invalid`);
  return LENGTH_BYTES + Number(length);
}

function refusal(file: string, at: number, what: string): DataError {
  return new DataError(`${file} is not a complete safetensors file: at byte ${at}, ${what}. Copy or save it again.`);
}
