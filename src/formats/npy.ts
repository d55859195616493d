/**
 * Reader for npy, NumPy's array format, versions 1 to 3: a magic string, a header in the syntax of
 * a Python dictionary, then the elements.
 *
 * Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 */
import { DataError } from '../util/errors.ts';
import { elementCountOf } from '../util/shape.ts';
import { bytesPerElement, NUMPY_ELEMENT_TYPES, StoredArray, type NumpyElementType } from './storedArray.ts';
import { PartialFile } from './partialFile.ts';

/** \x93NUMPY */
const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];
/**
 * Maximum length of a header. A longer header describes records with many fields, which are not
 * supported.
 */
const MAX_HEADER_BYTES = 64 * 1024;
/** Maximum size of an array in Fortran order. Such an array is converted to C order in memory. */
const MAX_FORTRAN_BYTES = 512 * 1024 * 1024;

interface Header {
  type: NumpyElementType;
  isLittleEndian: boolean;
  isFortran: boolean;
  shape: number[];
  /** Byte offset of the first element. */
  offset: number;
}

/**
 * Opens an npy file. Its elements are read on demand.
 *
 * @param name the file's name in errors.
 * @throws (rejects) DataError if the file is not npy, has an unsupported element type, or its
 *   length differs from the length that follows from its header.
 */
export async function openNpy(name: string, blob: Blob): Promise<StoredArray> {
  const file = new PartialFile(name, blob);
  const header = await readHeader(file);
  const { type, isLittleEndian, isFortran, shape, offset } = header;
  const bytes = elementCountOf(shape) * bytesPerElement(type);
  if (file.size !== offset + bytes) {
    throw new DataError(
      `${name} ${file.size < offset + bytes ? 'ends too early' : 'is longer than its header says'}: an array of shape (${shape.join(', ')}) and type ` +
        `${type} starts at byte ${offset} and must end at byte ${offset + bytes}, but the file ends at byte ${file.size}. Save it again.`,
    );
  }
  if (shape.length < 2 || !isFortran) return new StoredArray(file, { shape, type, isLittleEndian, offset });
  if (bytes > MAX_FORTRAN_BYTES) {
    throw new DataError(
      `${name} has ${bytes} bytes in Fortran order, but at most ${MAX_FORTRAN_BYTES} are supported. Save the result of ` +
        'numpy.ascontiguousarray instead.',
    );
  }
  const rows = rowsOf(await file.read(offset, offset + bytes), shape, bytesPerElement(type));
  return new StoredArray(new PartialFile(name, new Blob([rows])), { shape, type, isLittleEndian, offset: 0 });
}

async function readHeader(file: PartialFile): Promise<Header> {
  const { name } = file;
  const head = await file.read(0, 12);
  const wrong = MAGIC.findIndex((byte, i) => head[i] !== byte);
  if (wrong !== -1) {
    throw new DataError(
      `${name} is not an npy file: byte ${wrong} is ${head[wrong] ?? 'missing'}, but npy files have ${MAGIC[wrong]} there. Save the array with ` +
        'numpy.save or numpy.savez.',
    );
  }
  const version = head[6];
  if (version !== 1 && version !== 2 && version !== 3) {
    throw new DataError(
      `${name} has npy version ${version ?? '(missing)'} at byte 6, but only versions 1, 2 and 3 are supported. Save it with another version of NumPy.`,
    );
  }
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const start = version === 1 ? 10 : 12;
  const length = head.length < start ? 0 : version === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  const offset = start + length;
  if (length === 0 || length > MAX_HEADER_BYTES || offset > file.size) {
    throw new DataError(
      `${name} is damaged at byte 8: its header would have ${length} bytes, but the file has ${file.size}. Save it again.`,
    );
  }
  const text = new TextDecoder(version === 3 ? 'utf-8' : 'latin1').decode(await file.read(start, offset));
  return { ...parseHeader(name, start, text), offset };
}

/** Parses a header such as `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`. */
function parseHeader(name: string, start: number, text: string): Omit<Header, 'offset'> {
  const fail = (what: string): never => {
    throw new DataError(`${name}: the header at byte ${start} ${what}.`);
  };
  const descr = /'descr'\s*:\s*'([^']*)'/.exec(text)?.[1];
  const order = /'fortran_order'\s*:\s*(True|False)/.exec(text)?.[1];
  const sides = /'shape'\s*:\s*\(([\d,\s]*)\)/.exec(text)?.[1];
  if (descr === undefined && /'descr'\s*:\s*\[/.test(text)) {
    return fail('describes records with fields, but plain numbers are needed. Save one field, or save a CSV file');
  }
  if (descr === undefined || order === undefined || sides === undefined) {
    return fail(`does not contain type, order and shape: ${JSON.stringify(text.slice(0, 80))}. Save the array again`);
  }
  const type = NUMPY_ELEMENT_TYPES.find((known) => known === descr.slice(1));
  if (type === undefined || !'<>|='.includes(descr[0]!)) {
    return fail(
      `has type ${JSON.stringify(descr)}, but only ${NUMPY_ELEMENT_TYPES.join(', ')} are supported. Convert the array with astype`,
    );
  }
  const shape = sides
    .split(',')
    .map((side) => side.trim())
    .filter((side) => side !== '')
    .map(Number);
  if (!shape.every(Number.isSafeInteger)) return fail(`has shape (${sides}). This shape is too large`);
  return { type, isLittleEndian: descr[0] !== '>', isFortran: order === 'True', shape };
}

/**
 * Converts elements of `size` bytes from Fortran order (the first dimension varies fastest) to C
 * order.
 */
function rowsOf(columns: Uint8Array, shape: readonly number[], size: number): Uint8Array<ArrayBuffer> {
  const rows = new Uint8Array(columns.length);
  const strides = shape.map((_, i) => elementCountOf(shape.slice(0, i)));
  const at = shape.map(() => 0);
  for (let to = 0; to < rows.length; to += size) {
    const from = at.reduce((sum, index, i) => sum + index * strides[i]!, 0) * size;
    for (let byte = 0; byte < size; byte++) rows[to + byte] = columns[from + byte]!;
    for (let i = shape.length - 1; i >= 0 && ++at[i]! === shape[i]; i--) at[i] = 0;
  }
  return rows;
}
