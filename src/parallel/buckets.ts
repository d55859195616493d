/**
 * How parameters lie in the flat gradient, and which of them travel together. A tensor an all-reduce would drown in
 * round trips, one of all tensors could not overlap with anything; buckets are the middle, as in PyTorch DDP
 * (Li et al., "PyTorch Distributed", VLDB 2020, section 3.2.3).
 */

/** First bucket: small, so that communication starts early. */
export const FIRST_BUCKET_BYTES = 64 * 1024;
/** Other buckets: DDP's 25 MiB suit NCCL; a data channel moves about 10 MB/s, so 1 MiB already takes 100 ms. */
export const BUCKET_CAP_BYTES = 1024 * 1024;

export interface BucketItem {
  bytes: number;
  dtype: string;
}

/**
 * Assigns tensors to buckets, as `compute_bucket_assignment_by_size` of PyTorch's reducer does: in the order given, one
 * dtype a bucket; a tensor that brings its bucket to the limit closes it; the n-th bucket of a dtype has the n-th limit,
 * the last limit holding from then on.
 *
 * @returns indices into `items`; buckets ordered by their first index.
 */
export function assignBuckets(items: readonly BucketItem[], limits: readonly number[]): number[][] {
  interface Open {
    indices: number[];
    bytes: number;
    limitIndex: number;
  }
  const open = new Map<string, Open>();
  const done: number[][] = [];
  items.forEach(({ bytes, dtype }, index) => {
    const bucket = open.get(dtype) ?? { indices: [], bytes: 0, limitIndex: 0 };
    open.set(dtype, bucket);
    bucket.indices.push(index);
    bucket.bytes += bytes;
    if (bucket.bytes < limits[bucket.limitIndex]!) return;
    done.push(bucket.indices);
    bucket.indices = [];
    bucket.bytes = 0;
    bucket.limitIndex = Math.min(bucket.limitIndex + 1, limits.length - 1);
  });
  for (const { indices } of open.values()) if (indices.length > 0) done.push(indices);
  return done.sort((a, b) => a[0]! - b[0]!);
}

/** One parameter's place. */
export interface Slot {
  /** Index in the list of parameters, forward order. */
  parameter: number;
  /** First element in the flat arrays. */
  offset: number;
  size: number;
}

/** Parameters, gradients and optimizer state share one order: reversed, so that every bucket is one stretch. */
export interface FlatLayout {
  /** In flat order. */
  slots: Slot[];
  /** Elements of all parameters. */
  size: number;
  buckets: { slots: Slot[]; start: number; end: number }[];
}

/**
 * Lays parameters of `sizes` elements (forward order, float32) out flat in reversed order: backward computes the last
 * layers' gradients first.
 */
export function createLayout(
  sizes: readonly number[],
  { firstBucketBytes = FIRST_BUCKET_BYTES, bucketCapBytes = BUCKET_CAP_BYTES } = {},
): FlatLayout {
  let size = 0;
  const slots = sizes
    .map((elements, parameter): Slot => ({ parameter, offset: 0, size: elements }))
    .reverse()
    .map((slot): Slot => {
      const offset = size;
      size += slot.size;
      return { ...slot, offset };
    });
  const items = slots.map((slot) => ({ bytes: slot.size * Float32Array.BYTES_PER_ELEMENT, dtype: 'float32' }));
  const buckets = assignBuckets(items, [firstBucketBytes, bucketCapBytes]).map((indices) => {
    const members = indices.map((index) => slots[index]!);
    const last = members.at(-1)!;
    return { slots: members, start: members[0]!.offset, end: last.offset + last.size };
  });
  return { slots, size, buckets };
}
