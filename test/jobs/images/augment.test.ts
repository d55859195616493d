import { describe, expect, test } from 'vitest';
import { createAugmentation } from '../../../src/jobs/images/augment.ts';
import { AUGMENT_NAMES, type AugmentName } from '../../../src/spec/names.ts';

type Shape = readonly [number, number, number];

const SAMPLES = Array.from({ length: 200 }, (_, i) => i);

/** Returns a picture as each of the samples `indices` sees it. */
function changed(
  names: readonly AugmentName[],
  picture: readonly number[],
  shape: Shape,
  { indices = SAMPLES, seed = 1, epoch = 0 } = {},
): number[][] {
  const inputs = Float32Array.from(indices.flatMap(() => picture));
  createAugmentation([...names], shape, seed)(inputs, indices, epoch);
  return indices.map((_, i) => Array.from(inputs.subarray(i * picture.length, (i + 1) * picture.length)));
}

/** Returns how often each picture occurs. */
function countsOf(pictures: readonly number[][]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const picture of pictures) counts[picture.join(' ')] = (counts[picture.join(' ')] ?? 0) + 1;
  return counts;
}

const greyOf = ([red, green, blue]: readonly number[]): number => 0.2989 * red! + 0.587 * green! + 0.114 * blue!;
const isFlipped = (picture: readonly number[]): boolean => picture[0]! > picture[7]!;

const ROW = [0, 1, 2, 3, 4, 5, 6, 7];

test('flip mirrors about half of the pictures, and keeps the channels of a pixel together', () => {
  const counts = countsOf(changed(['flip'], [1, 2, 3, 4, 5, 6, 7, 8], [2, 2, 2]));
  expect(Object.keys(counts).toSorted()).toEqual(['1 2 3 4 5 6 7 8', '3 4 1 2 7 8 5 6']);
  for (const count of Object.values(counts)) expect(Math.abs(count - SAMPLES.length / 2)).toBeLessThan(25);
});

test('shift moves pictures by at most an eighth of a side, and repeats the pixels of the border', () => {
  const along = ['0 0 1 2 3 4 5 6', '0 1 2 3 4 5 6 7', '1 2 3 4 5 6 7 7'];
  expect(Object.keys(countsOf(changed(['shift'], ROW, [1, 8, 1]))).toSorted()).toEqual(along);
  expect(Object.keys(countsOf(changed(['shift'], ROW, [8, 1, 1]))).toSorted()).toEqual(along);
  const square = ROW.flatMap((row) => ROW.map((column) => 10 * row + column));
  expect(Object.keys(countsOf(changed(['shift'], square, [8, 8, 1])))).toHaveLength(9);
  expect(Object.keys(countsOf(changed(['shift'], ROW.slice(1), [1, 7, 1])))).toEqual(['1 2 3 4 5 6 7']);
});

describe('colour', () => {
  test('multiplies brightness, contrast and saturation by 0.6 to 1.4', () => {
    // The contrast of a picture of one colour has no effect on its grey value.
    const colour = [0.3, 0.25, 0.2];
    const pictures = changed(['colour'], [...colour, ...colour], [1, 2, 3]);
    const grey = greyOf(colour);
    const brightness = pictures.map((picture) => greyOf(picture) / grey);
    const saturation = pictures.map((picture) => (picture[0]! - picture[1]!) / 0.05);
    expect(Math.min(...brightness)).toBeGreaterThan(0.599);
    expect(Math.min(...brightness)).toBeLessThan(0.65);
    expect(Math.max(...brightness)).toBeLessThan(1.401);
    expect(Math.max(...brightness)).toBeGreaterThan(1.35);
    expect(Math.min(...saturation)).toBeGreaterThan(0.6 ** 3);
    expect(Math.max(...saturation)).toBeLessThan(1.4 ** 3);
    for (const [red, green, blue] of pictures) expect((red! - green!) / (green! - blue!)).toBeCloseTo(1, 3);
  });

  test('changes grey pictures around their mean, and keeps pixels between 0 and 1', () => {
    for (const [low, high] of changed(['colour'], [0.2, 0.4], [1, 2, 1])) {
      // Brightness is the mean over 0.3, and contrast is the distance over the expected distance.
      const brightness = (low! + high!) / 2 / 0.3;
      const contrast = (high! - low!) / 0.2 / brightness;
      for (const factor of [brightness, contrast]) expect(Math.abs(factor - 1)).toBeLessThan(0.401);
    }
    const extremes = changed(['colour'], [0, 1, 0.1, 0.9], [1, 4, 1]).flat();
    expect([Math.min(...extremes), Math.max(...extremes)]).toEqual([0, 1]);
  });
});

test('a picture changes in the same way in any batch, and differently with another seed or in another epoch', () => {
  const square = ROW.flatMap((row) => ROW.map((column) => (row + 8 * column) / 100));
  const shape: Shape = [8, 8, 1];
  const all = changed(AUGMENT_NAMES, square, shape);
  const [third, first] = changed(AUGMENT_NAMES, square, shape, { indices: [3, 1] });
  expect([first, third]).toEqual([all[1], all[3]]);
  for (const other of [{ seed: 2 }, { epoch: 1 }]) {
    const pictures = changed(AUGMENT_NAMES, square, shape, other);
    expect(pictures.filter((picture, i) => picture.join() === all[i]!.join())).toEqual([]);
  }
});

test('the draws of a change depend neither on the other changes nor on the order of the names', () => {
  const [both, alone] = [['shift', 'flip'] as const, ['flip'] as const].map((names) => changed(names, ROW, [1, 8, 1]));
  expect(both!.map(isFlipped)).toEqual(alone!.map(isFlipped));
  expect(changed(['flip', 'shift'], ROW, [1, 8, 1])).toEqual(both);
});

test('without changes, inputs stay as they are; numbers after the samples always stay as they are', () => {
  const inputs = Float32Array.from([...ROW, ...ROW]);
  createAugmentation(null, [1, 8, 1], 1)(inputs, [0, 1], 0);
  expect(Array.from(inputs)).toEqual([...ROW, ...ROW]);
  createAugmentation([...AUGMENT_NAMES], [1, 8, 1], 1)(inputs, [4], 0);
  expect(Array.from(inputs.subarray(8))).toEqual(ROW);
});
