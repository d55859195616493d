/**
 * The descriptor of an op, and the text of the op in error messages. All ranks must call an op with
 * the same descriptor.
 */
import { AlgorithmCode, OpCode, ReduceOp, type DtypeCode } from '../../protocol/frame.ts';
import { mixSeed } from '../../util/rng.ts';
import { dtypeName } from '../dtypes.ts';

/** Largest tag, because a frame has two bytes for a tag. */
export const MAX_TAG = 0xffff;
/** Maximum number of elements of an op, because a frame has four bytes for the number. */
export const MAX_OP_ELEMENTS = 0xffffffff;
/** Maximum number of sizes that an error message lists. */
const MAX_SIZES_NAMED = 8;

export interface CollectiveOpDescriptor {
  op: OpCode;
  reduceOp: ReduceOp;
  dtype: DtypeCode;
  algorithm: AlgorithmCode;
  /** Rank of the root in the group; 0 for ops without one. */
  root: number;
  /**
   * For an all-reduce, the gradient bucket. For an all-gather, gather or reduce-scatter, the digest
   * of the sizes. For other ops, 0. If the op has a shape, the value is combined with {@link
   * tagOfShape}.
   */
  tag: number;
  /**
   * Number of elements of the op's whole tensor. If each rank has a part, all parts are included.
   */
  count: number;
}

const OP_NAMES: Record<OpCode, string> = {
  [OpCode.NONE]: 'none',
  [OpCode.ALL_REDUCE]: 'allReduce',
  [OpCode.BROADCAST]: 'broadcast',
  [OpCode.ALL_GATHER]: 'allGather',
  [OpCode.BARRIER]: 'barrier',
  [OpCode.REDUCE]: 'reduce',
  [OpCode.GATHER]: 'gather',
  [OpCode.SCATTER]: 'scatter',
  [OpCode.REDUCE_SCATTER]: 'reduceScatter',
  [OpCode.ALL_TO_ALL]: 'allToAll',
  [OpCode.SEND]: 'send',
};

/** The preposition before the root's rank in error messages. */
const ROOTED: Partial<Record<OpCode, string>> = {
  [OpCode.BROADCAST]: ' from rank ',
  [OpCode.SCATTER]: ' from rank ',
  [OpCode.REDUCE]: ' to rank ',
  [OpCode.GATHER]: ' to rank ',
};

const nameIn = (values: Record<string, number>, code: number): string =>
  Object.entries(values).find(([, value]) => value === code)?.[0] ?? `unknown ${code}`;

/** Returns the name of an op, such as `allReduce`. */
export function collectiveOpName(op: OpCode): string {
  return OP_NAMES[op] ?? `unknown op ${op}`;
}

/** Returns the name of an algorithm, such as `ring` or `halving-doubling`. */
export function algorithmName(algorithm: AlgorithmCode): string {
  return nameIn(AlgorithmCode, algorithm).toLowerCase().replaceAll('_', '-');
}

/**
 * Returns the text of a call, such as `allReduce(25450 float32, SUM)`.
 *
 * @param rankOf converts ranks of the group to global ones.
 * @param amount text for the count, such as `3 + 4 + 5` for unequal parts.
 */
export function describeOpCall(
  descriptor: CollectiveOpDescriptor,
  rankOf: (rank: number) => number,
  amount?: string,
): string {
  const { op, reduceOp, dtype, algorithm, root, tag, count } = descriptor;
  if (op === OpCode.BARRIER) return 'barrier()';
  const rooted = ROOTED[op] === undefined ? '' : `${ROOTED[op]}${rankOf(root)}`;
  const how = reduceOp === ReduceOp.NONE ? '' : `, ${nameIn(ReduceOp, reduceOp)}`;
  // The caller can choose the algorithm of these two ops only.
  const isChosen = algorithm === AlgorithmCode.DIRECT && (op === OpCode.BROADCAST || op === OpCode.REDUCE);
  // With an amount, the tag contains the shape.
  const bucket = op === OpCode.ALL_REDUCE && tag > 0 && amount === undefined ? `, bucket ${tag}` : '';
  return `${collectiveOpName(op)}(${amount ?? count} ${dtypeName(dtype)}${rooted}${how}${isChosen ? ', direct' : ''}${bucket})`;
}

/**
 * Returns a digest of sizes for `tag`. Without the digest, two lists of sizes with the same sum
 * would look equal to other ranks. Two different lists have the same digest with a probability of
 * 1 in 65 536.
 */
export function tagOfSizes(sizes: readonly number[]): number {
  return mixSeed(...sizes) % (MAX_TAG + 1);
}

/**
 * Returns the text of sizes for `amount`: the sum if all sizes are equal, otherwise a list such as
 * `3 + 4 + 5`.
 */
export function sumOfSizesText(sizes: readonly number[]): string {
  if (sizes.every((size) => size === sizes[0])) return String(sizes.length * sizes[0]!);
  const more = sizes.length > MAX_SIZES_NAMED ? ' + ...' : '';
  return `${sizes.slice(0, MAX_SIZES_NAMED).join(' + ')}${more}`;
}

/**
 * Returns a digest of a tensor's shape without the first dimension, which follows from the number
 * of elements. The digest is 0 if there are no further dimensions.
 */
export function tagOfShape(shape: readonly number[] = []): number {
  return shape.length < 2 ? 0 : tagOfSizes(shape.slice(1));
}

export function shapeText(shape: readonly number[] | undefined): string | undefined {
  return shape && `[${shape.join(', ')}]`;
}

/**
 * Returns the text of the sizes of a tensor's parts for `amount`, with the tensor's shape.
 *
 * @param parts text before the shape if all sizes are equal, such as `4 x `.
 */
export function partSizesText(sizes: readonly number[], shape: readonly number[] | undefined, parts = ''): string {
  if (!shape) return sumOfSizesText(sizes);
  if (sizes.every((size) => size === sizes[0])) return `${parts}${shapeText(shape)}`;
  return `${sumOfSizesText(sizes)} in rows of ${shapeText(shape.slice(1))}`;
}

/**
 * Whether two ranks called the same op. The algorithm must be equal, too, because ranks with
 * different algorithms would wait for each other.
 */
export function isSameOp(a: CollectiveOpDescriptor, b: CollectiveOpDescriptor): boolean {
  return (
    a.op === b.op &&
    a.reduceOp === b.reduceOp &&
    a.dtype === b.dtype &&
    a.algorithm === b.algorithm &&
    a.root === b.root &&
    a.tag === b.tag &&
    // In an all-to-all, ranks may have different totals. The length of each transfer is checked
    // instead.
    (a.op === OpCode.ALL_TO_ALL || a.count === b.count)
  );
}
