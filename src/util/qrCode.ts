/** QR codes as one path of SVG. */
import { encode } from 'uqr';

/**
 * Cameras need four light modules around the code. Two of them are drawn here, and the margin of
 * the page adds the others.
 */
const BORDER = 2;

export interface QrCode {
  /** Width and height of the picture, in modules. */
  size: number;
  /** The dark modules, as the attribute `d` of a path. */
  path: string;
}

export function qrCodeOf(text: string): QrCode {
  const { data, size } = encode(text, { border: BORDER, ecc: 'M' });
  let path = '';
  data.forEach((row, y) =>
    row.forEach((dark, x) => {
      if (dark) path += `M${x},${y}h1v1h-1z`;
    }),
  );
  return { size, path };
}
