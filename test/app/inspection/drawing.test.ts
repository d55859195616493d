/** Tests of the image that the model receives for a drawing. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  beginStroke,
  extendLatestStroke,
  imageOfDrawing,
  MAX_DRAWING_POINTS,
  type Drawing,
} from '../../../src/app/inspection/drawing.ts';

const SIDE = 28;

/**
 * Returns the bounding box and the centre of mass of the ink, in pixels from the upper left corner.
 */
function inkOf(image: Float32Array) {
  const pixels = [...image.entries()].filter(([, ink]) => ink > 0.001);
  const xs = pixels.map(([at]) => at % SIDE);
  const ys = pixels.map(([at]) => Math.floor(at / SIDE));
  const sum = pixels.reduce((total, [, ink]) => total + ink, 0);
  const mean = (places: number[]) => pixels.reduce((total, [, ink], i) => total + ink * (places[i]! + 0.5), 0) / sum;
  return {
    left: Math.min(...xs),
    right: Math.max(...xs),
    top: Math.min(...ys),
    bottom: Math.max(...ys),
    mass: { x: mean(xs), y: mean(ys) },
    sum,
  };
}

const seven: Drawing = [[0.1, 0.2, 0.6, 0.2, 0.3, 0.9]];

describe('the image of a drawing', () => {
  test('is null for an empty drawing', () => {
    expect(imageOfDrawing([], 'mass')).toBeNull();
  });

  test('is scaled to a centred box of 20 x 20 pixels in the mode "box", whatever its size and position', () => {
    const image = imageOfDrawing(seven, 'box')!;
    expect(inkOf(image)).toMatchObject({ top: 4, bottom: 23 });
    const [stroke] = seven;
    const small = imageOfDrawing([stroke!.map((place) => 0.5 + place / 3)], 'box')!;
    for (const [pixel, ink] of image.entries()) expect(small[pixel]).toBeCloseTo(ink, 5);
  });

  test('has its centre of mass in the middle in the mode "mass", as in MNIST', () => {
    const boxed = inkOf(imageOfDrawing(seven, 'box')!);
    const { mass } = inkOf(imageOfDrawing(seven, 'mass')!);
    expect(mass.x).toBeCloseTo(SIDE / 2, 1);
    expect(mass.y).toBeCloseTo(SIDE / 2, 1);
    // The bar on top moves the centre of mass up.
    expect(boxed.mass.y).toBeLessThan(13);
  });

  test('has smooth edges and full ink inside', () => {
    const image = imageOfDrawing([[0.5, 0.1, 0.55, 0.9]], 'box')!;
    expect(Math.max(...image)).toBe(1);
    expect(image.some((ink) => ink > 0.2 && ink < 0.8)).toBe(true);
  });

  test('is a small dot in the middle if the drawing is a single point', () => {
    const { left, right, top, bottom, mass } = inkOf(imageOfDrawing([[0.9, 0.1]], 'mass')!);
    expect([right - left, bottom - top]).toEqual([3, 3]);
    expect(mass.x).toBeCloseTo(SIDE / 2, 5);
  });

  test('has ink values between 0 and 1 for any drawing', () => {
    const place = fc.float({ min: 0, max: 1, noNaN: true });
    const stroke = fc.array(fc.tuple(place, place), { minLength: 1, maxLength: 5 }).map((points) => points.flat());
    fc.assert(
      fc.property(fc.array(stroke, { minLength: 1, maxLength: 3 }), (drawing) => {
        const boxed = imageOfDrawing(drawing, 'box')!;
        const massed = imageOfDrawing(drawing, 'mass')!;
        for (const image of [boxed, massed]) expect(image.every((ink) => ink >= 0 && ink <= 1)).toBe(true);
        // A shift by a fraction of a pixel changes the edges.
        expect(inkOf(massed).sum / inkOf(boxed).sum).toBeGreaterThan(0.85);
      }),
    );
  });
});

describe('a drawing', () => {
  test('stays within the pad when the pen leaves the pad', () => {
    expect(extendLatestStroke(beginStroke([], -0.2, 0.5), 0.4, 1.7)).toEqual([[0, 0.5, 0.4, 1]]);
  });

  test('has a maximum number of points', () => {
    let drawing = beginStroke([], 0, 0);
    for (let i = 0; i < MAX_DRAWING_POINTS + 10; i++) drawing = extendLatestStroke(drawing, 1, i % 2);
    expect(drawing[0]).toHaveLength(2 * MAX_DRAWING_POINTS);
    expect(beginStroke(drawing, 0.5, 0.5)).toBe(drawing);
  });

  test('ignores pen moves before its first stroke', () => {
    expect(extendLatestStroke([], 0.5, 0.5)).toEqual([]);
  });
});
