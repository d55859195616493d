/**
 * Every dtype that collectives accept, and the expected results of reductions. They are computed
 * without the code of the collectives.
 */
import { copyElements, newZeros, tensorView, type TypedArray } from '../../src/collectives/dtypes.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { fromHalf, toHalf } from '../../src/util/float16.ts';

export interface DtypeSample {
  readonly name: string;
  /** Width of an integer in bits; 0 for floating-point dtypes. */
  readonly bits: number;
  readonly isSigned: boolean;
  readonly bytes: number;
  /** Creates a tensor with these values. */
  readonly of: (values: ArrayLike<number | bigint>) => TypedArray;
  /** Options that collectives need for this dtype. */
  readonly options: { dtype?: 'float16' };
}

const numbers = (values: ArrayLike<number | bigint>): number[] => Array.from(values, Number);
const bigints = (values: ArrayLike<number | bigint>): bigint[] => Array.from(values, BigInt);

function integer(bits: number, isSigned: boolean, of: DtypeSample['of']): DtypeSample {
  return { name: `${isSigned ? '' : 'u'}int${bits}`, bits, isSigned, bytes: bits / 8, of, options: {} };
}

export const FLOAT32: DtypeSample = {
  name: 'float32',
  bits: 0,
  isSigned: true,
  bytes: 4,
  options: {},
  of: (values) => Float32Array.from(numbers(values)),
};

export const DTYPES: readonly DtypeSample[] = [
  FLOAT32,
  {
    name: 'float64',
    bits: 0,
    isSigned: true,
    bytes: 8,
    options: {},
    of: (values) => Float64Array.from(numbers(values)),
  },
  {
    name: 'float16',
    bits: 0,
    isSigned: true,
    bytes: 2,
    options: { dtype: 'float16' },
    of: (values) => toHalf(Float32Array.from(numbers(values))),
  },
  integer(8, true, (values) => Int8Array.from(numbers(values))),
  integer(8, false, (values) => Uint8Array.from(numbers(values))),
  integer(32, true, (values) => Int32Array.from(numbers(values))),
  integer(32, false, (values) => Uint32Array.from(numbers(values))),
  integer(64, true, (values) => BigInt64Array.from(bigints(values))),
  integer(64, false, (values) => BigUint64Array.from(bigints(values))),
];

/**
 * Returns a tensor of `count` elements that repeats `values`. This is faster than creating each
 * element.
 */
export function repeated(dtype: DtypeSample, values: ArrayLike<number>, count: number): TypedArray {
  const once = dtype.of(values);
  const tensor = newZeros(once, count);
  for (let at = 0; at < count; at += once.length)
    copyElements(tensor, tensorView(once, 0, Math.min(once.length, count - at)), at);
  return tensor;
}

/** Returns the values of a tensor; float16 bits are decoded. */
export function valuesOf({ name }: DtypeSample, tensor: TypedArray): (number | bigint)[] {
  return Array.from<number | bigint>(name === 'float16' ? fromHalf(tensor as Uint16Array) : tensor);
}

/** Returns the ops that a dtype supports, with their names. */
export function opsOf({ bits }: DtypeSample): [name: string, op: ReduceOp][] {
  const common: (keyof typeof ReduceOp)[] = ['SUM', 'PRODUCT', 'MIN', 'MAX'];
  const names = [...common, ...(bits > 0 ? (['BAND', 'BOR', 'BXOR'] as const) : (['AVG', 'PREMUL_SUM'] as const))];
  return names.map((name) => [name, ReduceOp[name]]);
}

/**
 * Returns an input of `rank`. Its reductions are exact in every dtype for up to 32 ranks, and its
 * elements differ by position and rank.
 */
export function inputOf(op: ReduceOp, rank: number, n: number, count: number): number[] {
  if (op === ReduceOp.PRODUCT) {
    return Array.from({ length: count }, (_, i) => (rank === i % n ? 2 : rank === (i + 1) % n ? 3 : 1));
  }
  return Array.from({ length: count }, (_, i) => (rank * 5 + i) % 4);
}

/** Returns the factor of `rank` for PREMUL_SUM. */
export function factorOf(rank: number): number {
  return rank + 1;
}

/**
 * Cache of the latest expected result, because all ranks of a world in one process need the same
 * result.
 */
let lastExpected: { key: string; values: TypedArray } | null = null;

/** Returns the result that every rank must have. */
export function expectedOf(dtype: DtypeSample, op: ReduceOp, n: number, count: number): TypedArray {
  const key = [dtype.name, op, n, count].join();
  if (lastExpected?.key !== key) lastExpected = { key, values: computeExpected(dtype, op, n, count) };
  return lastExpected.values;
}

function computeExpected(dtype: DtypeSample, op: ReduceOp, n: number, count: number): TypedArray {
  const inputs = Array.from({ length: n }, (_, rank) => inputOf(op, rank, n, count));
  const combine = COMBINERS[op] ?? ((a: number, b: number) => a + b);
  return dtype.of(
    Array.from({ length: count }, (_, i) => {
      const column = inputs.map((input, rank) => input[i]! * (op === ReduceOp.PREMUL_SUM ? factorOf(rank) : 1));
      return op === ReduceOp.AVG ? column.reduce((a, b) => a + b) / n : column.reduce(combine);
    }),
  );
}

/** Functions of the ops that do not add. */
const COMBINERS: Partial<Record<ReduceOp, (a: number, b: number) => number>> = {
  [ReduceOp.PRODUCT]: (a, b) => a * b,
  [ReduceOp.MIN]: (a, b) => (a < b ? a : b),
  [ReduceOp.MAX]: (a, b) => (a > b ? a : b),
  [ReduceOp.BAND]: (a, b) => a & b,
  [ReduceOp.BOR]: (a, b) => a | b,
  [ReduceOp.BXOR]: (a, b) => a ^ b,
};

/** Returns an integer that wraps around at the width of a dtype. */
export function wrap({ bits, isSigned }: DtypeSample, value: bigint): bigint {
  return isSigned ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value);
}
