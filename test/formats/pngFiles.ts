/** Creates tiny PNG files for tests: 8 x 8 pixels of one colour. */
import { crc32, deflateSync } from 'node:zlib';

const SIDE = 8;

export function pngFile(red: number, green: number, blue: number): Uint8Array<ArrayBuffer> {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(SIDE, 0);
  header.writeUInt32BE(SIDE, 4);
  // 8 bits each of red, green and blue.
  header.set([8, 2], 8);
  const row = [0, ...Array.from({ length: SIDE }, () => [red, green, blue]).flat()];
  const rows = Buffer.from(Array.from({ length: SIDE }, () => row).flat());
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const chunks = [chunk('IHDR', header), chunk('IDAT', deflateSync(rows)), chunk('IEND', Buffer.alloc(0))];
  return new Uint8Array(Buffer.concat([signature, ...chunks]));
}

function chunk(name: string, data: Uint8Array): Uint8Array {
  const body = Buffer.concat([Buffer.from(name), data]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(data.length, 0);
  framed.set(body, 4);
  framed.writeUInt32BE(crc32(body), body.length + 4);
  return framed;
}
