/**
 * Tests of NaNs in sums. NaN has many bit patterns, and the pattern of a sum depends on the order
 * of its operands and on the machine.
 */
import { expect, test } from 'vitest';
import type { TypedArray } from '../../src/collectives/dtypes.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { runWorld } from '../../src/testing/index.ts';

/**
 * Returns a NaN with the bits that x86 computes for Infinity - Infinity, or with those that
 * JavaScript writes.
 */
const NAN: Record<string, (isNegative: boolean) => TypedArray> = {
  float32: (isNegative) => new Float32Array(Uint32Array.of(isNegative ? 0xffc00000 : 0x7fc00000).buffer),
  float64: (isNegative) =>
    new Float64Array(BigUint64Array.of(isNegative ? 0xfff8000000000000n : 0x7ff8000000000000n).buffer),
  float16: (isNegative) => Uint16Array.of(isNegative ? 0xfe00 : 0x7e00),
};
const OPS = ['SUM', 'AVG', 'PRODUCT', 'MIN', 'MAX'] as const;

const hex = ({ buffer }: TypedArray): string => Buffer.from(buffer).toString('hex');

test.each(Object.keys(NAN).flatMap((dtype) => OPS.map((op) => ({ dtype, op }))))(
  '$op of NaNs by recursive doubling has the same bits on all ranks, for $dtype',
  async ({ dtype, op }) => {
    const ranks = await runWorld(9, async (group) => {
      const tensor = NAN[dtype]!(group.rank % 2 === 1);
      await group.allReduce(tensor, { op: ReduceOp[op], ...(dtype === 'float16' && { dtype }) });
      return { bits: hex(tensor), algorithm: group.flightRecording.records.at(-1)!.algorithm };
    });
    const expected = { bits: hex(NAN[dtype]!(false)), algorithm: 'doubling' };
    expect(ranks).toEqual(ranks.map(() => expected));
  },
);
