/**
 * Tests of encoded all-reduces: all ranks have the same bits, close to the sum, with visible NaNs
 * and exact residuals.
 */
import { describe, expect, test } from 'vitest';
import type { CollectiveCodecName } from '../../src/spec/codecs.ts';
import type { AllReduceOptions } from '../../src/collectives/options.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { createMeshes, runRanks, runWorld } from '../../src/testing/index.ts';
import { createMemoryLinkPair } from '../../src/transport/memoryLink.ts';
import { MismatchError, UsageError } from '../../src/util/errors.ts';
import { createRng, mixSeed } from '../../src/util/rng.ts';
import { errorOf } from '../errorOf.ts';
import { outliers } from '../outliers.ts';
import { ENCODED_CODECS } from './encodedCodecs.ts';

/** Many small values and few large ones, like a gradient. */
function gradientOf(rank: number, length: number, step = 0): Float32Array {
  const rng = createRng(mixSeed(rank, length, step));
  return Float32Array.from({ length }, () => (2 * rng.next() - 1) ** 5);
}

const sumOf = (n: number, length: number): Float64Array => {
  const sum = new Float64Array(length);
  for (let rank = 0; rank < n; rank++) gradientOf(rank, length).forEach((value, i) => (sum[i]! += value));
  return sum;
};

function bitsOf(values: Float32Array): Uint32Array {
  return new Uint32Array(values.buffer, values.byteOffset, values.length);
}

const reduceIn = (n: number, length: number, options: AllReduceOptions, world = {}): Promise<Float32Array[]> =>
  runWorld(n, (group) => Promise.resolve(group.allReduce(gradientOf(group.rank, length), options)), world);

/** Largest error of one hop, relative to the sum so far. The values of the sum are at most n. */
const LOSS_PER_HOP: Record<CollectiveCodecName, number> = { fp32: 1e-7, fp16: 2 ** -11, int8: 0.51 / 127 };

