import { describe, expect, test } from 'vitest';
import { SyntheticDigits } from '../../../src/jobs/digits/digits.ts';
import { InkRaster, smoothLine } from '../../../src/jobs/digits/pen.ts';
import { HANDWRITING_STYLES } from '../../../src/jobs/digits/handwriting.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { hashOfArrays } from '../../../src/util/hash.ts';

const PIXELS = 784;

function read(data: SyntheticDigits, indices: readonly number[]) {
  const inputs = new Float32Array(indices.length * PIXELS);
  const labels = new Int32Array(indices.length);
  data.read(indices, inputs, labels);
  return { inputs, labels };
}

const firstHundred = Array.from({ length: 100 }, (_, i) => i);

describe('synthetic digits', () => {
  test('have fixed sizes and shapes, and balanced labels', () => {
    const train = new SyntheticDigits(1, 'train');
    expect(train).toMatchObject({ size: 20_000, inputShape: [28, 28, 1], classes: 10 });
    expect(new SyntheticDigits(1, 'test').size).toBe(2_000);
    expect([...read(train, [0, 7, 19_999, 30]).labels]).toEqual([0, 7, 9, 0]);
  });

  test('have the same bits on every machine', async () => {
    const { inputs, labels } = read(new SyntheticDigits(1, 'train'), firstHundred);
    expect(hashOfArrays([inputs, labels])).toBe('8a434d66da152390');
  });

  test('have the same pixels whether they are read alone or with other samples', () => {
    const together = read(new SyntheticDigits(5, 'train'), [12, 5_000, 3]).inputs;
    const data = new SyntheticDigits(5, 'train');
    [12, 5_000, 3].forEach((index, i) => {
      expect(read(data, [index]).inputs).toEqual(together.subarray(i * PIXELS, (i + 1) * PIXELS));
    });
  });

  test('differ if the seed, the split or the index differs', () => {
    const images = [
      read(new SyntheticDigits(1, 'train'), [3, 13]).inputs,
      read(new SyntheticDigits(2, 'train'), [3, 13]).inputs,
      read(new SyntheticDigits(1, 'test'), [3, 13]).inputs,
    ].flatMap((both) => [both.subarray(0, PIXELS), both.subarray(PIXELS)]);
    expect(new Set(images.map((image) => image.join())).size).toBe(6);
  });

  test('are floats from 0 to 1, with ink in every image and almost no ink in the corners', () => {
    const { inputs } = read(new SyntheticDigits(3, 'train'), firstHundred);
    expect(inputs.every((value) => value >= 0 && value <= 1)).toBe(true);
    for (let i = 0; i < 100; i++) {
      const image = inputs.subarray(i * PIXELS, (i + 1) * PIXELS);
      expect(image.filter((value) => value > 0.5).length).toBeGreaterThan(10);
      const corners = [0, 27, 27 * 28, 783].map((at) => image[at]!);
      expect(Math.max(...corners)).toBeLessThan(0.1);
    }
  });

  test('are written only to their own positions in the given arrays; invalid arguments are rejected', () => {
    const data = new SyntheticDigits(1, 'test');
    const inputs = new Float32Array(2 * PIXELS).fill(-1);
    data.read([4], inputs, new Int32Array(2));
    expect(inputs.indexOf(-1)).toBe(PIXELS);
    expect(() => data.read([2_000], inputs, new Int32Array(1))).toThrow(UsageError);
    expect(() => data.read([0, 1, 2], inputs, new Int32Array(3))).toThrow(UsageError);
  });

  test('have strokes with all points in the box of the digit', () => {
    expect(HANDWRITING_STYLES).toHaveLength(10);
    for (const stroke of HANDWRITING_STYLES.flat(2)) {
      expect(stroke.length % 2).toBe(0);
      expect(stroke.length).toBeGreaterThanOrEqual(6);
      expect(stroke.every((value, k) => value >= 0 && value <= (k % 2 === 0 ? 0.7 : 1))).toBe(true);
    }
  });
});

describe('the pen', () => {
  test('draws curves through all points, corners at doubled points, and a straight line between two points', () => {
    const curve = smoothLine([0, 0, 1, 2, 4, 1]);
    const points = Array.from({ length: curve.length / 2 }, (_, k) => `${curve[2 * k]},${curve[2 * k + 1]}`);
    expect(points).toEqual(expect.arrayContaining(['0,0', '1,2', '4,1']));
    const straight = smoothLine([0, 0, 3, 6]);
    for (let k = 0; k < straight.length; k += 2) expect(straight[k + 1]).toBeCloseTo(2 * straight[k]!, 12);
    const corner = smoothLine([0, 0, 1, 0, 1, 0, 1, 1]);
    for (let k = 0; k < corner.length; k += 2) expect(Math.min(1 - corner[k]!, corner[k + 1]!)).toBeCloseTo(0, 12);
  });

  test('gives full ink inside a line, half at its edge and none outside, and clear removes all ink', () => {
    const raster = new InkRaster(8);
    raster.draw([-5, 4, 20, 4], 1, 1);
    expect([1, 2, 3, 4, 5, 6].map((y) => raster.coverage(y * 8 + 4))).toEqual([0, 0, 1, 1, 0, 0]);
    raster.draw([4, -9, 6, -9], 1, 1);
    raster.draw([2.5, 7, 2.5, 7], 0.5, 0.5);
    expect(raster.coverage(7 * 8 + 2)).toBeCloseTo(0.5, 12);
    raster.clear();
    expect(Array.from({ length: 64 }, (_, i) => raster.coverage(i)).every((value) => value === 0)).toBe(true);
  });
});
