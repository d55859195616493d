/**
 * The places of parameters in the flat gradient, and the buckets that travel together. One
 * all-reduce per tensor would be dominated by round trips, and one for all tensors could not
 * overlap with anything. Buckets are the compromise, as in PyTorch DDP (Li et al., "PyTorch
 * Distributed", VLDB 2020, section 3.2.3).
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Range } from '../../util/range.ts';

/** Size of the first bucket: small, so that communication starts early. */
export const FIRST_BUCKET_BYTES = 64 * 1024;
/**
 * Default size of the other buckets; DDP's 25 MiB suit NCCL. Over links of 4 Mbit/s a step took
 * as long with 256 KiB as with 64, 6 % longer with 1 MiB, and 28 % longer in one piece (`bench
 * step`, docs/buckets.png). This is the largest of the best, because every bucket costs an op.
 */
export const BUCKET_CAP_BYTES = 256 * 1024;

interface BucketItem {
  bytes: number;
  dtype: string;
}

/**
 * Assigns tensors to buckets, as `compute_bucket_assignment_by_size` of PyTorch's reducer does: in
 * the given order, one dtype per bucket. A tensor that reaches the limit closes its bucket. The
 * n-th bucket of a dtype has the n-th limit; further ones have the last limit.
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

/** Place of one parameter. */
export interface Slot {
  /** Index in the list of parameters, forward order. */
  parameter: number;
  /** First element in the flat arrays. */
  offset: number;
  size: number;
}

/** Parameters, gradients and optimizer state share one order, so that every bucket is one range. */
export interface FlatLayout {
  /** In flat order. */
  slots: Slot[];
  /** Elements of all parameters. */
  size: number;
  buckets: { slots: Slot[]; start: number; end: number }[];
}

export interface BucketCaps {
  firstBucketBytes: number;
  bucketCapBytes: number;
}

interface LayoutOptions extends Partial<BucketCaps> {
  /**
   * Indices of all parameters in the order of the flat arrays. Reversed by default, because
   * backward reaches the last layers first.
   */
  order?: readonly number[] | undefined;
}

/**
 * Places parameters of `sizes` elements (forward order, float32) one after the other and divides
 * them into buckets.
 */
export function createLayout(
  sizes: readonly number[],
  {
    firstBucketBytes = FIRST_BUCKET_BYTES,
    bucketCapBytes = BUCKET_CAP_BYTES,
    order = [...sizes.keys()].reverse(),
  }: LayoutOptions = {},
): FlatLayout {
  let size = 0;
  const slots = order.map((parameter): Slot => {
    const slot = { parameter, offset: size, size: sizes[parameter]! };
    size += slot.size;
    return slot;
  });
  const items = slots.map((slot) => ({ bytes: slot.size * Float32Array.BYTES_PER_ELEMENT, dtype: 'float32' }));
  const buckets = assignBuckets(items, [firstBucketBytes, bucketCapBytes]).map((indices) => {
    const members = indices.map((index) => slots[index]!);
    const last = members.at(-1)!;
    return { slots: members, start: members[0]!.offset, end: last.offset + last.size };
  });
  return { slots, size, buckets };
}

/**
 * The order in which gradients become ready on the first rank that has samples; `null` if none has.
 * Every rank must call it.
 *
 * PyTorch rebuilds buckets after the first step, because its autograd hooks report the order while
 * gradients are already being sent. The TensorFlow.js tape has the order before anything is sent.
 * No step has been applied yet, so the optimizer's averages are still zero and need not be moved.
 *
 * @param parameters number of parameters.
 * @param own this rank's ready order; `undefined` without samples.
 */
export async function agreeOnOrder(
  group: ProcessGroup,
  parameters: number,
  own: readonly number[] | undefined,
): Promise<number[] | null> {
  const all = await group.allGather(Float32Array.from({ length: parameters }, (_, i) => own?.[i] ?? -1));
  const first = all.find(([parameter]) => parameter !== -1);
  return first ? Array.from(first) : null;
}

/** Moves every parameter's elements in `flat` from its place in `from` to its place in `to`. */
export function rearrange(flat: Float32Array, from: FlatLayout, to: FlatLayout): void {
  const old = flat.slice();
  const offsets = new Map(from.slots.map(({ parameter, offset }) => [parameter, offset]));
  for (const { parameter, offset, size } of to.slots) {
    const start = offsets.get(parameter)!;
    flat.set(old.subarray(start, start + size), offset);
  }
}

/** Ranges of the slots that `keeps` accepts, in flat order, adjacent ones merged. */
export function rangesOf(slots: readonly Slot[], keeps: (slot: Slot) => boolean): Range[] {
  const ranges: Range[] = [];
  for (const slot of slots) {
    if (!keeps(slot)) continue;
    const end = slot.offset + slot.size;
    const last = ranges.at(-1);
    if (last?.end === slot.offset) ranges[ranges.length - 1] = { start: last.start, end };
    else ranges.push({ start: slot.offset, end });
  }
  return ranges;
}
