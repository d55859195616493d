/**
 * Decodes pictures with the browser, cropped to a square and scaled to one size. Browsers decode
 * and scale slightly differently, so pixels may differ between machines.
 */
import { DataError } from '../../util/errors.ts';

/** File names of the formats that browsers decode. */
const PICTURE = /\.(png|jpe?g|gif|webp|bmp|avif)$/i;

export interface PictureSize {
  /** Pixels per side. */
  side: number;
  /** 1: grey. 3: red, green, blue. */
  channels: 1 | 3;
}

/** Returns pixels row by row, [side, side, channels], 0 .. 255. */
export type DecodePicture = (name: string, blob: Blob, size: PictureSize) => Promise<Uint8Array>;

/** Whether the file's name is that of a picture. */
export function isPicture(name: string): boolean {
  return PICTURE.test(name);
}

/**
 * The central square of the picture; transparent pixels become white.
 *
 * @throws (rejects) DataError, naming the file, if it is damaged or of a format that this browser
 *   does not support.
 */
export const decodePicture: DecodePicture = async (name, blob, { side, channels }) => {
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(blob);
  } catch (cause) {
    throw new DataError(
      `${name} (${blob.size} bytes) cannot be decoded: it is damaged or not a picture. Replace or remove it.`,
      {},
      { cause },
    );
  }
  const context = new OffscreenCanvas(side, side).getContext('2d', { willReadFrequently: true })!;
  context.fillStyle = 'white';
  context.fillRect(0, 0, side, side);
  context.imageSmoothingQuality = 'high';
  const { width, height } = bitmap;
  const square = Math.min(width, height);
  context.drawImage(bitmap, (width - square) / 2, (height - square) / 2, square, square, 0, 0, side, side);
  bitmap.close();
  const { data } = context.getImageData(0, 0, side, side);
  const pixels = new Uint8Array(side * side * channels);
  for (let at = 0; at < side * side; at++) {
    const [red, green, blue] = [data[4 * at]!, data[4 * at + 1]!, data[4 * at + 2]!];
    // Rec. 601 luma, in integers.
    if (channels === 1) pixels[at] = (299 * red + 587 * green + 114 * blue + 500) / 1000;
    else pixels.set([red, green, blue], 3 * at);
  }
  return pixels;
};
