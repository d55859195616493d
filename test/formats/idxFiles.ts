/** Creates tiny IDX files for tests. */
import { gzipSync } from 'node:zlib';

/** Returns a file of `count` images of height x width. Pixel k of the file is k * 7 modulo 256. */
export function imagesFile(count: number, height = 28, width = 28): Uint8Array<ArrayBuffer> {
  const pixels = Uint8Array.from({ length: count * height * width }, (_, k) => k * 7);
  return idxFile([count, height, width], pixels);
}

/** Returns a file of labels 0, 1, .. 9, 0, ... */
export function labelsFile(count: number): Uint8Array<ArrayBuffer> {
  return idxFile(
    [count],
    Uint8Array.from({ length: count }, (_, i) => i % 10),
  );
}

export function idxFile(dims: readonly number[], values: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(4 + 4 * dims.length + values.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, 0x0800 + dims.length);
  dims.forEach((side, i) => view.setUint32(4 + 4 * i, side));
  bytes.set(values, 4 + 4 * dims.length);
  return bytes;
}

export function gzip(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(gzipSync(bytes));
}
