/**
 * How much a bucket may hold, from how the first steps' buckets went. As Shi, Chu and Li have it
 * ("MG-WFBP: Efficient Data Communication for Distributed Synchronous SGD Algorithms", INFOCOM
 * 2019): a bucket's all-reduce takes alpha + beta * bytes, and begins once its gradients are ready
 * and the one before is done. Large buckets save alphas and wait for gradients. They find the best
 * of all cuts; here the cap is chosen, of a few. A pure function of numbers that all ranks have, so
 * all choose the same.
 */
import type { BucketChoice } from '../../protocol/runResult.ts';
import { BUCKET_CAP_BYTES, cutSizes, FIRST_BUCKET_BYTES } from '../ddp/buckets.ts';

/** A bucket as it went; bytes of its gradients, whatever carries them. Times in milliseconds. */
export interface MeasuredBucket {
  bytes: number;
  /** When the slowest rank had it, since the first bucket. */
  readyMs: number;
  /** Its all-reduce, from when it was ready and the one before was done. */
  carriedMs: number;
}

/** Another cap than the usual has to be so much better: what was measured is no more exact. */
const WORTH = 0.95;

/**
 * @param parameterBytes in flat order.
 * @param usualLatencyMs alpha where buckets of one size do not tell it from beta.
 * @returns `null` where all is one bucket, however it is cut.
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
    for (const bytes of cutSizes(parameterBytes, FIRST_BUCKET_BYTES, capBytes)) {
      end += bytes;
      free = Math.max(free, readyAt(measured, end)) + latencyMs + bytes / bytesPerMs;
    }
    return free;
  };
  const usualMs = expected(BUCKET_CAP_BYTES);
  let [capBytes, expectedMs] = [BUCKET_CAP_BYTES, usualMs];
  for (let cap = FIRST_BUCKET_BYTES; cap < 2 * total; cap *= 2) {
    const ms = expected(cap);
    // Of equals the larger: every bucket costs an op.
    if (ms <= expectedMs && ms < WORTH * usualMs) [capBytes, expectedMs] = [cap, ms];
  }
  return { capBytes, latencyMs, bytesPerMs, expectedMs, usualMs };
}

/** By least squares. */
function latencyOf(measured: readonly MeasuredBucket[], usual: number): number {
  const mean = (of: (bucket: MeasuredBucket) => number): number =>
    measured.reduce((sum, bucket) => sum + of(bucket), 0) / measured.length;
  const [bytes, carriedMs] = [mean((one) => one.bytes), mean((one) => one.carriedMs)];
  const variance = mean((one) => (one.bytes - bytes) ** 2);
  const covariance = mean((one) => (one.bytes - bytes) * (one.carriedMs - carriedMs));
  const isFit = covariance > 0 && variance > (bytes / 4) ** 2;
  // No bucket took less than it.
  const most = Math.min(...measured.map((one) => one.carriedMs));
  return Math.min(Math.max(0, isFit ? carriedMs - (bytes * covariance) / variance : usual), most);
}

/**
 * When gradients up to `end` bytes were ready, in a straight line from one bucket's end to the
 * next's.
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
