import { describe, expect, test } from 'vitest';
import type { GradBucket } from '../../../src/parallel/ddp/commHooks.ts';
import { FREQUENCIES, invert, SIDE, transform } from '../../../src/parallel/demo/dct.ts';
import { createDemoHook, demoBytes } from '../../../src/parallel/demo/demoHook.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { createRng } from '../../../src/util/rng.ts';

const SHAPES = [[70, 100], [100]];
const SIZE = 7100;

function bucketOf(buffer: Float32Array, isRetry = false): GradBucket {
  const parameters = SHAPES.map((shape, index) => ({ index, offset: index * 7000, shape, isUsed: true }));
  return { index: 0, isLast: true, isRetry, buffer, parameters };
}

const gradientOf = (seed: number): Float32Array => {
  const rng = createRng(seed);
  return Float32Array.from({ length: SIZE }, () => rng.next() - 0.5);
};

const cosine = (k: number, at: number): number => Math.cos((Math.PI * k * (2 * at + 1)) / (2 * SIDE));
const scale = (k: number): number => Math.sqrt((k === 0 ? 1 : 2) / SIDE);

describe('the cosine transform', () => {
  test('is that of the definition', () => {
    const rng = createRng(1);
    const square = Float64Array.from({ length: SIDE * SIDE }, () => rng.next() - 0.5);
    const transformed = square.slice();
    transform(transformed);
    for (const [k, l] of [
      [0, 0],
      [1, 0],
      [0, 5],
      [17, 63],
      [63, 63],
    ] as const) {
      let sum = 0;
      for (let i = 0; i < SIDE; i++) {
        for (let j = 0; j < SIDE; j++) {
          sum += square[i * SIDE + j]! * cosine(k, i) * cosine(l, j);
        }
      }
      const place = FREQUENCIES.indexOf(k) * SIDE + FREQUENCIES.indexOf(l);
      expect(transformed[place]).toBeCloseTo(sum * scale(k) * scale(l), 10);
    }
    invert(transformed);
    for (const [i, value] of square.entries()) expect(transformed[i]).toBeCloseTo(value, 12);
  });
});

describe('the hook', () => {
  test('gives every rank the same signs', async () => {
    const results = await runWorld(3, async (group) => {
      const buffer = gradientOf(group.rank + 1);
      await createDemoHook()(bucketOf(buffer), group);
      return buffer;
    });
    expect(results[1]).toEqual(results[0]);
    expect(results[2]).toEqual(results[0]);
    for (const value of results[0]!) expect([-1, 0, 1]).toContain(value);
  });

  test('follows a gradient of few frequencies', async () => {
    const [result] = await runWorld(1, async (group) => {
      const buffer = Float32Array.from({ length: SIZE }, (_, i) => (i < 4096 ? 1e-3 : -1e-3));
      await createDemoHook()(bucketOf(buffer), group);
      return buffer;
    });
    const right = result!.filter((value, i) => value === (i < 4096 ? 1 : -1)).length;
    expect(right / SIZE).toBeGreaterThan(0.9);
  });

  test('sends about as many bytes as expected', async () => {
    const [sent] = await runWorld(2, async (group) => {
      const before = group.bytesSent;
      await createDemoHook()(bucketOf(gradientOf(group.rank)), group);
      return group.bytesSent - before;
    });
    const expected = demoBytes(SHAPES.map((shape) => shape.reduce((a, b) => a * b)));
    expect(expected).toBeLessThan(150);
    expect(sent! - expected).toBeLessThan(300);
  });

  test('repeats a step that was not applied with the same signs', async () => {
    const [signs] = await runWorld(1, async (group) => {
      const hook = createDemoHook();
      const run = async (isRetry: boolean) => {
        const buffer = gradientOf(1);
        await hook(bucketOf(buffer, isRetry), group);
        return buffer;
      };
      return [await run(false), await run(true), await run(false)];
    });
    const [first, retried, next] = signs!;
    expect(retried).toEqual(first);
    expect(next).not.toEqual(first);
  });
});
