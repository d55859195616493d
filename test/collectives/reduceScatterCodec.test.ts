/** Encoded values in `reduceScatter`, compared with the all-reduce on the ring. */
import { expect, test } from 'vitest';
import { evenDisplacements } from '../../src/collectives/plans/plans.ts';
import { UsageError } from '../../src/util/errors.ts';
import { createRng } from '../../src/util/rng.ts';
import { runWorld } from '../../src/testing/index.ts';
import { ENCODED_CODECS } from './encodedCodecs.ts';

const COUNT = 1000;

const valuesOf = (rank: number): Float32Array<ArrayBuffer> => {
  const rng = createRng(rank + 1);
  return Float32Array.from({ length: COUNT }, () => rng.next() - 0.5);
};

test.each(ENCODED_CODECS)('a reduceScatter with %s has the bits and the residuals of an all-reduce', async (codec) => {
  for (const n of [1, 2, 3, 4]) {
    await runWorld(
      n,
      async (group) => {
        const displacements = evenDisplacements(COUNT, n);
        const sizes = displacements.slice(1).map((at, i) => at - displacements[i]!);
        const [before, after] = [new Float32Array(COUNT).fill(1), new Float32Array(COUNT).fill(1)];
        const start = group.bytesSent;
        const whole = await group.allReduce(valuesOf(group.rank), { algorithm: 'ring', codec, residual: before });
        const allReduced = group.bytesSent - start;
        const part = await group.reduceScatter(valuesOf(group.rank), { sizes, codec, residual: after });
        expect(part).toEqual(whole.slice(displacements[group.rank], displacements[group.rank + 1]));
        expect(after).toEqual(before);
        if (n > 1) expect((group.bytesSent - start) / allReduced).toBeCloseTo(1.5, 1);
      },
      { segmentElements: 100 },
    );
  }
});

test('a reduceScatter with a codec rejects dtypes other than float32, and residuals of a different length', async () => {
  await runWorld(2, async (group) => {
    const values = new Float32Array(4);
    expect(() => group.reduceScatter(new Float64Array(4), { codec: 'fp16' })).toThrow(UsageError);
    expect(() => group.reduceScatter(values, { codec: 'fp16', residual: new Float32Array(3) })).toThrow(UsageError);
  });
});
