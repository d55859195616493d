/**
 * Prepares collectives: checks the arguments, chooses the algorithm, and creates the plan and the
 * arrays. The result is ready to be issued.
 */
import { Algorithm, OpCode, ReduceOp } from '../protocol/frame.ts';
import { UsageError } from '../util/errors.ts';
import {
  checkAlgorithm,
  checkCodec,
  checkCount,
  checkedDisplacements,
  checkParts,
  checkReduction,
  checkScattered,
  checkSizes,
  checkTag,
  partSizes,
  rootRank,
  splitSizes,
  type Caller,
} from './argumentChecks.ts';
import { concatenate, split } from './coalesce.ts';
import { amountOf, digestOf } from './diagnostics/descriptor.ts';
import { copyInto, dtypeOf, emptyLike, view, type Dtype, type TypedArray } from './dtypes.ts';
import type { Issue } from './inFlightOp.ts';
import type {
  AllReduceOptions,
  AllToAllOptions,
  OpOptions,
  ReduceOptions,
  RootedOptions,
  SizesOptions,
} from './options.ts';
import { allGatherOf, allReduceOf, broadcastOf, reduceOf, type Choice } from './plans/algorithms.ts';
import { directAllToAll, directGather, directScatter, ringReduceScatter, type Displacements } from './plans/plans.ts';
import { traceOfPlan } from './plans/opTrace.ts';
import { scale } from './reduce.ts';

export interface PreparedOp<T> extends Omit<Issue<T>, 'timeoutMs'> {
  /** The op's own deadline; `undefined` if the group's deadline applies. */
  timeoutMs: number | undefined;
  /**
   * Writes the op's input to the caller's arrays. Called when the op is issued, so that a rejected
   * call does not change the arrays.
   */
  before?: (() => void) | undefined;
}

interface InPlaceOptions extends Choice, Pick<AllReduceOptions, 'op' | 'factor' | 'timeoutMs'> {
  root?: number;
  tag?: number;
  amount?: string;
}

export function allReduceOp<T extends TypedArray>(
  { rank, ranks }: Caller,
  tensor: T,
  options: AllReduceOptions,
): PreparedOp<T> {
  const n = ranks.length;
  const dtype = dtypeOf(tensor, options.dtype);
  const { bucket: tag = 0, residual = null, algorithm = 'auto' } = options;
  checkTag('bucket', tag);
  checkReduction(dtype, options);
  const codec = checkCodec(tensor, dtype, options);
  checkAlgorithm(algorithm, n, codec);
  const { chunks, name, ...choice } = allReduceOf(tensor, n, algorithm, codec);
  const plain = inPlaceOp(OpCode.ALL_REDUCE, tensor, dtype, { ...options, ...choice, tag });
  const isEncoded = codec !== null && n > 1;
  return {
    ...plain,
    // The codec is part of the descriptor even in a world of one rank, because all ranks must pass
    // the same codec.
    descriptor: { ...plain.descriptor, dtype: codec?.code ?? dtype.code },
    ...(isEncoded && { encoding: { codec, residual, chunks } }),
    ...(n > 1 && { trace: (op, startedAt) => traceOfPlan(op, startedAt, name, choice.plan(rank)) }),
    before: () => {
      plain.before?.();
      if (!isEncoded) residual?.fill(0);
    },
  };
}

export function reduceOp<T extends TypedArray>(
  caller: Caller,
  tensor: T,
  dst: number,
  options: ReduceOptions & RootedOptions,
): PreparedOp<T> {
  const root = rootRank(caller, dst);
  const dtype = dtypeOf(tensor, options.dtype);
  checkReduction(dtype, options);
  const choice = reduceOf(tensor, root, caller.ranks.length, options);
  return inPlaceOp(OpCode.REDUCE, tensor, dtype, { ...options, ...choice, root });
}

