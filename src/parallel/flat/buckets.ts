/**
 * Assigns each parameter its place in the flat gradient, and divides the flat gradient into
 * buckets. The gradients of a bucket are sent together. One all-reduce per tensor would mostly wait
 * for round trips, and one all-reduce for all tensors could not overlap with the computation.
 * Buckets are the compromise, as in PyTorch DDP (Li et al., "PyTorch Distributed", VLDB 2020,
 * section 3.2.3).
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { ElementRange } from '../../util/range.ts';

/** Size of the first bucket: small, so that communication starts early. */
export const FIRST_BUCKET_BYTES = 64 * 1024;
/**
 * Default size of the other buckets. (The 25 MiB of PyTorch DDP suit NCCL.) Over links of 4 Mbit/s,
 * steps with buckets of 64 KiB and of 256 KiB were equally fast. They took 6 % longer with 1 MiB,
 * and 28 % longer with one bucket (`bench step`, docs/buckets.png). The default is the larger of
 * the two best sizes, because fewer buckets need fewer collectives.
 */
export const BUCKET_CAP_BYTES = 256 * 1024;

interface BucketItem {
  bytes: number;
  dtype: string;
}

/**
 * Assigns tensors to buckets, as `compute_bucket_assignment_by_size` of PyTorch's reducer does: in
 * the given order, one dtype per bucket. The tensor with which a bucket reaches its size limit is
 * the last tensor of that bucket. The n-th bucket of a dtype has the n-th limit of `limits`. If
 * there are more buckets than limits, the remaining buckets have the last limit.
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

/** Place of one parameter in the flat arrays. */
export interface ParameterSlot {
  /** Index of the parameter in forward order. */
  parameter: number;
  /** Index of the parameter's first element in the flat arrays. */
  offset: number;
  size: number;
}

/**
 * Order of the flat arrays. Parameters, gradients and optimizer state all use it, so that every
 * bucket is one range in each array.
 */
export interface FlatLayout {
  /** The places of all parameters, in the order of the flat arrays. */
  slots: ParameterSlot[];
  /** Number of elements of all parameters. */
  size: number;
  buckets: { slots: ParameterSlot[]; start: number; end: number }[];
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
export function createFlatLayout(
  sizes: readonly number[],
  {
    firstBucketBytes = FIRST_BUCKET_BYTES,
    bucketCapBytes = BUCKET_CAP_BYTES,
    order = [...sizes.keys()].reverse(),
  }: LayoutOptions = {},
): FlatLayout {
  let size = 0;
  const slots = order.map((parameter): ParameterSlot => {
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
 * Sends all ranks the order in which gradients become ready on the first rank that has samples.
 * Every rank must call it.
 *
 * PyTorch rebuilds buckets after the first step, because its autograd hooks report the order while
 * gradients are already being sent. The TensorFlow.js tape shows the order before anything is sent.
 * At that time no step has been applied, so the optimizer's averages are still zero and need not be
 * moved.
 *
 * @param parameters number of parameters.
 * @param own the order on this rank; `undefined` without samples.
 * @returns the order; `null` if no rank has samples.
 */
export async function agreeOnFlatOrder(
  group: ProcessGroup,
  parameters: number,
  own: readonly number[] | undefined,
): Promise<number[] | null> {
  const all = await group.allGather(Float32Array.from({ length: parameters }, (_, i) => own?.[i] ?? -1));
  const first = all.find(([parameter]) => parameter !== -1);
  return first ? Array.from(first) : null;
}

/** Moves every parameter's elements in `flat` from its place in `from` to its place in `to`. */
export function rearrangeParameters(flat: Float32Array, from: FlatLayout, to: FlatLayout): void {
  const old = flat.slice();
  const offsets = new Map(from.slots.map(({ parameter, offset }) => [parameter, offset]));
  for (const { parameter, offset, size } of to.slots) {
    const start = offsets.get(parameter)!;
    flat.set(old.subarray(start, start + size), offset);
  }
}

/**
 * Returns the ranges of the slots for which `keeps` returns true, in flat order. Adjacent ranges
 * are merged.
 */
export function mergedSlotRanges(
  slots: readonly ParameterSlot[],
  keeps: (slot: ParameterSlot) => boolean,
): ElementRange[] {
  const ranges: ElementRange[] = [];
  for (const slot of slots) {
    if (!keeps(slot)) continue;
    const end = slot.offset + slot.size;
    const last = ranges.at(-1);
    if (last?.end === slot.offset) ranges[ranges.length - 1] = { start: last.start, end };
    else ranges.push({ start: slot.offset, end });
  }
  return ranges;
}
