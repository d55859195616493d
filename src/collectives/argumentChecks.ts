/**
 * Functions that check the arguments of a process group's calls. They throw UsageError if an
 * argument is invalid.
 */
import type { ServedPairs } from '../protocol/control.ts';
import { DtypeCode, ReduceOp } from '../protocol/frame.ts';
import { ALGORITHM_NAMES, whyAlgorithmCannotRun, type AlgorithmName } from '../spec/algorithms.ts';
import { UsageError } from '../util/errors.ts';
import { codecByName, type Codec } from './codecs.ts';
import { MAX_OP_ELEMENTS, MAX_TAG } from './diagnostics/descriptor.ts';
import { dtypeOf, type Dtype, type TypedArray } from './dtypes.ts';
import type { EncodedReduceOptions, MessageOptions, OpOptions, ReduceOptions } from './options.ts';
import { displacementsOf, type Displacements } from './plans/plans.ts';
import { reduceFunctionFor } from './reduce.ts';

/** A call's group, and the caller's place in that group. */
export interface CallerInGroup {
  /** The caller's rank in the world. Error messages name this rank. */
  readonly self: number;
  /** The caller's rank in the group; -1 if the caller is not a member. */
  readonly rank: number;
  /** Global ranks of the members, by rank in the group. */
  readonly ranks: readonly number[];
  /** See `ProcessGroup.served`. */
  served: ServedPairs;
}

/** Converts the global rank of a root to its rank in the group. */
export function groupRankOfRoot({ ranks }: CallerInGroup, rank: number): number {
  const root = ranks.indexOf(rank);
  if (root >= 0) return root;
  throw new UsageError(`Invalid root rank ${rank}: this group has ranks ${rangeOf(ranks)}.`);
}

/** Converts the global rank of a message's other end to its rank in the group. */
export function groupRankOfPeer({ rank, ranks }: CallerInGroup, peer: number, what: 'source' | 'destination'): number {
  const place = ranks.indexOf(peer);
  if (place >= 0 && place !== rank) return place;
  const why =
    place >= 0 ? 'a rank cannot send to itself or receive from itself' : `this group has ranks ${rangeOf(ranks)}`;
  throw new UsageError(`Invalid ${what} rank ${peer}: ${why}.`);
}

/** Returns the sizes of all ranks' parts. `tensor` is this rank's part. */
export function checkedPartSizes(
  caller: CallerInGroup,
  { length }: TypedArray,
  sizes: readonly number[] | undefined,
): readonly number[] {
  const { self, rank, ranks } = caller;
  if (sizes === undefined) return ranks.map(() => length);
  checkSizesPerRank(caller, sizes, 'sizes');
  if (rank >= 0 && sizes[rank] !== length) {
    throw new UsageError(`sizes[${rank}] is ${sizes[rank]}, but rank ${self}'s tensor has ${length} elements.`);
  }
  return sizes;
}

/** Returns the sizes of the parts that `tensor` is divided into. */
export function checkedSplitSizes(
  caller: CallerInGroup,
  { length }: TypedArray,
  sizes: readonly number[] | undefined,
  name: string,
): readonly number[] {
  const n = caller.ranks.length;
  if (sizes === undefined) {
    if (length % n === 0) return caller.ranks.map(() => length / n);
    throw new UsageError(`${length} elements cannot be divided into ${n} equal parts. Pass ${name}.`);
  }
  const sum = checkSizesPerRank(caller, sizes, name).reduce((total, size) => total + size, 0);
  if (sum !== length) throw new UsageError(`${name} add up to ${sum}, but the tensor has ${length} elements.`);
  return sizes;
}

/** Returns `sizes` if there is one size for each rank. Does not check the sum of the sizes. */
export function checkSizesPerRank({ ranks }: CallerInGroup, sizes: readonly number[], name: string): readonly number[] {
  if (sizes.length !== ranks.length || !sizes.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    throw new UsageError(`${name} must be ${ranks.length} whole numbers, one per rank, not ${sizes.join(', ')}.`);
  }
  return sizes;
}

/**
 * Checks and returns the list that a rank passes to a scatter. Global rank `src` must pass one item
 * per rank. Every other rank must pass `null`.
 */
export function checkScatterList<T>(
  { self, ranks }: CallerInGroup,
  src: number,
  all: readonly T[] | null,
  what: 'parts' | 'values',
): readonly T[] | null {
  if (self !== src && all !== null) {
    throw new UsageError(`Only rank ${src} passes ${what} to scatter. Pass null on rank ${self}.`);
  }
  if (self === src && all?.length !== ranks.length) {
    throw new UsageError(
      `Incorrect input list size: rank ${src} must pass ${ranks.length} ${what}, one per rank, but passed ${all?.length ?? 0}.`,
    );
  }
  return all;
}

/**
 * Checks that each part of a scatter has the length and dtype of the source's own `tensor`. Every
 * rank receives its part into a tensor with this length and dtype.
 */
