/** Creates tiny zip files for tests. */
import { crc32, deflateRawSync } from 'node:zlib';

interface ZipOptions {
  method?: 'stored' | 'deflated';
  /** Whether sizes and offsets have 64 bits, as in archives of more than 4 GB. */
  isWide?: boolean;
  flags?: number;
  /** Encodes names; by default as UTF-8. */
  encode?: (name: string) => Uint8Array;
}

/** Returns a zip file. The keys of `files` are paths. A path that ends in a slash is a folder. */
export function zipFile(
  files: Readonly<Record<string, Uint8Array>>,
  {
    method = 'deflated',
    isWide = false,
    flags = 1 << 11,
    encode = (name) => new TextEncoder().encode(name),
  }: ZipOptions = {},
): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const [path, bytes] of Object.entries(files)) {
    const name = encode(path);
    const packed = method === 'stored' ? bytes : deflateRawSync(bytes);
    const common = numbers([20, 2], [flags, 2], [method === 'stored' ? 0 : 8, 2], [0, 4], [crc32(bytes), 4]);
    const sizes = isWide ? numbers([-1, 4], [-1, 4]) : numbers([packed.length, 4], [bytes.length, 4]);
    const local = [numbers([0x04034b50, 4]), common, numbers([packed.length, 4], [bytes.length, 4])];
    const wide = isWide ? numbers([1, 2], [24, 2], [bytes.length, 8], [packed.length, 8], [offset, 8]) : numbers();
    directory.push(
      numbers([0x02014b50, 4], [20, 2]),
      common,
      sizes,
      numbers([name.length, 2], [wide.length, 2], [0, 2], [0, 2], [0, 2], [0, 4], [isWide ? -1 : offset, 4]),
      name,
      wide,
    );
    const entry = joined([...local, numbers([name.length, 2], [0, 2]), name, packed]);
    parts.push(entry);
    offset += entry.length;
  }
  const entries = joined(directory);
  const count = Object.keys(files).length;
  const ends = isWide
    ? [
        numbers([0x06064b50, 4], [44, 8], [45, 2], [45, 2], [0, 4], [0, 4], [count, 8], [count, 8]),
        numbers([entries.length, 8], [offset, 8]),
        numbers([0x07064b50, 4], [0, 4], [offset + entries.length, 8], [1, 4]),
      ]
    : [];
  const fits = (value: number): number => (isWide ? -1 : value);
  const end = numbers(
    [0x06054b50, 4],
    [0, 4],
    [fits(count), 2],
    [fits(count), 2],
    [entries.length, 4],
    [fits(offset), 4],
  );
  return joined([...parts, entries, ...ends, end, numbers([0, 2])]);
}

/** Encodes numbers as little-endian, each with its length in bytes. For -1, all bits are set. */
function numbers(...fields: [value: number, bytes: 2 | 4 | 8][]): Uint8Array {
  const view = new DataView(new ArrayBuffer(fields.reduce((sum, [, bytes]) => sum + bytes, 0)));
  let at = 0;
  for (const [value, bytes] of fields) {
    if (bytes === 2) view.setUint16(at, value, true);
    else if (bytes === 4) view.setUint32(at, value, true);
    else view.setBigUint64(at, BigInt(value), true);
    at += bytes;
  }
  return new Uint8Array(view.buffer);
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.concat(parts));
}
