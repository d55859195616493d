import { expect, test } from 'vitest';
import { divide } from '../../src/util/divide.ts';
import { createRng } from '../../src/util/rng.ts';

test.each([1, 2, 3, 32, 0.25, 1.5, 2 ** 20])('divide has the bits of a quotient by %d', (by) => {
  const rng = createRng(1);
  const random = Array.from({ length: 1000 }, () => (rng.next() - 0.5) * 10 ** (rng.below(80) - 42));
  const values = Float32Array.from([...random, 1e-45, Infinity, -0]);
  const expected = values.map((value) => value / by);
  divide(values, by);
  expect(new Uint32Array(values.buffer)).toEqual(new Uint32Array(expected.buffer));
});

test.each([0, -1, NaN])('divide by %d changes nothing', (by) => {
  const values = Float32Array.of(1, 2);
  divide(values, by);
  expect(values).toEqual(Float32Array.of(1, 2));
});
