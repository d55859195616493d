import { expect, test } from 'vitest';
import { chooseCodec, isCodecChoiceCertain, type MeasuredSteps } from '../../../src/parallel/costs/codecChoice.ts';

/** A gradient of one megabyte. */
const GRADIENTS = {
  fp32: { bytes: 1_000_000, codingMs: 0 },
  fp16: { bytes: 500_000, codingMs: 4 },
  int8: { bytes: 257_000, codingMs: 2 },
  powersgd: { bytes: 30_000, codingMs: 20 },
};
const choose = (steps: MeasuredSteps, worldSize = 4) => chooseCodec(worldSize, GRADIENTS, steps);
/** Steps whose communication is entirely exposed. */
const exposed = (ownMs: number, communicateMs: number): MeasuredSteps => ({
  ownMs,
  communicateMs,
  exposedMs: communicateMs,
});

test.each([
  ['fp32', 1000, 200, 'communication takes only a sixth of a step'],
  ['fp16', 1000, 400, 'half of the bytes suffice'],
  ['int8', 1000, 800, 'a quarter suffices'],
  ['powersgd', 1000, 4000, 'even fewer are needed'],
] as const)(
  'the chosen codec is %s if computation takes %i ms and communication %i ms: %s',
  (codec, own, communicate, _why) => {
    expect(choose(exposed(own, communicate)).codec).toBe(codec);
  },
);

test('the choice of a codec ignores overlapped communication', () => {
  const { codec, expectedMs } = choose({ ownMs: 1000, communicateMs: 900, exposedMs: 100 });
  expect(codec).toBe('fp32');
  expect(expectedMs.fp32).toBeCloseTo(100, 6);
  expect(expectedMs.fp16).toBe(0);
});

test('the expected times of codecs include the latency of hops, which codecs do not reduce', () => {
  // 18 hops of a few ms: fewer bytes gain nothing.
  const { codec, expectedMs } = choose(exposed(50, 40), 4);
  expect(expectedMs.int8).toBeGreaterThan(20);
  expect(expectedMs.powersgd).toBeGreaterThan(expectedMs.int8);
  expect(codec).not.toBe('powersgd');
});

test('the reported rate of the line assumes that each rank sends 2(n-1)/n of the gradient', () => {
  const { bytesPerMs } = choose(exposed(10, 10_000));
  expect(bytesPerMs).toBeGreaterThan(150);
  expect(bytesPerMs).toBeLessThan(155);
});

test('a strategy that communicates less is suggested if communication takes most of a step even with the best codec', () => {
  expect(choose(exposed(100, 1000)).suggestion).toBeNull();
  expect(choose(exposed(10, 60)).suggestion).toBe('diloco');
  expect(choose(exposed(24, 48)).suggestion).toBe('local-sgd');
  expect(choose(exposed(5, 100_000)).suggestion).toBe('diloco');
});

test.each([
  [true, exposed(1000, 20), 'communication is negligible, even if it takes twice as long'],
  [true, exposed(1000, 8000), 'the line is far too slow, even at twice its rate'],
  [false, exposed(1000, 200), 'a codec would pay if communication took twice as long'],
  [false, exposed(1000, 800), 'the time is between those for two codecs'],
  [false, { ownMs: 1000, communicateMs: 900, exposedMs: 10 }, 'overlapped communication may become exposed'],
])('isCodecChoiceCertain is %s for %o: %s', (isBeyond, steps, _why) => {
  expect(isCodecChoiceCertain(4, GRADIENTS, steps)).toBe(isBeyond);
});

test('the choice of a codec depends only on the times', () => {
  const steps = { ownMs: 123.4, communicateMs: 456.7, exposedMs: 300.1 };
  expect(choose(steps)).toEqual(choose(structuredClone(steps)));
});