export function broadcastOp<T extends TypedArray>(
  caller: Caller,
  tensor: T,
  src: number,
  options: OpOptions & RootedOptions,
): PreparedOp<T> {
  const root = rootRank(caller, src);
  const dtype = dtypeOf(tensor, options.dtype);
  const choice = broadcastOf(tensor, root, caller.ranks.length, options);
  const { timeoutMs } = options;
  return inPlaceOp(OpCode.BROADCAST, tensor, dtype, { ...choice, root, timeoutMs, op: ReduceOp.NONE });
}

export function allGatherOp<T extends TypedArray>(caller: Caller, tensor: T, options: SizesOptions): PreparedOp<T[]> {
  const dtype = dtypeOf(tensor, options.dtype);
  const sizes = partSizes(caller, tensor, options.sizes);
  const displacements = checkedDisplacements(sizes);
  const parts = emptyLike(tensor, displacements.at(-1)!);
  if (isMember(caller)) copyInto(parts, tensor, displacements[caller.rank]!);
  const op = inPlaceOp(OpCode.ALL_GATHER, parts, dtype, {
    ...allGatherOf(parts, displacements),
    op: ReduceOp.NONE,
    timeoutMs: options.timeoutMs,
    tag: digestOf(sizes),
    amount: amountOf(sizes),
  });
  return { ...op, result: () => split(parts, displacements) };
}

export function gatherOp<T extends TypedArray>(
  caller: Caller,
  tensor: T,
  dst: number,
  options: SizesOptions,
): PreparedOp<T[] | null> {
  const { rank, ranks } = caller;
  const root = rootRank(caller, dst);
  const dtype = dtypeOf(tensor, options.dtype);
  const sizes = partSizes(caller, tensor, options.sizes);
  const displacements = checkedDisplacements(sizes);
  const isRoot = rank === root;
  const parts = isRoot ? emptyLike(tensor, displacements.at(-1)!) : tensor;
  if (isRoot) copyInto(parts, tensor, displacements[rank]!);
  return {
    descriptor: { ...direct(OpCode.GATHER, dtype, root), count: displacements.at(-1)!, tag: digestOf(sizes) },
    plan: () => directGather(rank, ranks.length, root, displacements),
    dtype,
    source: tensor,
    target: parts,
    timeoutMs: options.timeoutMs,
    amount: amountOf(sizes),
    result: () => (isRoot ? split(parts, displacements) : null),
  };
}

export function scatterOp<T extends TypedArray>(
  caller: Caller,
  tensor: T,
  src: number,
  parts: readonly T[] | null,
  options: OpOptions,
): PreparedOp<T> {
  const { rank, ranks } = caller;
  const root = rootRank(caller, src);
  const dtype = dtypeOf(tensor, options.dtype);
  const passed = checkScattered(caller, src, parts, 'parts');
  if (passed) checkParts(passed, tensor, dtype, options);
  const displacements = checkedDisplacements(ranks.map(() => tensor.length));
  const all = passed ? concatenate(passed, displacements) : tensor;
  if (passed) copyInto(tensor, passed[rank]!, 0);
  return {
    descriptor: { ...direct(OpCode.SCATTER, dtype, root), count: displacements.at(-1)!, tag: 0 },
    plan: () => directScatter(rank, ranks.length, root, displacements),
    dtype,
    source: all,
    target: tensor,
    timeoutMs: options.timeoutMs,
    result: () => tensor,
  };
}

export function reduceScatterOp<T extends TypedArray>(
  caller: Caller,
  tensor: T,
  options: ReduceOptions & SizesOptions,
): PreparedOp<T> {
  const { rank, ranks } = caller;
  const dtype = dtypeOf(tensor, options.dtype);
  const sizes = splitSizes(caller, tensor, options.sizes, 'sizes');
  const displacements = checkedDisplacements(sizes);
  const copy = tensor.slice() as T;
  checkReduction(dtype, options);
  const op = inPlaceOp(OpCode.REDUCE_SCATTER, copy, dtype, {
    ...options,
    algorithm: Algorithm.RING,
    plan: () => ringReduceScatter(rank, ranks.length, displacements),
    tag: digestOf(sizes),
    amount: amountOf(sizes),
  });
  return { ...op, result: () => copy.slice(displacements[rank], displacements[rank + 1]) as T };
}

