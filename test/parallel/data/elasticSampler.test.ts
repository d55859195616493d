import { describe, expect, test } from 'vitest';
import { DataLoader } from '../../../src/parallel/data/dataLoader.ts';
import { DistributedSampler } from '../../../src/parallel/data/distributedSampler.ts';
import { ElasticSampler } from '../../../src/parallel/data/elasticSampler.ts';
import { UsageError } from '../../../src/util/errors.ts';

/** One sampler for each rank, all at the same position. */
function samplersOf(size: number, worldSize: number, from = new ElasticSampler(size)): ElasticSampler[] {
  return Array.from({ length: worldSize }, (_, rank) => {
    const sampler = new ElasticSampler(size);
    sampler.load(from.state());
    sampler.reset({ rank, worldSize });
    return sampler;
  });
}

/** The batches of all ranks that `steps` steps use. */
async function take(samplers: readonly ElasticSampler[], batchSize: number, steps = Infinity): Promise<number[][][]> {
  return Promise.all(
    samplers.map(async (sampler) => {
      const batches: number[][] = [];
      if (steps === 0) return batches;
      for await (const indices of new DataLoader((one) => one, { sampler, batchSize, prefetch: 2 })) {
        batches.push(Array.from(indices));
        sampler.recordBatch(batchSize);
        if (batches.length >= steps) break;
      }
      return batches;
    }),
  );
}

describe('ElasticSampler', () => {
  test.each([
    [24, 3, 4],
    [25, 4, 2],
    [7, 4, 2],
    [2, 4, 3],
    [0, 2, 2],
  ])('divides %i samples among %i ranks in equally many batches of %i', async (size, worldSize, batchSize) => {
    const batches = await take(samplersOf(size, worldSize), batchSize);
    expect(new Set(batches.map(({ length }) => length)).size).toBe(1);
    expect(batches.flat(2).toSorted((a, b) => a - b)).toEqual(Array.from({ length: size }, (_, i) => i));
  });

  test('divides the remaining samples among a different number of ranks', async () => {
    const size = 101;
    const four = samplersOf(size, 4);
    const used = [await take(four, 3, 2)];
    const three = samplersOf(size, 3, four[0]);
    used.push(await take(three, 3, 1));
    used.push(await take(samplersOf(size, 5, three[2]), 3));
    expect(used.flat(3).toSorted((a, b) => a - b)).toEqual(Array.from({ length: size }, (_, i) => i));
  });

  test('has the indices of DistributedSampler when no rank joins or leaves', () => {
    const samplers = samplersOf(24, 3);
    for (const epoch of [0, 1]) {
      for (const [rank, sampler] of samplers.entries()) {
        sampler.setEpoch(epoch);
        const other = new DistributedSampler(24, { numReplicas: 3, rank });
        other.setEpoch(epoch);
        expect(sampler.indices()).toEqual(other.indices());
      }
    }
  });

  test('keeps its position when the current epoch is set again', () => {
    const sampler = new ElasticSampler(10, { shuffle: false });
    sampler.setEpoch(1);
    sampler.recordBatch(4);
    sampler.setEpoch(1);
    expect([...sampler]).toEqual([4, 5, 6, 7, 8, 9]);
    sampler.setEpoch(2);
    expect(sampler).toHaveLength(10);
    expect(sampler.state()).toEqual({ epoch: 2, processed: 0 });
  });

  test('rejects invalid arguments', () => {
    const sampler = new ElasticSampler(10);
    expect(() => new ElasticSampler(-1)).toThrow(UsageError);
    expect(() => sampler.recordBatch(0)).toThrow('batchSize is 0');
    expect(() => sampler.setEpoch(0.5)).toThrow('epoch is 0.5');
    expect(() => sampler.reset({ rank: 2, worldSize: 2 })).toThrow(UsageError);
    expect(sampler.state()).toEqual({ epoch: 0, processed: 0 });
  });
});