describe.each(ENCODED_CODECS)('an all-reduce with codec %s', (codec) => {
  test.each([2, 3, 4, 5, 6, 7, 8, 9])(
    'ends with the same bits on all of %i ranks, close to the exact sum',
    async (n) => {
      for (const length of [0, 1, n - 1, 129, 1000, 4099]) {
        for (const world of [{}, { segmentElements: 50 }]) {
          const results = await reduceIn(n, length, { codec }, world);
          const expected = sumOf(n, length);
          for (const result of results) expect(bitsOf(result)).toEqual(bitsOf(results[0]!));
          expect(outliers(results[0]!, expected, (off) => off <= n * n * LOSS_PER_HOP[codec])).toEqual([]);
        }
      }
    },
  );

  test('is correct for a tensor with more bytes than may be sent before the receiver is ready', async () => {
    const n = 3;
    const length = 700_000;
    const results = await reduceIn(n, length, { codec });
    for (const result of results) expect(Buffer.from(result.buffer).equals(Buffer.from(results[0]!.buffer))).toBe(true);
    const expected = sumOf(n, length);
    const worst = results[0]!.reduce((most, value, i) => Math.max(most, Math.abs(value - expected[i]!)), 0);
    expect(worst).toBeLessThan(n * n * LOSS_PER_HOP[codec]);
  });

  test('ends with the same bits whether ranks forward received frames or encode a chunk again', async () => {
    const n = 5;
    const length = 3000;
    const [quick] = await reduceIn(n, length, { codec });
    // Links that accept one frame at a time. Segments that arrive while a frame is being sent are
    // later sent from the tensor.
    const slow = createMeshes(n, () => createMemoryLinkPair());
    for (const links of slow.links) {
      for (const link of links.values()) {
        const send = link.send.bind(link);
        link.send = async (frame) => {
          await send(frame);
          await new Promise((resolve) => setTimeout(resolve, 1));
        };
      }
    }
    const [slowly] = await runRanks(slow, (group) =>
      Promise.resolve(group.allReduce(gradientOf(group.rank, length), { codec })),
    );
    expect(bitsOf(slowly!)).toEqual(bitsOf(quick!));
  });

  test('computes averages that are a quarter of the sums of four ranks', async () => {
    const sums = await reduceIn(4, 1000, { codec });
    const averages = await reduceIn(4, 1000, { codec, op: ReduceOp.AVG });
    const quarters = sums[0]!.map((sum) => sum / 4);
    for (const average of averages) {
      expect(bitsOf(average)).toEqual(bitsOf(averages[0]!));
      expect(outliers(average, quarters, (off) => off < 0.005)).toEqual([]);
    }
  });

  test('computes correct sums of values far beyond the range of float16', async () => {
    const n = 3;
    const results = await runWorld(n, (group) =>
      Promise.resolve(
        group.allReduce(
          gradientOf(group.rank, 500).map((value) => 1e9 * value),
          { codec },
        ),
      ),
    );
    const expected = sumOf(n, 500);
    const scaled = Float64Array.from(results[0]!, (value) => value / 1e9);
    expect(outliers(scaled, expected, (off) => off <= n * n * LOSS_PER_HOP[codec])).toEqual([]);
  });

  test('returns a NaN or infinite value on all ranks for an element that is NaN or infinite on one rank', async () => {
    for (const odd of [Number.NaN, Infinity]) {
      const results = await runWorld(4, (group) => {
        const values = gradientOf(group.rank, 600);
        if (group.rank === 2) values[431] = odd;
        return Promise.resolve(group.allReduce(values, { codec }));
      });
      for (const result of results) {
        expect(Number.isFinite(result[431])).toBe(false);
        expect(bitsOf(result)).toEqual(bitsOf(results[0]!));
        expect(Number.isFinite(result[0])).toBe(true);
      }
    }
  });

  test('sends about 2 times (fp16) or 4 times (int8) fewer bytes than without a codec', async () => {
    const n = 4;
    const length = 262_144;
    const bytesOf = (which: CollectiveCodecName): Promise<number[]> =>
      runWorld(n, async (group) => {
        const work = group.allReduce(gradientOf(group.rank, length), { codec: which });
        await work;
        return work.bytesSent;
      });
    const [plain, encoded] = [await bytesOf('fp32'), await bytesOf(codec)];
    const least = { fp32: 1, fp16: 1.99, int8: 3.8 }[codec];
    encoded.forEach((bytes, rank) => expect(plain[rank]! / bytes).toBeGreaterThan(least));
  });

  test.each(
    [1, 2, 3, 5, 9, 17].flatMap((n) => [
      { n, op: ReduceOp.SUM, name: 'the sum' },
      { n, op: ReduceOp.AVG, name: 'the average' },
    ]),
  )('returns residuals that add up to the exact error of the result, for $name over $n ranks', async ({ n, op }) => {
    const length = 1500;
    const residuals = await runWorld(n, async (group) => {
      const residual = new Float32Array(length).fill(7);
      const reduced = await group.allReduce(gradientOf(group.rank, length), { codec, residual, op });
      return { residual, reduced };
    });
    const expected = sumOf(n, length);
    const accounted = Float64Array.from(residuals[0]!.reduced, (value) => (op === ReduceOp.AVG ? n * value : value));
    for (const { residual } of residuals) residual.forEach((value, i) => (accounted[i]! += value));
    expect(outliers(accounted, expected, (off) => off < 5e-5)).toEqual([]);
  });

  test('has no error that grows over many steps if each rank adds its residual to its next tensor', async () => {
    const [n, length, steps] = [4, 300, 60];
    const results = await runWorld(n, async (group) => {
      const decoded = new Float64Array(length);
      const apart = new Float64Array(length);
      const residual = new Float32Array(length);
      for (let step = 0; step < steps; step++) {
        const gradient = gradientOf(group.rank, length);
        const plain = await group.allReduce(gradient.slice(), { codec });
        plain.forEach((value, i) => (apart[i]! += value / steps));
        const fed = await group.allReduce(
          gradient.map((value, i) => value + residual[i]!),
          { codec, residual },
        );
        fed.forEach((value, i) => (decoded[i]! += value / steps));
      }
      return { decoded, apart };
    });
    const expected = sumOf(n, length);
    const off = (mean: Float64Array): number =>
      Math.sqrt(mean.reduce((sum, value, i) => sum + (value - expected[i]!) ** 2, 0) / length);
    // Without error feedback, each step has the same error. With error feedback, all steps together
    // have the error of one step.
    expect(off(results[0]!.decoded)).toBeLessThan(off(results[0]!.apart) / 20);
  });

  test.each([
    ['two-level', 4],
    ['two-level', 6],
    ['two-level', 12],
    ['halving-doubling', 3],
    ['halving-doubling', 8],
    ['halving-doubling', 13],
  ] as const)('by %s gives all of %i ranks the same bits and exact residuals', async (algorithm, n) => {
    for (const length of [1, n - 1, 1000, 4099]) {
      for (const world of [{}, { segmentElements: 50 }]) {
        for (const op of [ReduceOp.SUM, ReduceOp.AVG]) {
          const results = await runWorld(
            n,
            async (group) => {
              const residual = new Float32Array(length).fill(Number.NaN);
              const options = { codec, algorithm, residual, op };
              return { reduced: await group.allReduce(gradientOf(group.rank, length), options), residual };
            },
            world,
          );
          const scale = op === ReduceOp.AVG ? n : 1;
          const lost = Array.from({ length }, (_, i) => results.reduce((sum, { residual }) => sum + residual[i]!, 0));
          const expected = sumOf(n, length);
          for (const { reduced } of results) expect(bitsOf(reduced)).toEqual(bitsOf(results[0]!.reduced));
          const accounted = Float64Array.from(results[0]!.reduced, (value, i) => value * scale + lost[i]!);
          expect(outliers(accounted, expected, (off) => off <= n * n * 1e-6)).toEqual([]);
          expect(outliers(lost, new Float64Array(length), (loss) => loss <= n * n * LOSS_PER_HOP[codec])).toEqual([]);
        }
      }
    }
  });

  test('by doubling is rejected, because ranks would round differently', async () => {
    await expect(reduceIn(4, 100, { codec, algorithm: 'doubling' })).rejects.toThrow(
      /^The all-reduce cannot run: doubling supports no codec/,
    );
  });

  test('does not change the tensor in a world of one rank', async () => {
    const [result] = await reduceIn(1, 100, { codec });
    expect(result).toEqual(gradientOf(0, 100));
  });

  test.each([4, 17])('fails on all of %i ranks if one rank passes another codec', async (n) => {
    const errors = await runWorld(n, (group) =>
      errorOf(group.allReduce(new Float32Array(100), { codec: group.rank === 1 ? 'fp32' : codec })),
    );
    const name = { fp32: '', fp16: 'float32 as float16', int8: 'float32 as int8' }[codec];
    for (const error of errors) {
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message).toContain(`allReduce(100 ${name}, SUM)`);
      expect(error.message).toContain('Rank 1 called allReduce(100 float32, SUM)');
    }
  });

  test('rejects dtypes other than float32, ops other than SUM and AVG, and residuals of a different length', async () => {
    await runWorld(1, async (group) => {
      expect(() => group.allReduce(new Float64Array(3), { codec })).toThrow(UsageError);
      expect(() => group.allReduce(new Float32Array(3), { codec, op: ReduceOp.MAX })).toThrow(UsageError);
      expect(() => group.allReduce(new Float32Array(3), { codec, residual: new Float32Array(2) })).toThrow(UsageError);
      await group.barrier();
    });
  });
});
