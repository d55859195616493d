/**
 * Prepares collectives: checks the arguments, chooses the algorithm, and creates the plan and the
 * arrays. The result is ready to be issued.
 */
import { AlgorithmCode, OpCode, ReduceOp } from '../protocol/frame.ts';
import { UsageError } from '../util/errors.ts';
import {
  checkAlgorithm,
  checkElementCount,
  checkedDisplacements,
  checkScatterParts,
  checkReduction,
  checkScatterList,
  checkSizesPerRank,
  checkTag,
  codecForCall,
  checkedPartSizes,
  groupRankOfRoot,
  checkedSplitSizes,
  type CallerInGroup,
} from './argumentChecks.ts';
import { splitAtDisplacements } from './coalesce.ts';
import { sumOfSizesText, tagOfSizes, partSizesText, tagOfShape, shapeText } from './diagnostics/descriptor.ts';
import { copyElements, dtypeOf, newZeros, tensorView, type Dtype, type TypedArray } from './dtypes.ts';
import type { OpDescription } from './inFlightOp.ts';
import type {
  AllReduceOptions,
  AllToAllOptions,
  OpOptions,
  ReduceOptions,
  ReduceScatterOptions,
  RootedOptions,
  SizesOptions,
} from './options.ts';
import { planAllGather, planAllReduce, planBroadcast, planReduce, type AlgorithmChoice } from './plans/algorithms.ts';
import { planDirectAllToAll, planDirectGather, planDirectScatter, planRingReduceScatter } from './plans/plans.ts';
import { scaleFloats } from './reduce.ts';

/**
 * An op without the options of waits. Preparing it must not change the caller's arrays, because the
 * call may be rejected.
 */
export type PreparedOp<T> = Omit<OpDescription<T>, 'timeoutMs' | 'after'>;

interface InPlaceOptions extends AlgorithmChoice, Pick<AllReduceOptions, 'op' | 'factor'> {
  root?: number;
  tag?: number;
  amount?: string | undefined;
}

export function prepareAllReduce<T extends TypedArray>(
  { ranks, served }: CallerInGroup,
  tensor: T,
  options: AllReduceOptions,
): PreparedOp<T> {
  const n = ranks.length;
  const dtype = dtypeOf(tensor, options.dtype);
  const { bucket = 0, residual = null, algorithm = 'auto', shape } = options;
  checkTag('bucket', bucket);
  checkReduction(dtype, options);
  const codec = codecForCall(tensor, dtype, options);
  checkAlgorithm(algorithm, n, codec);
  const { chunks, name, ...choice } = planAllReduce(tensor, n, algorithm, codec, served);
  const plain = inPlaceOp(OpCode.ALL_REDUCE, tensor, dtype, {
    ...options,
    ...choice,
    tag: bucket ^ tagOfShape(shape),
    amount: shapeText(shape),
  });
  const isEncoded = codec !== null && n > 1;
  return {
    ...plain,
    // The codec is part of the descriptor even in a world of one rank, because all ranks must pass
    // the same codec.
    descriptor: { ...plain.descriptor, dtype: codec?.code ?? dtype.code },
    ...(isEncoded && { encoding: { codec, residual, chunks } }),
    ...(n > 1 && { traced: name }),
    before: () => {
      plain.before?.();
      if (!isEncoded) residual?.fill(0);
    },
  };
}

export function prepareReduce<T extends TypedArray>(
  caller: CallerInGroup,
  tensor: T,
  dst: number,
  options: ReduceOptions & RootedOptions,
): PreparedOp<T> {
  const root = groupRankOfRoot(caller, dst);
  const dtype = dtypeOf(tensor, options.dtype);
  checkReduction(dtype, options);
  const choice = planReduce(tensor, root, caller, options);
  const { shape } = options;
  return inPlaceOp(OpCode.REDUCE, tensor, dtype, {
    ...options,
    ...choice,
    root,
    tag: tagOfShape(shape),
    amount: shapeText(shape),
  });
}

export function prepareBroadcast<T extends TypedArray>(
  caller: CallerInGroup,
  tensor: T,
  src: number,
  options: OpOptions & RootedOptions,
): PreparedOp<T> {
  const root = groupRankOfRoot(caller, src);
  const dtype = dtypeOf(tensor, options.dtype);
  const choice = planBroadcast(tensor, root, caller, options);
  const { shape } = options;
  return inPlaceOp(OpCode.BROADCAST, tensor, dtype, {
    ...choice,
    root,
    op: ReduceOp.NONE,
    tag: tagOfShape(shape),
    amount: shapeText(shape),
  });
}

