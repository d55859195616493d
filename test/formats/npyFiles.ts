/** Creates tiny npy files for tests, in the same way as NumPy. */
import type { NumpyElementType } from '../../src/formats/storedArray.ts';

interface NpyOptions {
  type?: NumpyElementType;
  order?: '<' | '>' | '|';
  isFortran?: boolean;
  version?: 1 | 2 | 3;
}

const SETTERS: Record<NumpyElementType, (view: DataView, at: number, value: number, isLittleEndian: boolean) => void> =
  {
    b1: (view, at, value) => view.setUint8(at, value),
    i1: (view, at, value) => view.setInt8(at, value),
    u1: (view, at, value) => view.setUint8(at, value),
    i2: (view, at, value, little) => view.setInt16(at, value, little),
    u2: (view, at, value, little) => view.setUint16(at, value, little),
    i4: (view, at, value, little) => view.setInt32(at, value, little),
    u4: (view, at, value, little) => view.setUint32(at, value, little),
    i8: (view, at, value, little) => view.setBigInt64(at, BigInt(value), little),
    f4: (view, at, value, little) => view.setFloat32(at, value, little),
    f8: (view, at, value, little) => view.setFloat64(at, value, little),
  };

/** Returns an npy file of `values`, which must be in C order. */
export function npyFile(
  shape: readonly number[],
  values: ArrayLike<number>,
  { type = 'f4', order = '<', isFortran = false, version = 1 }: NpyOptions = {},
): Uint8Array<ArrayBuffer> {
  const sides = shape.length === 1 ? `${shape[0]},` : shape.join(', ');
  const start = version === 1 ? 10 : 12;
  const dictionary = `{'descr': '${order}${type}', 'fortran_order': ${isFortran ? 'True' : 'False'}, 'shape': (${sides}), }`;
  const padding = (64 - ((start + dictionary.length + 1) % 64)) % 64;
  const header = `${dictionary}${' '.repeat(padding)}\n`;
  const size = Number(type[1]);
  const bytes = new Uint8Array(start + header.length + values.length * size);
  const view = new DataView(bytes.buffer);
  bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, version, 0]);
  if (version === 1) view.setUint16(8, header.length, true);
  else view.setUint32(8, header.length, true);
  bytes.set(new TextEncoder().encode(header), start);
  for (let i = 0; i < values.length; i++) {
    const place = isFortran ? fortranPlace(i, shape) : i;
    SETTERS[type](view, start + header.length + place * size, values[i]!, order !== '>');
  }
  return bytes;
}

/** Returns the index in Fortran order of the element that has index `i` in C order. */
function fortranPlace(i: number, shape: readonly number[]): number {
  let rest = i;
  let place = 0;
  for (let k = shape.length - 1; k >= 0; k--) {
    const stride = shape.slice(0, k).reduce((product, side) => product * side, 1);
    place += (rest % shape[k]!) * stride;
    rest = Math.floor(rest / shape[k]!);
  }
  return place;
}
