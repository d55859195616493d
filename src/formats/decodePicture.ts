/**
 * Decodes pictures with the browser. They are cropped to a square and scaled to a given size.
 * Browsers decode and scale slightly differently, so pixels may differ between machines.
 */
import { HEAD_BYTES, pictureFormat } from '../spec/dataFiles.ts';
import { DataError } from '../util/errors.ts';

export interface PictureSize {
  /** Pixels per side. */
  side: number;
  /** Number of channels: 1 for grey; 3 for red, green and blue. */
  channels: 1 | 3;
}

/** Decodes a picture. Returns pixels from 0 to 255 in the layout [side, side, channels]. */
export type DecodePicture = (name: string, blob: Blob, size: PictureSize) => Promise<Uint8Array>;

/**
 * The canvas of the latest picture. It is reused, because all pictures of a job have the same size.
 */
let latest: OffscreenCanvasRenderingContext2D | null = null;

function contextOf(side: number): OffscreenCanvasRenderingContext2D {
  if (latest?.canvas.width !== side) {
    latest = new OffscreenCanvas(side, side).getContext('2d', { willReadFrequently: true })!;
  }
  return latest;
}

/**
 * Returns the central square of the picture, scaled to `side` x `side` pixels. Transparent pixels
 * become white.
 *
 * @throws (rejects) DataError with the file's name if the file is damaged or this browser does not
 *   support its format.
 */
export const decodePicture: DecodePicture = async (name, blob, { side, channels }) => {
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(blob);
  } catch (cause) {
    const format = pictureFormat(name, new Uint8Array(await blob.slice(0, HEAD_BYTES).arrayBuffer()));
    const why =
      format === null
        ? 'It is damaged, or not a picture. Replace or remove it.'
        : `It is a ${format} picture, which is damaged, or which this browser does not support. Convert it to JPEG or PNG, or remove it.`;
    throw new DataError(`${name} (${blob.size} bytes) cannot be decoded. ${why}`, {}, { cause });
  }
  const context = contextOf(side);
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
    // Grey is the luma of Rec. 601, computed with integers.
    if (channels === 1) pixels[at] = (299 * red + 587 * green + 114 * blue + 500) / 1000;
    else {
      pixels[3 * at] = red;
      pixels[3 * at + 1] = green;
      pixels[3 * at + 2] = blue;
    }
  }
  return pixels;
};