export function prepareAllGather<T extends TypedArray>(
  caller: CallerInGroup,
  tensor: T,
  options: SizesOptions,
): PreparedOp<T[]> {
  const dtype = dtypeOf(tensor, options.dtype);
  const sizes = checkedPartSizes(caller, tensor, options.sizes);
  const displacements = checkedDisplacements(sizes);
  const parts = newZeros(tensor, displacements.at(-1)!);
  const op = inPlaceOp(OpCode.ALL_GATHER, parts, dtype, {
    ...planAllGather(parts, displacements, caller.served),
    op: ReduceOp.NONE,
    tag: tagOfSizes(sizes) ^ tagOfShape(options.shape),
    amount: partSizesText(sizes, options.shape, `${sizes.length} x `),
  });
  return {
    ...op,
    needsEveryRank: sizes.every((size) => size > 0),
    before: () => copyElements(parts, tensor, displacements[caller.rank]!),
    result: () => splitAtDisplacements(parts, displacements),
  };
}

export function prepareGather<T extends TypedArray>(
  caller: CallerInGroup,
  tensor: T,
  dst: number,
  options: SizesOptions,
): PreparedOp<T[] | null> {
  const { rank, ranks } = caller;
  const root = groupRankOfRoot(caller, dst);
  const dtype = dtypeOf(tensor, options.dtype);
  const sizes = checkedPartSizes(caller, tensor, options.sizes);
  const displacements = checkedDisplacements(sizes);
  const isRoot = rank === root;
  const parts = isRoot ? newZeros(tensor, displacements.at(-1)!) : tensor;
  const tag = tagOfSizes(sizes) ^ tagOfShape(options.shape);
  return {
    descriptor: { ...direct(OpCode.GATHER, dtype, root), count: displacements.at(-1)!, tag },
    plan: () => planDirectGather(rank, ranks.length, root, displacements),
    dtype,
    source: tensor,
    target: parts,
    amount: partSizesText(sizes, options.shape, `${sizes.length} x `),
    before: () => {
      if (isRoot) copyElements(parts, tensor, displacements[rank]!);
    },
    result: () => (isRoot ? splitAtDisplacements(parts, displacements) : null),
  };
}

export function prepareScatter<T extends TypedArray>(
  caller: CallerInGroup,
  tensor: T,
  src: number,
  parts: readonly T[] | null,
  options: OpOptions,
): PreparedOp<T> {
  const { rank, ranks } = caller;
  const root = groupRankOfRoot(caller, src);
  const dtype = dtypeOf(tensor, options.dtype);
  const passed = checkScatterList(caller, src, parts, 'parts');
  if (passed) checkScatterParts(passed, tensor, dtype, options);
  const sizes = ranks.map(() => tensor.length);
  const displacements = checkedDisplacements(sizes);
  const all = passed ? newZeros(tensor, displacements.at(-1)!) : tensor;
  const tag = tagOfShape(options.shape);
  return {
    descriptor: { ...direct(OpCode.SCATTER, dtype, root), count: displacements.at(-1)!, tag },
    plan: () => planDirectScatter(rank, ranks.length, root, displacements),
    dtype,
    source: all,
    target: tensor,
    amount: partSizesText(sizes, options.shape, `${sizes.length} x `),
    before: () => {
      passed?.forEach((part, i) => copyElements(all, part, displacements[i]!));
      if (passed) copyElements(tensor, passed[rank]!, 0);
    },
    result: () => tensor,
  };
}

