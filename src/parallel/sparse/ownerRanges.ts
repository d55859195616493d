/**
 * SparseLoCo's exchange for many ranks: each rank owns a range of the parameters. It receives the
 * payloads of its range from all ranks, adds them up, and sends the sum to all ranks, with one byte
 * per value. With more ranks, an all-gather of all payloads needs more bytes, but the sums do not.
 */
import { concatenateParts, splitAtDisplacements } from '../../collectives/coalesce.ts';
import { displacementsOf } from '../../collectives/plans/plans.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { ElementRange } from '../../util/range.ts';
import { SPARSE_CHUNK_SIZE } from './chunks.ts';
import { medianNormClippingFactors } from './normClipping.ts';
import { decodeLargestEntries, encodeLargestEntries, SPARSE_PAYLOAD_SIZE_RATIO } from './sparsePayload.ts';
import { addScaled, l2NormOf } from './vectors.ts';

const SCALE_BYTES = Float32Array.BYTES_PER_ELEMENT;
/**
 * Bytes of a sum per byte of parameters: one byte for each float32 value. Scales are not included.
 */
const SUM_SHARE = 1 / Float32Array.BYTES_PER_ELEMENT;
/** A value is a whole number from -LEVELS to LEVELS, times the scale of its chunk. */
const LEVELS = 127;

/**
 * Returns the bytes that a rank sends in an exchange, per byte of parameters: with an all-gather of
 * payloads, or with owners of ranges, whichever is less.
 */
export function sparseSentShare(worldSize: number): { share: number; hasOwners: boolean } {
  const others = worldSize - 1;
  const gathered = others * SPARSE_PAYLOAD_SIZE_RATIO;
  const owned = (others / worldSize) * (SPARSE_PAYLOAD_SIZE_RATIO + SUM_SHARE);
  return { share: Math.min(gathered, owned), hasOwners: owned < gathered };
}

/**
 * Resolves with the mean of all ranks' largest entries, with the same bits on every rank. Subtracts
 * from `values` what this rank has contributed to the mean. Every rank must call it.
 *
 * @param weight this rank's share of the mean. A rank without weight sends nothing.
 */
export async function meanOfLargestEntries(
  group: ProcessGroup,
  values: Float32Array,
  weight: number,
  entries: number,
): Promise<Float32Array> {
  const { rank, worldSize } = group;
  const ranges = ownedRanges(values.length, worldSize);
  const sizes = ranges.map(({ start, end }) => end - start);
  const payloads = ranges.map(({ start, end }) =>
    weight > 0 ? encodeLargestEntries(values.subarray(start, end), entries) : new Uint8Array(),
  );
  const lengths = payloads.map(({ length }) => length);
  const sent =
    weight > 0
      ? payloads.map((payload, i) => decodeLargestEntries(payload, sizes[i]!, entries, group.ranks[rank]!))
      : [];
  const heads = await group.allGather(Float64Array.of(weight, l2NormOf(sent), ...lengths));
  const outputSplits = heads.map((head) => head[2 + rank]!);
  const received = await group.allToAll(concatenateParts(payloads, displacementsOf(lengths)), {
    inputSplits: lengths,
    outputSplits,
  });

  // The part that the norm limit has removed stays in `values`, so that this rank sends it later.
  const kept = medianNormClippingFactors(heads.map(([share, norm]) => ({ weight: share!, norm: norm! })));
  for (const [i, part] of sent.entries()) addScaled(values.subarray(ranges[i]!.start), part, 1 - kept[rank]!);
  const own = ranges[rank]!;
  const sum = new Float32Array(sizes[rank]!);
  for (const [from, payload] of splitAtDisplacements(received, displacementsOf(outputSplits)).entries()) {
    const [share] = heads[from]!;
    if (share === 0) continue;
    addScaled(sum, decodeLargestEntries(payload, sum.length, entries, group.ranks[from]!), share! * kept[from]!);
  }
  const rounded = encodeSum(sum);
  // The part that rounding has removed is added to the owner's `values`, so that the owner sends it
  // later.
  if (weight > 0) addScaled(values.subarray(own.start), sum, 1 / weight);
  const sums = await group.allGather(rounded, { sizes: sizes.map(sumBytes) });
  const mean = new Float32Array(values.length);
  for (const [owner, { start, end }] of ranges.entries()) decodeSum(sums[owner]!, mean.subarray(start, end));
  return mean;
}

/** Returns ranges of whole chunks, one for each rank. Ranges may be empty. */
function ownedRanges(length: number, worldSize: number): ElementRange[] {
  const chunks = Math.ceil(length / SPARSE_CHUNK_SIZE);
  const boundary = (i: number): number => Math.min(length, Math.floor((chunks * i) / worldSize) * SPARSE_CHUNK_SIZE);
  return Array.from({ length: worldSize }, (_, i) => ({ start: boundary(i), end: boundary(i + 1) }));
}

function sumBytes(size: number): number {
  return Math.ceil(size / SPARSE_CHUNK_SIZE) * SCALE_BYTES + size;
}

/** Encodes a sum. Afterwards `sum` holds what rounding has removed. */
function encodeSum(sum: Float32Array): Uint8Array<ArrayBuffer> {
  const encoded = new DataView(new ArrayBuffer(sumBytes(sum.length)));
  for (let start = 0, at = 0; start < sum.length; start += SPARSE_CHUNK_SIZE) {
    const chunk = sum.subarray(start, start + SPARSE_CHUNK_SIZE);
    const largest = chunk.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const scale = Math.fround(largest / LEVELS);
    encoded.setFloat32(at, scale, true);
    at += SCALE_BYTES;
    for (let i = 0; i < chunk.length; i++, at++) {
      const level = scale > 0 ? Math.max(-LEVELS, Math.min(LEVELS, Math.round(chunk[i]! / scale))) : 0;
      encoded.setInt8(at, level);
      chunk[i]! -= Math.fround(scale * level);
    }
  }
  return new Uint8Array(encoded.buffer);
}

function decodeSum(encoded: Uint8Array, into: Float32Array): void {
  const view = new DataView(encoded.buffer, encoded.byteOffset, encoded.byteLength);
  for (let start = 0, at = 0; start < into.length; start += SPARSE_CHUNK_SIZE) {
    const scale = view.getFloat32(at, true);
    at += SCALE_BYTES;
    const end = Math.min(into.length, start + SPARSE_CHUNK_SIZE);
    for (let i = start; i < end; i++, at++) into[i] = scale * view.getInt8(at);
  }
}
