/**
 * Checks of arguments of a process group's calls. Each returns the value ready for use, or throws
 * UsageError.
 */
import { DtypeCode, ReduceOp } from '../protocol/frame.ts';
import { UsageError } from '../util/errors.ts';
import { codecOf, type Codec } from './codecs.ts';
import { MAX_COUNT, MAX_TAG } from './diagnostics/descriptor.ts';
import { dtypeOf, type Dtype, type TypedArray } from './dtypes.ts';
import type { AllReduceOptions, OpOptions, ReduceOptions } from './options.ts';
import { displacementsOf, type Displacements } from './plans/plans.ts';
import { reducerFor } from './reduce.ts';

/** The group as the caller's rank sees it. */
export interface Caller {
  /** Its rank in the world, which error messages name. */
  readonly self: number;
  /** Its rank in the group; -1 if it is not a member. */
  readonly rank: number;
  /** Global ranks of the members, by rank in the group. */
  readonly ranks: readonly number[];
}

/** Converts the global rank of a root to its rank in the group. */
export function rootRank({ ranks }: Caller, rank: number): number {
  const root = ranks.indexOf(rank);
  if (root >= 0) return root;
  throw new UsageError(`Invalid root rank ${rank}: this group has ranks ${rangeOf(ranks)}.`);
}

/** Converts the global rank of a message's other end to its rank in the group. */
export function peerRank({ rank, ranks }: Caller, peer: number, what: 'source' | 'destination'): number {
  const place = ranks.indexOf(peer);
  if (place >= 0 && place !== rank) return place;
  const why = place >= 0 ? 'a rank does not send to itself' : `this group has ranks ${rangeOf(ranks)}`;
  throw new UsageError(`Invalid ${what} rank ${peer}: ${why}.`);
}

/** Sizes of all ranks' parts; this rank's part is `tensor`. */
export function partSizes(
  caller: Caller,
  { length }: TypedArray,
  sizes: readonly number[] | undefined,
): readonly number[] {
  const { self, rank, ranks } = caller;
  if (sizes === undefined) return ranks.map(() => length);
  checkSizes(caller, sizes, 'sizes');
  if (rank >= 0 && sizes[rank] !== length) {
    throw new UsageError(`sizes[${rank}] is ${sizes[rank]}, but rank ${self}'s tensor has ${length} elements.`);
  }
  return sizes;
}

/** Sizes of the parts that `tensor` is divided into. */
export function splitSizes(
  caller: Caller,
  { length }: TypedArray,
  sizes: readonly number[] | undefined,
  name: string,
): readonly number[] {
  const n = caller.ranks.length;
  if (sizes === undefined) {
    if (length % n === 0) return caller.ranks.map(() => length / n);
    throw new UsageError(`${length} elements cannot be divided into ${n} equal parts: pass ${name}.`);
  }
  const sum = checkSizes(caller, sizes, name).reduce((total, size) => total + size, 0);
  if (sum !== length) throw new UsageError(`${name} add up to ${sum}, but the tensor has ${length} elements.`);
  return sizes;
}

/** One size for each rank, with any sum. */
export function checkSizes({ ranks }: Caller, sizes: readonly number[], name: string): readonly number[] {
  if (sizes.length !== ranks.length || !sizes.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    throw new UsageError(`${name} must be ${ranks.length} whole numbers, one per rank, not ${sizes.join(', ')}.`);
  }
  return sizes;
}

/**
 * The list that a rank passes to a scatter from global rank `src`: one item for each rank there,
 * `null` elsewhere.
 */
export function checkScattered<T>(
  { self, ranks }: Caller,
  src: number,
  all: readonly T[] | null,
  what: 'parts' | 'values',
): readonly T[] | null {
  if (self !== src && all !== null) {
    throw new UsageError(`Only rank ${src} scatters: pass null on rank ${self}.`);
  }
  if (self === src && all?.length !== ranks.length) {
    throw new UsageError(
      `Incorrect input list size: rank ${src} scatters ${ranks.length} ${what}, one per rank, not ${all?.length ?? 0}.`,
    );
  }
  return all;
}

/** Checks parts that ranks will receive into tensors like `tensor`. */
export function checkParts(
  parts: readonly TypedArray[],
  { length }: TypedArray,
  dtype: Dtype,
  options: OpOptions,
): void {
  const odd = parts.findIndex((part) => part.length !== length || dtypeOf(part, options.dtype) !== dtype);
  if (odd < 0) return;
  const part = parts[odd]!;
  throw new UsageError(
    `parts[${odd}] is ${part.length} ${dtypeOf(part, options.dtype).name}, but every rank receives ${length} ${dtype.name}.`,
  );
}

/** Checks that the dtype supports the op, and that a factor is passed with PREMUL_SUM only. */
export function checkReduction(dtype: Dtype, { op = ReduceOp.SUM, factor }: ReduceOptions): void {
  reducerFor(dtype, op);
  if ((op === ReduceOp.PREMUL_SUM) === (factor !== undefined)) return;
  throw new UsageError('PREMUL_SUM needs a factor, and only PREMUL_SUM takes one.');
}

/**
 * Returns the codec. Checks that it supports the dtype and the op, and the length of the residual.
 */
export function checkCodec({ length }: TypedArray, dtype: Dtype, options: AllReduceOptions): Codec | null {
  const { codec: name = 'fp32', op = ReduceOp.SUM, residual } = options;
  const codec = codecOf(name);
  if (codec !== null && (dtype.code !== DtypeCode.FLOAT32 || (op !== ReduceOp.SUM && op !== ReduceOp.AVG))) {
    throw new UsageError(`The codec ${name} is for SUM and AVG of float32: leave it out.`);
  }
  if (residual && residual.length !== length) {
    throw new UsageError(
      `residual has ${residual.length} elements, and the tensor has ${length}: pass one of the same length.`,
    );
  }
  return codec;
}

/**
 * Displacements of the parts of one op's tensor. @throws UsageError if there are too many elements.
 */
export function checkedDisplacements(sizes: readonly number[]): Displacements {
  const displacements = displacementsOf(sizes);
  checkCount(displacements.at(-1)!);
  return displacements;
}

/** Checks the elements of one collective or message. @throws UsageError */
export function checkCount(count: number): void {
  if (count <= MAX_COUNT) return;
  throw new UsageError(
    `${count} elements are more than one collective or message can have (${MAX_COUNT}): divide the tensor.`,
  );
}

export function checkTag(what: 'tag' | 'bucket', value: number): void {
  if (Number.isInteger(value) && value >= 0 && value <= MAX_TAG) return;
  throw new UsageError(`A ${what} is a whole number from 0 to ${MAX_TAG}, not ${value}.`);
}

/** Checks the ranks of a new group in a world of `worldSize`. */
export function checkMembers(ranks: readonly number[], worldSize: number): void {
  const wrong = ranks.find((rank) => !Number.isInteger(rank) || rank < 0 || rank >= worldSize);
  if (ranks.length === 0) throw new UsageError('A group needs at least one rank.');
  if (wrong !== undefined) {
    throw new UsageError(`Rank ${wrong} does not exist: the world has ranks 0 .. ${worldSize - 1}.`);
  }
  if (new Set(ranks).size < ranks.length) {
    throw new UsageError(`A group names each rank once, not ${ranks.join(', ')}.`);
  }
}

/** `0 .. 3`, `0, 2, 5`. */
function rangeOf(ranks: readonly number[]): string {
  const isRange = ranks.every((rank, i) => rank === i);
  return isRange ? `0 .. ${ranks.length - 1}` : ranks.join(', ');
}