export function prepareReduceScatter<T extends TypedArray>(
  caller: CallerInGroup,
  tensor: T,
  options: ReduceScatterOptions,
): PreparedOp<T> {
  const { rank, ranks } = caller;
  const dtype = dtypeOf(tensor, options.dtype);
  const sizes = checkedSplitSizes(caller, tensor, options.sizes, 'sizes');
  const displacements = checkedDisplacements(sizes);
  const copy = newZeros(tensor, tensor.length);
  const { residual = null } = options;
  checkReduction(dtype, options);
  const codec = codecForCall(tensor, dtype, options);
  const isEncoded = codec !== null && ranks.length > 1;
  const op = inPlaceOp(OpCode.REDUCE_SCATTER, copy, dtype, {
    ...options,
    algorithm: AlgorithmCode.RING,
    plan: () => planRingReduceScatter(rank, ranks.length, displacements),
    tag: tagOfSizes(sizes) ^ tagOfShape(options.shape),
    amount: partSizesText(sizes, options.shape),
  });
  return {
    ...op,
    descriptor: { ...op.descriptor, dtype: codec?.code ?? dtype.code },
    ...(isEncoded && { encoding: { codec, residual, chunks: displacements } }),
    before: () => {
      copyElements(copy, tensor, 0);
      op.before?.();
      if (!isEncoded) residual?.fill(0);
    },
    result: () => copy.slice(displacements[rank], displacements[rank + 1]) as T,
  };
}

export function prepareAllToAll<T extends TypedArray>(
  caller: CallerInGroup,
  tensor: T,
  options: AllToAllOptions,
): PreparedOp<T> {
  const { rank, ranks } = caller;
  const dtype = dtypeOf(tensor, options.dtype);
  const inputSplits = checkedSplitSizes(caller, tensor, options.inputSplits, 'inputSplits');
  const outputSplits = checkSizesPerRank(caller, options.outputSplits ?? inputSplits, 'outputSplits');
  const input = checkedDisplacements(inputSplits);
  const output = checkedDisplacements(outputSplits);
  const target = newZeros(tensor, output.at(-1)!);
  const [sent, received] = [partSizesText(inputSplits, options.shape), sumOfSizesText(outputSplits)];
  const isEqual = sumOfSizesText(inputSplits) === received;
  if (rank >= 0) checkOwnPart(caller, inputSplits, outputSplits);
  const own = tensorView(tensor, input[rank]!, input[rank + 1]!);
  return {
    descriptor: { ...direct(OpCode.ALL_TO_ALL, dtype, 0), count: tensor.length, tag: tagOfShape(options.shape) },
    plan: () => planDirectAllToAll(rank, ranks.length, input, output),
    dtype,
    source: tensor,
    target,
    amount: isEqual ? sent : `${sent} into ${received}`,
    before: () => copyElements(target, own, output[rank]!),
    result: () => target,
  };
}

export function prepareBarrier({ ranks, served }: CallerInGroup): PreparedOp<void> {
  // A barrier is an all-reduce of one byte, because an all-reduce cannot end on any rank before all
  // ranks have called it.
  const tensor = new Uint8Array(1);
  const choice = planAllReduce(tensor, ranks.length, 'auto', null, served);
  const op = inPlaceOp(OpCode.BARRIER, tensor, dtypeOf(tensor), { ...choice, op: ReduceOp.MAX });
  return { ...op, result: () => {} };
}

function inPlaceOp<T extends TypedArray>(
  code: OpCode,
  tensor: T,
  dtype: Dtype,
  options: InPlaceOptions,
): PreparedOp<T> {
  const { op = ReduceOp.SUM, factor, algorithm, plan, root = 0, tag = 0, amount } = options;
  checkElementCount(tensor.length);
  return {
    descriptor: { op: code, reduceOp: op, dtype: dtype.code, algorithm, root, tag, count: tensor.length },
    dtype,
    plan,
    source: tensor,
    target: tensor,
    amount,
    before: factor === undefined ? undefined : () => scaleFloats(tensor, dtype, factor),
    result: () => tensor,
  };
}

/**
 * Returns the common fields of descriptors of gather, scatter and all-to-all. In these ops, every
 * part goes directly from its sender to its receiver.
 */
function direct(op: OpCode, dtype: Dtype, root: number) {
  return { op, dtype: dtype.code, reduceOp: ReduceOp.NONE, algorithm: AlgorithmCode.DIRECT, root };
}

/** Checks that a rank sends itself as much as it receives from itself in an all-to-all. */
function checkOwnPart(
  { self, rank }: CallerInGroup,
  inputSplits: readonly number[],
  outputSplits: readonly number[],
): void {
  if (inputSplits[rank] === outputSplits[rank]) return;
  throw new UsageError(
    `inputSplits[${rank}] and outputSplits[${rank}] differ, but both are the size of the part that rank ${self} sends to itself. Pass equal sizes.`,
  );
}
