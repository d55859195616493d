/**
 * A drawing, and the image of it that the model receives. The image is made like the training
 * images: the drawing is scaled into a box of 20 x 20 pixels, and then centred in 28 x 28 pixels.
 * The pen has the same width for drawings of all sizes, because strokes are stored as lines.
 */
import { clamp } from '../../util/clamp.ts';
import { InkRaster } from '../../jobs/digits/pen.ts';
import { BUILT_IN_IMAGE_SIDE } from '../../spec/inspection.ts';

/** The path of the pen as x, y, x, y and so on. The pad has the side 1, and y points down. */
export type DrawnStroke = readonly number[];
export type Drawing = readonly DrawnStroke[];

/**
 * The point of the drawing that is placed at the centre of the image: the centre of mass of the
 * ink, as in MNIST (LeCun et al., http://yann.lecun.com/exdb/mnist/), or the middle of the box, as
 * in generated digits. It must be the same as in the training images: otherwise, a model mistakes a
 * 9 for a 4.
 */
type Centre = 'mass' | 'box';

/** Side of the box that the drawing is scaled into, pixels. */
const BOX = 20;
/** Radius of the pen, pixels. MNIST's strokes are two to three pixels wide. */
const RADIUS = 1.2;
/**
 * A drawing that is smaller than this share of the pad is scaled as if it had this size, so that a
 * dot stays a dot.
 */
const LEAST_EXTENT = 0.1;
/**
 * The largest number of points in a drawing. This is enough for minutes of drawing. Painting this
 * number of points takes about a millisecond.
 */
export const MAX_DRAWING_POINTS = 4096;

/** Returns the drawing with a new stroke. */
export function beginStroke(drawing: Drawing, x: number, y: number): Drawing {
  return isFull(drawing) ? drawing : [...drawing, [inside(x), inside(y)]];
}

/** Returns the drawing with its latest stroke extended by a line. */
export function extendLatestStroke(drawing: Drawing, x: number, y: number): Drawing {
  const stroke = drawing.at(-1);
  if (stroke === undefined || isFull(drawing)) return drawing;
  return [...drawing.slice(0, -1), [...stroke, inside(x), inside(y)]];
}

function isFull(drawing: Drawing): boolean {
  return drawing.reduce((points, stroke) => points + stroke.length / 2, 0) >= MAX_DRAWING_POINTS;
}

function inside(place: number): number {
  return clamp(place, 0, 1);
}

/**
 * Returns the image as float32 [BUILT_IN_IMAGE_SIDE, BUILT_IN_IMAGE_SIDE], from 0 (paper) to 1
 * (ink), or `null` for an empty drawing.
 */
export function imageOfDrawing(drawing: Drawing, centre: Centre): Float32Array | null {
  const xs = drawing.flatMap((stroke) => stroke.filter((_, i) => i % 2 === 0));
  const ys = drawing.flatMap((stroke) => stroke.filter((_, i) => i % 2 === 1));
  if (xs.length === 0) return null;
  const [left, right, top, bottom] = [least(xs), most(xs), least(ys), most(ys)];
  const scale = (BOX - 2 * RADIUS) / Math.max(right - left, bottom - top, LEAST_EXTENT);
  const at = (dx: number, dy: number): Float32Array => {
    const raster = new InkRaster(BUILT_IN_IMAGE_SIDE);
    for (const stroke of drawing) {
      const line = stroke.map((place, i) =>
        i % 2 === 0
          ? (place - (left + right) / 2) * scale + BUILT_IN_IMAGE_SIDE / 2 + dx
          : (place - (top + bottom) / 2) * scale + BUILT_IN_IMAGE_SIDE / 2 + dy,
      );
      // A tap has a single point. It is drawn as a line that ends where it begins.
      raster.draw(line.length > 2 ? line : [...line, ...line], RADIUS, RADIUS);
    }
    return Float32Array.from({ length: BUILT_IN_IMAGE_SIDE ** 2 }, (_, pixel) => raster.coverage(pixel));
  };
  const boxed = at(0, 0);
  if (centre === 'box') return boxed;
  const mass = centreOfMass(boxed);
  // The shift is limited, so that no ink leaves the image.
  const shift = (mean: number, extent: number): number => {
    const room = (BUILT_IN_IMAGE_SIDE - extent * scale) / 2 - RADIUS;
    return clamp(BUILT_IN_IMAGE_SIDE / 2 - mean, -room, room);
  };
  return at(shift(mass.x, right - left), shift(mass.y, bottom - top));
}

/** Returns the centre of mass of the ink, in pixels from the upper left corner. */
function centreOfMass(image: Float32Array): { x: number; y: number } {
  let [x, y, sum] = [0, 0, 0];
  for (const [pixel, ink] of image.entries()) {
    x += ink * ((pixel % BUILT_IN_IMAGE_SIDE) + 0.5);
    y += ink * (Math.floor(pixel / BUILT_IN_IMAGE_SIDE) + 0.5);
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
