import { encode } from 'uqr';
import { expect, test } from 'vitest';
import { qrCodeOf } from '../../src/util/qrCode.ts';

test('the path of a QR code draws its dark modules, with a border of two light ones', () => {
  const link = 'https://192.168.1.5:8080/#K7F3QX';
  const { size, path } = qrCodeOf(link);
  const drawn = Array.from(path.matchAll(/M(\d+),(\d+)h1v1h-1z/g), ([, x, y]) => `${x},${y}`);
  const { data } = encode(link, { border: 2, ecc: 'M' });
  const dark = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`${x},${y}`] : [])));
  expect(drawn).toEqual(dark);
  expect(size).toBe(data.length);
});
