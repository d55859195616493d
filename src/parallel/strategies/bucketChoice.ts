/**
 * Chooses the bucket size from measured buckets, after Shi, Chu and Li ("MG-WFBP: Efficient Data
 * Communication for Distributed Synchronous SGD Algorithms", INFOCOM 2019): a bucket's all-reduce
 * takes alpha + beta * bytes, and starts once its gradients are ready and the previous one is done.
 * Large buckets save alphas and wait for gradients. MG-WFBP finds the best of all divisions; this
 * function chooses one of a few sizes. It is a pure function of numbers that all ranks have, so all
 * choose the same.
 */
import type { BucketChoice } from '../../protocol/runResult.ts';
import { BUCKET_CAP_BYTES, bucketSizesOf, FIRST_BUCKET_BYTES } from '../ddp/buckets.ts';

/** A measured bucket; bytes of its fp32 gradients. Times in milliseconds. */
export interface MeasuredBucket {
  bytes: number;
  /** When the slowest rank had read it, since the first bucket. */
  readyMs: number;
  /** Duration of its all-reduce, once it was ready and the previous one was done. */
  carriedMs: number;
}

/** Least gain that justifies another size than the default; measurements are not more exact. */
const WORTH = 0.95;

/**
 * @param parameterBytes bytes of each parameter, in flat order.
 * @param usualLatencyMs alpha if buckets of one size cannot separate it from beta.
 * @returns `null` if every size results in one bucket.
 */
export function chooseBucketCap(
  parameterBytes: readonly number[],
  measured: readonly MeasuredBucket[],
  usualLatencyMs: number,
): BucketChoice | null {
  if (measured.length < 2) return null;
  const total = parameterBytes.reduce((sum, bytes) => sum + bytes, 0);
  const carried = measured.reduce((sum, { carriedMs }) => sum + carriedMs, 0);
  const latencyMs = latencyOf(measured, usualLatencyMs);
  const bytesPerMs = total / Math.max(carried - measured.length * latencyMs, Number.MIN_VALUE);
  const expected = (capBytes: number): number => {
    let end = 0;
    let free = 0;
    for (const bytes of bucketSizesOf(parameterBytes, FIRST_BUCKET_BYTES, capBytes)) {
      end += bytes;
      free = Math.max(free, readyAt(measured, end)) + latencyMs + bytes / bytesPerMs;
    }
    return free;
  };
  const usualMs = expected(BUCKET_CAP_BYTES);
  let [capBytes, expectedMs] = [BUCKET_CAP_BYTES, usualMs];
  for (let cap = FIRST_BUCKET_BYTES; cap < 2 * total; cap *= 2) {
    const ms = expected(cap);
    // The largest of equally good ones: every bucket costs an op.
    if (ms <= expectedMs && ms < WORTH * usualMs) [capBytes, expectedMs] = [cap, ms];
  }
  return { capBytes, latencyMs, bytesPerMs, expectedMs, usualMs };
}

/** Fits alpha and beta by least squares. */
function latencyOf(measured: readonly MeasuredBucket[], usual: number): number {
  const mean = (pick: (bucket: MeasuredBucket) => number): number =>
    measured.reduce((sum, bucket) => sum + pick(bucket), 0) / measured.length;
  const [bytes, carriedMs] = [mean((bucket) => bucket.bytes), mean((bucket) => bucket.carriedMs)];
  const variance = mean((bucket) => (bucket.bytes - bytes) ** 2);
  const covariance = mean((bucket) => (bucket.bytes - bytes) * (bucket.carriedMs - carriedMs));
  const isFit = covariance > 0 && variance > (bytes / 4) ** 2;
  // Alpha is at most the shortest all-reduce.
  const most = Math.min(...measured.map((bucket) => bucket.carriedMs));
  return Math.min(Math.max(0, isFit ? carriedMs - (bytes * covariance) / variance : usual), most);
}

/**
 * Time when gradients up to `end` bytes were ready, interpolated between the ends of buckets.
 */
function readyAt(measured: readonly MeasuredBucket[], end: number): number {
  let before = { end: 0, readyMs: measured[0]!.readyMs };
  for (const { bytes, readyMs } of measured) {
    const next = { end: before.end + bytes, readyMs };
    if (end <= next.end) return before.readyMs + ((readyMs - before.readyMs) * (end - before.end)) / bytes;
    before = next;
  }
  return before.readyMs;
}
