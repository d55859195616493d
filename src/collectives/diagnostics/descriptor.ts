/** What every rank must say the same of an op, and how messages say it. */
import { Algorithm, OpCode, ReduceOp, type DtypeCode } from '../../protocol/frame.ts';
import { mixSeed } from '../../util/rng.ts';
import { dtypeName } from '../dtypes.ts';

/** Largest tag: it has two bytes in a frame. */
export const MAX_TAG = 0xffff;
/** Most elements of an op: they have four bytes in a frame. */
export const MAX_COUNT = 0xffffffff;
/** Sizes of parts that a message of an error lists. */
const MAX_SIZES_NAMED = 8;

export interface OpDescriptor {
  op: OpCode;
  reduceOp: ReduceOp;
  dtype: DtypeCode;
  algorithm: Algorithm;
  /** Rank in the group, of an op that has a root; 0 elsewhere. */
  root: number;
  /**
   * Gradient bucket of an all-reduce; of a collective whose parts may differ, a digest of their
   * sizes; 0 elsewhere.
   */
  tag: number;
  /** Elements of the op's whole tensor; where ranks have parts of it, of all parts together. */
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

/** Where a root's rank stands in a sentence. */
const ROOTED: Partial<Record<OpCode, string>> = {
  [OpCode.BROADCAST]: ' from rank ',
  [OpCode.SCATTER]: ' from rank ',
  [OpCode.REDUCE]: ' to rank ',
  [OpCode.GATHER]: ' to rank ',
};

const nameIn = (values: Record<string, number>, code: number): string =>
  Object.entries(values).find(([, value]) => value === code)?.[0] ?? `unknown ${code}`;

/** `allReduce`. */
export function opName(op: OpCode): string {
  return OP_NAMES[op] ?? `unknown op ${op}`;
}

/** `ring`, `halving-doubling`. */
export function algorithmName(algorithm: Algorithm): string {
  return nameIn(Algorithm, algorithm).toLowerCase().replaceAll('_', '-');
}

/**
 * `allReduce(25450 float32, SUM)`.
 *
 * @param rankOf turns ranks of the group into global ones.
 * @param amount what to say for the count: `3 + 4 + 5` of parts that differ.
 */
export function describeOp(descriptor: OpDescriptor, rankOf: (rank: number) => number, amount?: string): string {
  const { op, reduceOp, dtype, algorithm, root, tag, count } = descriptor;
  if (op === OpCode.BARRIER) return 'barrier()';
  const rooted = ROOTED[op] === undefined ? '' : `${ROOTED[op]}${rankOf(root)}`;
  const how = reduceOp === ReduceOp.NONE ? '' : `, ${nameIn(ReduceOp, reduceOp)}`;
  // Of the others every rank takes the same way, without being told.
  const isTold = algorithm === Algorithm.DIRECT && (op === OpCode.BROADCAST || op === OpCode.REDUCE);
  const bucket = op === OpCode.ALL_REDUCE && tag > 0 ? `, bucket ${tag}` : '';
  return `${opName(op)}(${amount ?? count} ${dtypeName(dtype)}${rooted}${how}${isTold ? ', direct' : ''}${bucket})`;
}

/**
 * For `tag`. Differs, but for one list in 65 536, where sizes do: of the same sum, they would else
 * look the same to other ranks.
 */
export function digestOf(sizes: readonly number[]): number {
  return mixSeed(...sizes) % (MAX_TAG + 1);
}

/** For `amount`: `12` elements in equal parts, or `3 + 4 + 5`. */
export function amountOf(sizes: readonly number[]): string {
  if (sizes.every((size) => size === sizes[0])) return String(sizes.length * sizes[0]!);
  const more = sizes.length > MAX_SIZES_NAMED ? ' + ...' : '';
  return `${sizes.slice(0, MAX_SIZES_NAMED).join(' + ')}${more}`;
}

/**
 * Ranks that chose different algorithms have been told different things, and would wait for each
 * other.
 */
export function isSameOp(a: OpDescriptor, b: OpDescriptor): boolean {
  return (
    a.op === b.op &&
    a.reduceOp === b.reduceOp &&
    a.dtype === b.dtype &&
    a.algorithm === b.algorithm &&
    a.root === b.root &&
    a.tag === b.tag &&
    // Ranks need not have equally much for all others: there, each transfer says how much it is.
    (a.op === OpCode.ALL_TO_ALL || a.count === b.count)
  );
}
