/**
 * Decodes pictures with the browser. They are cropped to a square and scaled to a given size.
 * Browsers decode and scale slightly differently, so pixels may differ between machines.
 */
import { pictureFormat } from '../spec/dataFiles.ts';
import { DataError } from '../util/errors.ts';

/**
 * Must be raised when decoding results in different pixels, because decoded pictures are stored.
 */
export const PICTURE_DECODER_VERSION = 1;

export interface PictureSize {
  /** Pixels per side. */
  side: number;
  /** Number of channels: 1 for grey; 3 for red, green and blue. */
  channels: 1 | 3;
}

/**
 * Decodes a picture. Returns pixels from 0 to 255 in the layout [side, side, channels].
 *
 * @param file the contents of the file.
 */
export type DecodePicture = (
  name: string,
  file: Uint8Array<ArrayBuffer>,
  size: PictureSize,
) => Promise<Uint8Array<ArrayBuffer>>;

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
 * MIME types of the formats that `ImageDecoder` decodes to the same pixels as `createImageBitmap`.
 * `ImageDecoder` scales the colours of JPEG and WebP pictures differently.
 */
const TYPES: Readonly<Record<string, string>> = { PNG: 'image/png', GIF: 'image/gif', BMP: 'image/bmp' };

/**
 * Decodes a picture with WebCodecs, which takes a third of the time of `createImageBitmap` for
 * small pictures, because their bytes stay in this process. Resolves with `null` if this browser
 * cannot decode this picture in this way, or if the picture must be turned.
 */
async function decodeFrame(data: Uint8Array<ArrayBuffer>, type: string | undefined): Promise<ImageBitmap | null> {
  // A browser whose frames do not state their rotation does not say how a photo must be turned.
  const isSupported = 'ImageDecoder' in globalThis && 'VideoFrame' in globalThis && 'rotation' in VideoFrame.prototype;
  if (type === undefined || !isSupported) return null;
  const decoder = new ImageDecoder({ data, type });
  try {
    const { image } = await decoder.decode();
    try {
      const { rotation, flip } = image as VideoFrame & { rotation: number; flip: boolean };
      return rotation === 0 && !flip ? await createImageBitmap(image) : null;
    } finally {
      image.close();
    }
  } catch {
    // `createImageBitmap` decodes some pictures that WebCodecs rejects.
    return null;
  } finally {
    decoder.close();
  }
}

/**
 * Returns the central square of the picture, scaled to `side` x `side` pixels. Transparent pixels
 * become white.
 *
 * @throws (rejects) DataError with the file's name if the file is damaged or this browser does not
 *   support its format.
 */
export const decodePicture: DecodePicture = async (name, file, { side, channels }) => {
  const format = pictureFormat(name, file);
  let bitmap: ImageBitmap;
  try {
    bitmap = (await decodeFrame(file, TYPES[format ?? ''])) ?? (await createImageBitmap(new Blob([file])));
  } catch (cause) {
    const why =
      format === null
        ? 'It is damaged, or not a picture. Replace or remove it.'
        : `It is a ${format} picture, which is damaged, or which this browser does not support. Convert it to JPEG or PNG, or remove it.`;
    throw new DataError(`${name} (${file.length} bytes) cannot be decoded. ${why}`, {}, { cause });
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
