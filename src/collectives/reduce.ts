/**
 * Combines values, one segment at a time. The result does not depend on the order of the two
 * operands, so that two ranks that exchange their parts end with the same bits. NaNs have the same
 * bits only after {@link unifyNaNs}.
 */
import { DtypeCode, ReduceOp } from '../protocol/frame.ts';
import { UsageError } from '../util/errors.ts';
import { fromHalf, toHalf } from '../util/float16.ts';
import type { Dtype, TypedArray } from './dtypes.ts';

/** Combines `values[i]` with `own[at + i]` and writes the result to `values[i]`. */
export type ReduceFunction = (values: TypedArray, own: TypedArray, at: number) => void;

/**
 * Stands for the type of both arrays of a kernel. At run time they can be any number arrays, but
 * both have the same type. TypeScript cannot express this.
 */
type Numbers = Float32Array;
type BigInts = BigInt64Array;

const numberKernels: Partial<Record<ReduceOp, (values: Numbers, own: Numbers, at: number) => void>> = {
  [ReduceOp.SUM]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) values[i]! += own[at + i]!;
  },
  [ReduceOp.PRODUCT]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) values[i]! *= own[at + i]!;
  },
  // Math.min and Math.max propagate NaN and order -0 below 0; `<` does neither.
  [ReduceOp.MIN]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) values[i] = Math.min(values[i]!, own[at + i]!);
  },
  [ReduceOp.MAX]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) values[i] = Math.max(values[i]!, own[at + i]!);
  },
  [ReduceOp.BAND]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) values[i]! &= own[at + i]!;
  },
  [ReduceOp.BOR]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) values[i]! |= own[at + i]!;
  },
  [ReduceOp.BXOR]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) values[i]! ^= own[at + i]!;
  },
};

/** Uses Math.imul, because `*` returns a double, which has too few bits for the exact product. */
const integerProduct: ReduceFunction = (values, own, at) => {
  for (let i = 0; i < values.length; i++) values[i] = Math.imul(values[i] as number, own[at + i] as number);
};

/**
 * Separate functions, because V8 compiles a function for the types it has seen: after a single
 * bigint the same function sums floats five times slower.
 */
const bigintKernels: Partial<Record<ReduceOp, (values: BigInts, own: BigInts, at: number) => void>> = {
  [ReduceOp.SUM]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) values[i]! += own[at + i]!;
  },
  [ReduceOp.PRODUCT]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) values[i]! *= own[at + i]!;
  },
  [ReduceOp.MIN]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) if (own[at + i]! < values[i]!) values[i] = own[at + i]!;
  },
  [ReduceOp.MAX]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) if (own[at + i]! > values[i]!) values[i] = own[at + i]!;
  },
  [ReduceOp.BAND]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) values[i]! &= own[at + i]!;
  },
  [ReduceOp.BOR]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) values[i]! |= own[at + i]!;
  },
  [ReduceOp.BXOR]: (values, own, at) => {
    for (let i = 0; i < values.length; i++) values[i]! ^= own[at + i]!;
  },
};

/** Returns a reducer that combines halves as float32 and rounds them once. */
function halfReducer(combine: (values: Numbers, own: Numbers, at: number) => void): ReduceFunction {
  return (values, own, at) => {
    const halves = values as Uint16Array;
    const wide = fromHalf(halves);
    combine(wide, fromHalf((own as Uint16Array).subarray(at, at + halves.length)), 0);
    toHalf(wide, halves);
  };
}

/**
 * Returns the op that combines values: SUM for AVG and PREMUL_SUM, which also scale values;
 * otherwise `op` itself.
 */
function additionOf(op: ReduceOp): ReduceOp {
  return op === ReduceOp.AVG || op === ReduceOp.PREMUL_SUM ? ReduceOp.SUM : op;
}

const BITWISE: readonly ReduceOp[] = [ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR];

/** @throws UsageError if `op` is NONE, or the dtype does not support it. */
export function reduceFunctionFor({ code, name, isInteger }: Dtype, op: ReduceOp): ReduceFunction {
  if (BITWISE.includes(op) && !isInteger) {
    throw new UsageError(`Bitwise reductions need an integer dtype, not ${name}.`);
  }
  if ((op === ReduceOp.AVG || op === ReduceOp.PREMUL_SUM) && isInteger) {
    throw new UsageError(
      `AVG and PREMUL_SUM would round ${name} values. Use SUM: for AVG divide the result, for PREMUL_SUM multiply before the call.`,
    );
  }
  const combine = additionOf(op);
  if (code === DtypeCode.INT64 || code === DtypeCode.UINT64) return known(bigintKernels[combine]) as ReduceFunction;
  const kernel = known(numberKernels[combine]);
  if (code === DtypeCode.FLOAT16) return halfReducer(kernel);
  if (combine === ReduceOp.PRODUCT && isInteger) return integerProduct;
  return kernel as ReduceFunction;
}

function known<Kernel>(kernel: Kernel | undefined): Kernel {
  if (kernel === undefined) throw new UsageError('Unknown reduce op. Use a value of ReduceOp.');
  return kernel;
}

/** Multiplies values of a floating dtype in place, rounding once. */
export function scaleFloats(values: TypedArray, { code }: Dtype, factor: number): void {
  mapFloats(values, code, (value) => value * factor);
}

/**
 * Divides values of a floating dtype in place. The result can differ in its bits from a
 * multiplication by 1/n.
 */
export function divideFloats(values: TypedArray, { code }: Dtype, n: number): void {
  mapFloats(values, code, (value) => value / n);
}

/**
 * Replaces every NaN of a floating dtype by a NaN with fixed bits, because the NaN bits of a sum
 * depend on the order of the operands and on the machine.
 */
export function unifyNaNs(values: TypedArray, { code }: Dtype): void {
  const { buffer, byteOffset, length } = values;
  if (code === DtypeCode.FLOAT32) {
    const bits = new Uint32Array(buffer, byteOffset, length);
    for (let i = 0; i < length; i++) if (Number.isNaN(values[i])) bits[i] = 0x7fc00000;
  } else if (code === DtypeCode.FLOAT64) {
    const bits = new BigUint64Array(buffer, byteOffset, length);
    for (let i = 0; i < length; i++) if (Number.isNaN(values[i])) bits[i] = 0x7ff8000000000000n;
  } else if (code === DtypeCode.FLOAT16) {
    const bits = values as Uint16Array;
    for (let i = 0; i < length; i++) if ((bits[i]! & 0x7fff) > 0x7c00) bits[i] = 0x7e00;
  }
}

function mapFloats(values: TypedArray, code: DtypeCode, map: (value: number) => number): void {
  const isHalf = code === DtypeCode.FLOAT16;
  const floats = isHalf ? fromHalf(values as Uint16Array) : (values as Float32Array);
  for (let i = 0; i < floats.length; i++) floats[i] = map(floats[i]!);
  if (isHalf) toHalf(floats, values as Uint16Array);
}
