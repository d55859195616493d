import { expect, test } from 'vitest';
import { divideVector } from '../../src/optim/index.ts';
import { createRng } from '../../src/util/rng.ts';

/** With few values, and with a divisor that is no float32 number, JavaScript divides. */
test.each(
  [1, 2, 3, 32, 0.25, 1.5, 0.1, 2 ** 20].flatMap((by) => [7, 1000, 4093, 9001].map((length) => [by, length] as const)),
)('divide has the bits of a quotient by %d for %i values', (by, length) => {
  const rng = createRng(1);
  const random = Array.from({ length }, () => (rng.next() - 0.5) * 10 ** (rng.below(80) - 42));
  const values = Float32Array.from([...random, 1e-45, Infinity, -0]);
  const expected = values.map((value) => value / by);
  divideVector(values, by);
  expect(new Uint32Array(values.buffer)).toEqual(new Uint32Array(expected.buffer));
});

test.each([0, -1, NaN])('divide by %d changes nothing', (by) => {
  const values = Float32Array.of(1, 2);
  divideVector(values, by);
  expect(values).toEqual(Float32Array.of(1, 2));
});
