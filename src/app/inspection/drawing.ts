/**
 * A drawing, and the image that the model receives. The image is made like training images: the
 * drawing is scaled into a box of 20 x 20 pixels and centred in 28 x 28. Strokes are lines, so the
 * pen has the same width for drawings of all sizes.
 */
import { Raster } from '../../jobs/digits/pen.ts';
import { IMAGE_SIDE } from '../../spec/inspection.ts';

/** Path of the pen, x, y, x, y, … in sides of the pad; y points down. */
export type Stroke = readonly number[];
export type Drawing = readonly Stroke[];

/**
 * The centre of the image: the ink's centre of mass, as in MNIST (LeCun et al.,
 * http://yann.lecun.com/exdb/mnist/), or the middle of its box, as in generated digits. A model
 * trained on one kind takes a 9 of the other for a 4.
 */
type Centre = 'mass' | 'box';

/** Side of the box that the ink is scaled into, pixels. */
const BOX = 20;
/** Radius of the pen, pixels: MNIST's strokes are two to three wide. */
const RADIUS = 1.2;
/**
 * Smaller drawings, as a share of the pad, are scaled as if they had this size: a dot stays a dot.
 */
const LEAST_EXTENT = 0.1;
/** Points that a drawing keeps: minutes of drawing, painted in a millisecond. */
export const MAX_POINTS = 4096;

/** Begins a stroke. */
export function beginStroke(drawing: Drawing, x: number, y: number): Drawing {
  return isFull(drawing) ? drawing : [...drawing, [inside(x), inside(y)]];
}

/** Continues a stroke in a line. */
export function extendStroke(drawing: Drawing, x: number, y: number): Drawing {
  const stroke = drawing.at(-1);
  if (stroke === undefined || isFull(drawing)) return drawing;
  return [...drawing.slice(0, -1), [...stroke, inside(x), inside(y)]];
}

function isFull(drawing: Drawing): boolean {
  return drawing.reduce((points, stroke) => points + stroke.length / 2, 0) >= MAX_POINTS;
}

function inside(place: number): number {
  return Math.min(1, Math.max(0, place));
}

/** float32 [IMAGE_SIDE, IMAGE_SIDE], 0 (paper) .. 1 (ink); `null` for an empty drawing. */
export function imageOf(drawing: Drawing, centre: Centre): Float32Array | null {
  const xs = drawing.flatMap((stroke) => stroke.filter((_, i) => i % 2 === 0));
  const ys = drawing.flatMap((stroke) => stroke.filter((_, i) => i % 2 === 1));
  if (xs.length === 0) return null;
  const [left, right, top, bottom] = [least(xs), most(xs), least(ys), most(ys)];
  const scale = (BOX - 2 * RADIUS) / Math.max(right - left, bottom - top, LEAST_EXTENT);
  const at = (dx: number, dy: number): Float32Array => {
    const raster = new Raster(IMAGE_SIDE);
    for (const stroke of drawing) {
      const line = stroke.map((place, i) =>
        i % 2 === 0
          ? (place - (left + right) / 2) * scale + IMAGE_SIDE / 2 + dx
          : (place - (top + bottom) / 2) * scale + IMAGE_SIDE / 2 + dy,
      );
      // A tap is a line that ends where it begins.
      raster.draw(line.length > 2 ? line : [...line, ...line], RADIUS, RADIUS);
    }
    return Float32Array.from({ length: IMAGE_SIDE ** 2 }, (_, pixel) => raster.coverage(pixel));
  };
  const boxed = at(0, 0);
  if (centre === 'box') return boxed;
  const mass = centreOfMass(boxed);
  // No ink leaves the image, however uneven it is.
  const shift = (mean: number, extent: number): number => {
    const room = (IMAGE_SIDE - extent * scale) / 2 - RADIUS;
    return Math.min(room, Math.max(-room, IMAGE_SIDE / 2 - mean));
  };
  return at(shift(mass.x, right - left), shift(mass.y, bottom - top));
}

/** Pixels from the upper left corner. */
function centreOfMass(image: Float32Array): { x: number; y: number } {
  let [x, y, sum] = [0, 0, 0];
  for (const [pixel, ink] of image.entries()) {
    x += ink * ((pixel % IMAGE_SIDE) + 0.5);
    y += ink * (Math.floor(pixel / IMAGE_SIDE) + 0.5);
    sum += ink;
  }
  return { x: x / sum, y: y / sum };
}

function least(values: readonly number[]): number {
  return values.reduce((a, b) => Math.min(a, b));
}

function most(values: readonly number[]): number {
  return values.reduce((a, b) => Math.max(a, b));
}