export function allToAllOp<T extends TypedArray>(caller: Caller, tensor: T, options: AllToAllOptions): PreparedOp<T> {
  const { rank, ranks } = caller;
  const dtype = dtypeOf(tensor, options.dtype);
  const inputSplits = splitSizes(caller, tensor, options.inputSplits, 'inputSplits');
  const outputSplits = checkSizes(caller, options.outputSplits ?? inputSplits, 'outputSplits');
  const input = checkedDisplacements(inputSplits);
  const output = checkedDisplacements(outputSplits);
  const target = emptyLike(tensor, output.at(-1)!);
  const [sent, received] = [amountOf(inputSplits), amountOf(outputSplits)];
  if (isMember(caller)) copyOwnPart(caller, tensor, input, target, output);
  return {
    descriptor: { ...direct(OpCode.ALL_TO_ALL, dtype, 0), count: tensor.length, tag: 0 },
    plan: () => directAllToAll(rank, ranks.length, input, output),
    dtype,
    source: tensor,
    target,
    timeoutMs: options.timeoutMs,
    amount: sent === received ? sent : `${sent} into ${received}`,
    result: () => target,
  };
}

export function barrierOp({ ranks }: Caller, timeoutMs: number | undefined): PreparedOp<void> {
  // A barrier is an all-reduce of one byte, because an all-reduce cannot end on any rank before all
  // ranks have called it.
  const tensor = new Uint8Array(1);
  const choice = allReduceOf(tensor, ranks.length);
  const op = inPlaceOp(OpCode.BARRIER, tensor, dtypeOf(tensor), { ...choice, op: ReduceOp.MAX, timeoutMs });
  return { ...op, result: () => {} };
}

function isMember({ rank }: Caller): boolean {
  return rank >= 0;
}

function inPlaceOp<T extends TypedArray>(
  code: OpCode,
  tensor: T,
  dtype: Dtype,
  options: InPlaceOptions,
): PreparedOp<T> {
  const { op = ReduceOp.SUM, factor, algorithm, plan, root = 0, tag = 0, timeoutMs, amount } = options;
  checkCount(tensor.length);
  return {
    descriptor: { op: code, reduceOp: op, dtype: dtype.code, algorithm, root, tag, count: tensor.length },
    dtype,
    plan,
    source: tensor,
    target: tensor,
    amount,
    timeoutMs,
    before: factor === undefined ? undefined : () => scale(tensor, dtype, factor),
    result: () => tensor,
  };
}

/**
 * Returns the common fields of descriptors of gather, scatter and all-to-all. In these ops, every
 * part goes directly from its sender to its receiver.
 */
function direct(op: OpCode, dtype: Dtype, root: number) {
  return { op, dtype: dtype.code, reduceOp: ReduceOp.NONE, algorithm: Algorithm.DIRECT, root };
}

/** Copies this rank's own part of an all-to-all. */
function copyOwnPart(
  { self, rank }: Caller,
  input: TypedArray,
  inputDisplacements: Displacements,
  output: TypedArray,
  outputDisplacements: Displacements,
): void {
  const own = view(input, inputDisplacements[rank]!, inputDisplacements[rank + 1]!);
  if (own.length !== outputDisplacements[rank + 1]! - outputDisplacements[rank]!) {
    throw new UsageError(
      `inputSplits[${rank}] and outputSplits[${rank}] differ, but both are the size of rank ${self}'s part for itself.`,
    );
  }
  copyInto(output, own, outputDisplacements[rank]!);
}
