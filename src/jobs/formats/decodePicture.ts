/**
 * Pictures as browsers decode them, cut to a square and brought to one size. Browsers differ in how
 * they decode and shrink, by a little: pixels need not be equal bit for bit on all machines.
 */
import { DataError } from '../../util/errors.ts';

/** What browsers decode. */
const PICTURE = /\.(png|jpe?g|gif|webp|bmp|avif)$/i;

export interface PictureSize {
  /** Pixels per side. */
  side: number;
  /** 1: grey. 3: red, green, blue. */
  channels: 1 | 3;
}

/** Pixels row by row, [side, side, channels], 0 .. 255. */
export type DecodePicture = (name: string, blob: Blob, size: PictureSize) => Promise<Uint8Array>;

/** Whether a file of that name should be a picture. */
export function isPicture(name: string): boolean {
  return PICTURE.test(name);
}

/**
 * The middle of the picture, on white where it is transparent.
 *
 * @throws (rejects) DataError, naming the file, if it is no picture that this browser knows, or a
 *   damaged one.
 */
export const decodePicture: DecodePicture = async (name, blob, { side, channels }) => {
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(blob);
  } catch (cause) {
    throw new DataError(
      `${name} (${blob.size} bytes) cannot be decoded: it is damaged, or no picture. Replace it, or take it out.`,
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
    // Rec. 601, as for televisions, in whole numbers.
    if (channels === 1) pixels[at] = (299 * red + 587 * green + 114 * blue + 500) / 1000;
    else pixels.set([red, green, blue], 3 * at);
  }
  return pixels;
};