export function checkScatterParts(
  parts: readonly TypedArray[],
  { length }: TypedArray,
  dtype: Dtype,
  options: OpOptions,
): void {
  const odd = parts.findIndex((part) => part.length !== length || dtypeOf(part, options.dtype) !== dtype);
  if (odd < 0) return;
  const part = parts[odd]!;
  throw new UsageError(
    `parts[${odd}] has ${part.length} ${dtypeOf(part, options.dtype).name} elements, but every rank receives ${length} ${dtype.name} elements.`,
  );
}

/** Checks that the dtype supports the op, and that a factor is passed with PREMUL_SUM only. */
export function checkReduction(dtype: Dtype, { op = ReduceOp.SUM, factor }: ReduceOptions): void {
  reduceFunctionFor(dtype, op);
  if ((op === ReduceOp.PREMUL_SUM) === (factor !== undefined)) return;
  throw new UsageError('PREMUL_SUM needs a factor, and no other op accepts a factor.');
}

/**
 * Returns the codec of a call. Checks that it supports the dtype and the op, and that the residual
 * has the tensor's length. @throws UsageError
 */
export function codecForCall({ length }: TypedArray, dtype: Dtype, options: EncodedReduceOptions): Codec | null {
  const { codec: name = 'fp32', op = ReduceOp.SUM, residual } = options;
  const codec = codecByName(name);
  if (codec !== null && (dtype.code !== DtypeCode.FLOAT32 || (op !== ReduceOp.SUM && op !== ReduceOp.AVG))) {
    throw new UsageError(`The codec ${name} supports only SUM and AVG of float32. Use the codec fp32 for other calls.`);
  }
  if (residual && residual.length !== length) {
    throw new UsageError(
      `residual has ${residual.length} elements, but the tensor has ${length}. Pass a residual of the tensor's length.`,
    );
  }
  return codec;
}

/** Checks that `n` ranks can run the algorithm of an all-reduce. @throws UsageError */
export function checkAlgorithm(name: AlgorithmName, n: number, codec: Codec | null = null): void {
  if (!ALGORITHM_NAMES.includes(name)) {
    throw new UsageError(`There is no algorithm "${name}". Use one of these: ${ALGORITHM_NAMES.join(', ')}.`);
  }
  const why = whyAlgorithmCannotRun(name, n, codec !== null);
  if (why !== null) throw new UsageError(`The all-reduce cannot run: ${why}. Pass the algorithm ring or auto.`);
}

/**
 * Returns the displacements of the parts of one op's tensor.
 *
 * @throws UsageError if the parts together have too many elements.
 */
export function checkedDisplacements(sizes: readonly number[]): Displacements {
  const displacements = displacementsOf(sizes);
  checkElementCount(displacements.at(-1)!);
  return displacements;
}

/** Checks the number of elements of one collective or message. @throws UsageError */
export function checkElementCount(count: number): void {
  if (count <= MAX_OP_ELEMENTS) return;
  throw new UsageError(
    `A collective or message can have at most ${MAX_OP_ELEMENTS} elements, not ${count}. Divide the tensor.`,
  );
}

export function checkTag(what: 'tag' | 'bucket', value: number): void {
  if (Number.isInteger(value) && value >= 0 && value <= MAX_TAG) return;
  throw new UsageError(`A ${what} is a whole number from 0 to ${MAX_TAG}, not ${value}.`);
}

/** Checks a message and returns its options, with defaults for those that are missing. */
export function checkedMessageOptions(
  tensor: TypedArray,
  { tag = 0, timeoutMs, dtype, shape, after }: MessageOptions,
  groupTimeoutMs: number,
) {
  checkTag('tag', tag);
  checkElementCount(tensor.length);
  return { dtype: dtypeOf(tensor, dtype), tag, timeoutMs: timeoutMs ?? groupTimeoutMs, shape, after };
}

/** Checks the ranks of a new group in a world of `worldSize` ranks. */
export function checkGroupRanks(ranks: readonly number[], worldSize: number): void {
  const wrong = ranks.find((rank) => !Number.isInteger(rank) || rank < 0 || rank >= worldSize);
  if (ranks.length === 0) throw new UsageError('A group needs at least one rank.');
  if (wrong !== undefined) {
    throw new UsageError(`Rank ${wrong} does not exist: the world has ranks 0 .. ${worldSize - 1}.`);
  }
  if (new Set(ranks).size < ranks.length) {
    throw new UsageError(`Each rank can be in a group only once, but the ranks are ${ranks.join(', ')}.`);
  }
}

/** Returns ranks as text, such as `0 .. 3` or `0, 2, 5`. */
function rangeOf(ranks: readonly number[]): string {
  const isRange = ranks.every((rank, i) => rank === i);
  return isRange ? `0 .. ${ranks.length - 1}` : ranks.join(', ');
}
