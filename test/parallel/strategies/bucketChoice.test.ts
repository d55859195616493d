import { expect, test } from 'vitest';
import { chooseBucketCap, type MeasuredBucket } from '../../../src/parallel/strategies/bucketChoice.ts';
import { BUCKET_CAP_BYTES } from '../../../src/parallel/ddp/buckets.ts';

const KIB = 1024;
/** 32 layers of 32 KiB, in a first bucket of 64 KiB, three of 256 KiB and one of 192. */
const LAYERS = Array.from({ length: 32 }, () => 32 * KIB);
const BUCKETS = [64, 256, 256, 256, 192].map((size) => size * KIB);

/**
 * Buckets that become ready with `readyMsPerKib` after the first one, and whose all-reduces take
 * `latencyMs` and `msPerKib`.
 */
function measured({ readyMsPerKib = 0, latencyMs = 0, msPerKib = 0 }): MeasuredBucket[] {
  let end = 0;
  return BUCKETS.map((bytes, i) => {
    end += i === 0 ? 0 : bytes / KIB;
    return { bytes, readyMs: readyMsPerKib * end, carriedMs: latencyMs + (msPerKib * bytes) / KIB };
  });
}

test('separates latency from rate by buckets of several sizes', () => {
  const choice = chooseBucketCap(LAYERS, measured({ latencyMs: 7, msPerKib: 0.5 }), 100)!;
  expect(choice.latencyMs).toBeCloseTo(7, 6);
  expect(choice.bytesPerMs).toBeCloseTo(2 * KIB, 3);
  // Five buckets, one after the other.
  expect(choice.usualMs).toBeCloseTo(5 * 7 + 512, 3);
});

test('chooses larger buckets if latency dominates', () => {
  const { capBytes, expectedMs, usualMs } = chooseBucketCap(LAYERS, measured({ latencyMs: 100, msPerKib: 0.05 }), 0)!;
  expect(capBytes).toBeGreaterThan(512 * KIB);
  expect(expectedMs).toBeLessThan(0.6 * usualMs);
});

test('chooses smaller buckets if gradients become ready slowly and latency is low', () => {
  const { capBytes, expectedMs, usualMs } = chooseBucketCap(
    LAYERS,
    measured({ readyMsPerKib: 0.5, msPerKib: 0.5 }),
    0,
  )!;
  expect(capBytes).toBe(64 * KIB);
  expect(expectedMs).toBeLessThan(0.9 * usualMs);
});

test('keeps the default size if the gain is small', () => {
  const choice = chooseBucketCap(LAYERS, measured({ latencyMs: 1, msPerKib: 1 }), 0)!;
  expect(choice.capBytes).toBe(BUCKET_CAP_BYTES);
  expect(choice.expectedMs).toBe(choice.usualMs);
});

test('assumes the usual latency for buckets of one size, but at most the shortest all-reduce', () => {
  const same = [0, 1, 2].map((i) => ({ bytes: 64 * KIB, readyMs: 10 * i, carriedMs: 5 }));
  const layers = same.map(({ bytes }) => bytes);
  expect(chooseBucketCap(layers, same, 3)!.latencyMs).toBe(3);
  expect(chooseBucketCap(layers, same, 30)!.latencyMs).toBe(5);
});

test('has no choice if every size results in one bucket', () => {
  expect(chooseBucketCap([1000], [{ bytes: 1000, readyMs: 0, carriedMs: 5 }], 3)).toBeNull();
});
