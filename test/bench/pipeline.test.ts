import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { chainLayers } from '../../bench/pipeline/chainLayers.ts';
import { shareOf, timelineOf, transfersOf } from '../../bench/pipeline/idle.ts';
import { ringMemory } from '../../bench/pipeline/memory.ts';
import { timelineSvg } from '../../bench/pipeline/picture.ts';
import { problemsOf, report, section, type PipelineResult } from '../../bench/pipeline/report.ts';
import { boundaryBytes, largestDifference } from '../../bench/pipeline/tabRuns.ts';
import { gpipe, oneForwardOneBackward, timePlan } from '../../src/parallel/pipeline/schedules.ts';

test('largestDifference compares all steps; it is infinite for lists of different lengths, and NaN for NaN', () => {
  expect(largestDifference([2, 1.1], [2, 1])).toBeCloseTo(0.1);
  expect(largestDifference([1], [1, 1])).toBe(Infinity);
  expect(largestDifference([Number.NaN], [1])).toBeNaN();
});

test('two stages exchange two values per token and channel, with fp16 in half as many bytes', () => {
  expect(boundaryBytes({ context: 32, width: 64 }, 16, 'fp32')).toBe(2 * 64 * 32 * 16 * 4);
  expect(boundaryBytes({ context: 32, width: 64 }, 16, 'fp16')).toBe(2 * 64 * 32 * 16 * 2);
});

const CHAIN = [
  { name: 'embedding', weights: 100, keptBytes: 1000 },
  { name: 'attention', weights: 10, keptBytes: 5000 },
  { name: 'feedForward', weights: 20, keptBytes: 7000 },
  { name: 'norm', weights: 1, keptBytes: 3000 },
];
const LAYERS = [['embedding', 'norm'], ['attention'], ['feedForward']];
const SIZE = { tokens: 10, width: 2, recompute: false };
/** Bytes of the value between two layers, and of the tokens of all micro-batches. */
const VALUE = 4 * 10 * 2;
const INPUTS = 3 * 8 * 10 * 4;

test('ringMemory adds up, for each rank of a pipeline in a ring, its weights and the micro-batches that its stages keep', () => {
  const ring = { ring: true };
  expect(ringMemory(oneForwardOneBackward(3, 8, ring), CHAIN, LAYERS, SIZE)).toEqual([
    // The first stage keeps six micro-batches while the last one, on the same rank, keeps one.
    { state: 16 * 101, activations: INPUTS + 6 * 1000 + 3000 + 2 * VALUE },
    { state: 16 * 10, activations: INPUTS + 3 * (5000 + VALUE) },
    { state: 16 * 20, activations: INPUTS + 2 * (7000 + VALUE) },
  ]);
  expect(ringMemory(gpipe(3, 8, ring), CHAIN, LAYERS, { ...SIZE, recompute: true })).toEqual([
    { state: 16 * 101, activations: INPUTS + 8 * (VALUE + 3 * VALUE) },
    { state: 12 * 10, activations: INPUTS + 8 * 2 * VALUE },
    { state: 12 * 20, activations: INPUTS + 8 * 2 * VALUE },
  ]);
});

test('chainLayers lists all layers with their weights and the bytes kept for backward passes, and leaves no tensors', () => {
  const before = tf.memory().numTensors;
  const size = { layers: 1, heads: 2, width: 8, context: 4, vocabulary: 12 };
  const layers = chainLayers(size, 3, true);
  expect(layers.map(({ name }) => name)).toEqual(['embedding', 'layer1.attention', 'layer1.feedForward', 'norm']);
  expect(layers.map(({ weights }) => weights)).toEqual([(12 + 4) * 8, 8 + 4 * 64, 8 + 8 * 64, 8]);
  // At least the output is kept.
  for (const { keptBytes } of layers) expect(keptBytes).toBeGreaterThanOrEqual(4 * 3 * 4 * 8);
  expect(tf.memory().numTensors).toBe(before);
});

test('the idle share is computed from the longest span of a rank; the picture shows plan and measurement', () => {
  const pass = { kind: 'forward', stage: 0, microBatch: 0, tick: 0 } as const;
  const ranks = [
    { start: 1000, end: 1100, passes: [{ ...pass, start: 1010, end: 1060 }] },
    { start: 1002, end: 1082, passes: [{ ...pass, stage: 1, start: 1060, end: 1080 }] },
  ];
  expect(shareOf(ranks)).toBeCloseTo(1 - 70 / 200);
  const measured = timelineOf(ranks);
  expect(measured.map(([only]) => [only!.start, only!.end])).toEqual([
    [10, 60],
    [60, 80],
  ]);
  const svg = timelineSvg({ measured, plan: timePlan(gpipe(2, 3), () => 400) }, 'gpipe');
  expect(svg.match(/<text [^>]*text-anchor="end">stage/g)).toHaveLength(4);
  // A background, 12 passes of the plan, two measured ones, and two of the legend.
  expect(svg.match(/<rect/g)).toHaveLength(1 + 12 + 2 + 2);
});

test('transfersOf returns the travel times of those values for which a rank waits', () => {
  const plan = oneForwardOneBackward(4, 6);
  const timed = timePlan(
    plan,
    ({ kind }) => (kind === 'forward' ? 100 : 150),
    () => 7,
  );
  const transfers = transfersOf(timed, 4);
  // The first forward passes of three stages, and the first backward passes of three stages, wait.
  expect(transfers.length).toBeGreaterThanOrEqual(6);
  expect(transfers.filter((ms) => ms === 7).length).toBeGreaterThanOrEqual(6);
  // A value that arrives while the rank still computes is waiting when the rank is free.
  for (const ms of transfers) expect(ms).toBeCloseTo(7);
});

const MESH = { stages: 2, replicas: 1 } as const;
const RESULT: PipelineResult = {
  idle: [
    {
      schedule: 'gpipe',
      microBatches: 4,
      measured: 0.45,
      plan: 3 / 7,
      transferMs: 9,
      withTransfer: 0.44,
      stepMs: 5700,
      planMs: 5600,
    },
  ],
  tabs: [
    {
      ...{ ...MESH, schedule: '1f1b', microBatches: 8, recompute: true, codec: 'fp32', difference: 3e-7 },
      ...{ bytes: 1.002, idle: { measured: 0.5, plan: 0.2 }, stepMs: 900 },
      memory: [{ state: 4e6, activations: 6e6, measured: 9e6 }],
    },
  ],
};

test('a run that is exact has no problems, and its report has all tables', () => {
  expect(problemsOf(RESULT)).toEqual([]);
  const text = report(RESULT);
  expect(section(RESULT)).toContain('by at most 3.0e-7');
  expect(text).toContain('1 x 2, 1f1b, M = 8, recompute');
  expect(text).toContain('42.9');
  expect(section({})).not.toContain('|');
});

test('problemsOf reports wrong losses and bytes, and accepts the losses of fp16', () => {
  const tab = RESULT.tabs![0]!;
  const tabs = [
    { ...tab, difference: 1e-4, bytes: null },
    { ...tab, bytes: 1.02 },
    { ...tab, codec: 'fp16' as const, difference: 1e-3 },
  ];
  expect(problemsOf({ tabs })).toHaveLength(2);
});
