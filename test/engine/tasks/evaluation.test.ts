import { evaluationBatchSize } from '../../../src/engine/tasks/jobTask.ts';
import { expect, test } from 'vitest';
import {
  checksDueAfterStep,
  HeldOutEvaluations,
  INTERMEDIATE_EVALUATION_SAMPLES,
  evaluateHeldOutSamples,
  evaluationIntervalSteps,
  type HeldOutTask,
} from '../../../src/engine/tasks/evaluation.ts';
import { initialTrainingProgress } from '../../../src/parallel/recovery/progress.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { parsePlan } from '../../../src/spec/plan.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { systemClock, EventLoopYielder } from '../../../src/util/clock.ts';

test('within an epoch, a run evaluates no more samples than it trains on, even if each evaluation uses all held-out samples', () => {
  const task = { train: 60_000, test: 10_000 };
  expect(evaluationIntervalSteps(task, { patience: null, maxMinutes: null }, 32, 2000)).toBe(100);
  // 64 steps train on four times the 500 samples of an evaluation.
  expect(evaluationIntervalSteps(task, { patience: null, maxMinutes: null }, 32, 400)).toBe(63);
  expect(evaluationIntervalSteps(task, { patience: 3, maxMinutes: null }, 32, 400)).toBe(Math.ceil(10_000 / 32));
  // An epoch always ends with an evaluation.
  expect(evaluationIntervalSteps({ train: 64, test: 10_000 }, { patience: 3, maxMinutes: null }, 32, 400)).toBe(2);
});

test('evaluations happen after the first step and then at regular steps, the early ones on fewer samples', () => {
  const plan = { hashEvery: 1000, patience: null };
  const progress = { appliedIn: 0, previousAppliedIn: 0, losses: [], trainedMs: 0, verdicts: [] };
  const after = (step: number, patience: number | null = null) =>
    checksDueAfterStep(
      { ...progress, step, position: { epoch: 0, offset: step, parts: 1 }, evaluateEvery: 40 },
      { ...plan, patience },
      false,
    ).samples;
  const steps = Array.from({ length: 120 }, (_, i) => i + 1);
  const curve = steps.map((step) => [step, after(step)]).filter(([, samples]) => samples !== 0);
  expect(curve).toEqual([
    [1, 32],
    [10, 125],
    [20, 250],
    [40, INTERMEDIATE_EVALUATION_SAMPLES],
    [80, INTERMEDIATE_EVALUATION_SAMPLES],
    [120, INTERMEDIATE_EVALUATION_SAMPLES],
  ]);
  // Losses of different samples cannot be compared.
  expect(steps.filter((step) => after(step, 3) > 0)).toEqual([40, 80, 120]);
});

/** Returns a task that keeps the numbers of the samples that it evaluates. */
function heldOutTask(
  testSamples: number,
  evaluated: number[],
  { isShard = false, leavesOut = false } = {},
): HeldOutTask {
  return {
    ...{ testSamples, testBatch: 64, classifies: true, isShard },
    evaluate: (indices) => {
      evaluated.push(...indices);
      return Promise.resolve({ lossSum: 0, correct: 0, leftOut: leavesOut ? indices.length : 0 });
    },
  };
}

/** Classes that are one after the other, and classes that take turns. */
const ORDERS = {
  sorted: (sample: number, samples: number): number => Math.floor((10 * sample) / samples),
  alternating: (sample: number): number => sample % 10,
};

test.each([
  ['sorted', 1, 2000, INTERMEDIATE_EVALUATION_SAMPLES],
  ['sorted', 3, 2000, INTERMEDIATE_EVALUATION_SAMPLES],
  ['alternating', 1, 2000, INTERMEDIATE_EVALUATION_SAMPLES],
  ['alternating', 3, 5000, INTERMEDIATE_EVALUATION_SAMPLES],
  ['sorted', 1, 400, 125],
  ['alternating', 1, 400, 32],
] as const)(
  'an evaluation of %s classes by %i ranks has samples of all classes (%i: %i)',
  async (order, n, size, count) => {
    const evaluated: number[] = [];
    await runWorld(n, (group) => evaluateHeldOutSamples(group, heldOutTask(size, evaluated), count));
    expect(new Set(evaluated).size).toBe(count);
    expect(new Set(evaluated.map((sample) => ORDERS[order](sample, size))).size).toBe(10);
  },
);

test('the samples of the next batches are expected while a batch is evaluated', async () => {
  const evaluated: number[] = [];
  const expected: number[][] = [];
  const task: HeldOutTask = {
    ...heldOutTask(200, evaluated),
    ahead: 100,
    expectHeldOut: (next) => void expected.push([...next]),
  };
  await runWorld(1, (group) => evaluateHeldOutSamples(group, task, 180));
  const following = (from: number): number[] => evaluated.slice(from, from + 64 + 100);
  expect(expected).toEqual([following(0), following(64), following(128)]);
});

test('ranks with samples of their own evaluate the same fraction of them', async () => {
  const evaluated = [[], []] as [number[], number[]];
  await runWorld(2, (group) =>
    evaluateHeldOutSamples(
      group,
      heldOutTask([900, 300][group.rank]!, evaluated[group.rank]!, { isShard: true }),
      120,
      () => {},
      1200,
    ),
  );
  expect(evaluated.map((own) => new Set(own).size)).toEqual([90, 30]);
});

test('a forward pass evaluates fewer large pictures, so that their inputs need at most 16 MiB', () => {
  const sides = [32, 224, 2048];
  expect(sides.map((side) => evaluationBatchSize({ inputShape: [side, side, 3] }, 250))).toEqual([250, 27, 1]);
});

test('an evaluation whose samples are all unusable has no loss and no accuracy, and a note says so', async () => {
  const events: EngineEvent[] = [];
  const progress = { ...initialTrainingProgress(), step: 8 };
  const tests = new HeldOutEvaluations({
    task: heldOutTask(40, [], { leavesOut: true }),
    plan: parsePlan({ patience: 2 }),
    yielder: new EventLoopYielder(systemClock, 200),
    emit: (event) => void events.push(event),
  });
  await runWorld(1, (group) => tests.run(group, progress, 40, 40));
  expect(tests.tested).toBeNull();
  expect(progress.verdicts).toEqual([]);
  expect(events.filter(({ type }) => type !== 'testing')).toEqual([
    { type: 'note', message: 'Step 8 has no held-out loss, because none of its held-out samples can be used.' },
  ]);
});
