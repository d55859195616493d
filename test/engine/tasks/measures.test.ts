/**
 * The losses and metrics that a job can name. They are compared with values computed by hand, and
 * must be equal for any number of ranks. CPU backend.
 */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { evaluateHeldOutSamples } from '../../../src/engine/tasks/evaluation.ts';
import { createJobTask, type JobTask } from '../../../src/engine/tasks/jobTask.ts';
import type { Dataset } from '../../../src/jobs/index.ts';
import { countLabelsInTopK, countCorrect } from '../../../src/jobs/models/classificationCounts.ts';
import { lossSumFunctionOf } from '../../../src/jobs/models/loss.ts';
import { extraRegressionMetrics, regressionSums } from '../../../src/jobs/models/heldOutMetrics.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { REGRESSION_LOSS_NAMES, type RegressionLossName } from '../../../src/spec/measures.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { createRng } from '../../../src/util/rng.ts';
import { createMember, planOf, runGeneration } from '../worlds.ts';

const UNIT = 50;
/** Rows of two numbers, and a number to predict that depends on them. Some rows are outliers. */
const amounts = (size: number): Dataset => ({
  ...{ size, inputShape: [1, 1, 2] as const, classes: 1, labelUnit: UNIT },
  read: (indices, inputs, labels) => {
    for (let i = 0; i < indices.length; i++) {
      const rng = createRng(indices[i]!);
      const [a, b] = [2 * rng.next() - 1, 2 * rng.next() - 1];
      inputs.set([a, b], 2 * i);
      labels[i] = a - b / 2 + (indices[i]! % 7 === 0 ? 3 : 0);
    }
  },
});

const jobOf = (fields: Record<string, unknown>) =>
  parseJob({ job: 'table', data: { kind: 'files' }, hidden: 3, ...fields });

describe.each<[RegressionLossName, (distance: number) => number]>([
  ['mean-squared-error', (d) => d ** 2],
  ['mean-absolute-error', Math.abs],
  ['huber', (d) => (Math.abs(d) <= 1 ? d ** 2 / 2 : Math.abs(d) - 0.5)],
])('the loss %s', (name, cost) => {
  const outputs = [0.25, -0.5, 3, -2.25, 0.5, 7];
  const targets = [0.5, -0.25, 0.5, 0.75, 0.5, -8];
  const weights = [1, 2, 1, 0.5, 1, 0];
  const sumOf = (x: tf.Tensor): tf.Scalar =>
    lossSumFunctionOf(name)(x.reshape([6, 1]), tf.tensor1d(targets), tf.tensor1d(weights));
  const byHand = (values: readonly number[]): number =>
    values.reduce((sum, value, i) => sum + weights[i]! * cost(value - targets[i]!), 0);

  test('equals the formula of PyTorch, computed by hand', () => {
    expect(sumOf(tf.tensor1d(outputs)).dataSync()[0]).toBeCloseTo(byHand(outputs), 6);
  });

  test('has the gradient of finite differences, and the gradient 0 for an exact prediction', () => {
    const gradient = tf.grad(sumOf)(tf.tensor1d(outputs)).dataSync();
    const half = 1e-4;
    for (const i of outputs.keys()) {
      const moved = (by: number): number => byHand(outputs.map((value, k) => value + (k === i ? by : 0)));
      // The central difference is correct even at points where the loss is not differentiable.
      expect(gradient[i]).toBeCloseTo((moved(half) - moved(-half)) / (2 * half), 3);
    }
    expect(gradient[4]! + 0).toBe(0);
  });

  test('learns the same on three ranks as on one rank with three times the batch', async () => {
    const values: number[][] = [];
    for (const n of [1, 3]) {
      const job = jobOf({ loss: name, batchSize: 6 / n, maxSteps: 5, learningRate: 0.1, optimizer: 'sgd', epochs: 3 });
      const data = { train: amounts(20), test: amounts(7) };
      const members = await Promise.all(
        Array.from({ length: n }, async (_, i) =>
          createMember(`m${i}`, await createJobTask(job, data, n), planOf(job)),
        ),
      );
      const before = members[0]!.values();
      const { results } = await runGeneration(members);
      for (const result of results) expect(result).not.toBeInstanceOf(Error);
      values.push(members[0]!.values());
      expect(values.at(-1)).not.toEqual(before);
      for (const member of members) member.dispose();
    }
    for (const [i, value] of values[1]!.entries()) expect(value).toBeCloseTo(values[0]![i]!, 5);
  });
});

test('REGRESSION_LOSS_NAMES has only the losses that are tested above', () => {
  expect(REGRESSION_LOSS_NAMES).toEqual(['mean-squared-error', 'mean-absolute-error', 'huber']);
});

const HELD_OUT = 601;
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Returns the events of all ranks, for a world of one rank and for a world of three. */
async function told(create: (n: number) => Promise<JobTask>) {
  const worlds = [];
  for (const n of [1, 3]) {
    const results = await runWorld(n, async (group) => {
      const task = await create(n);
      const tested = (await evaluateHeldOutSamples(group, task, HELD_OUT))!;
      task.dispose();
      return tested;
    });
    worlds.push(...results);
  }
  return worlds;
}

test('errors and R² of a regression are exact over all ranks, for every loss', async () => {
  const job = jobOf({ loss: 'huber', metrics: ['r2', 'mae', 'rmse'] });
  const data = { train: amounts(20), test: amounts(HELD_OUT) };
  const all = await told((n) => createJobTask(job, data, n));
  const task = await createJobTask(job, data, 1);
  // By hand means: the model's two layers are computed for each row.
  const inputs = new Float32Array(2 * HELD_OUT);
  const labels = new Float32Array(HELD_OUT);
  await data.test.read([...labels.keys()], inputs, labels);
  const [kernel1, bias1, kernel2, bias2] = (task.model as tf.Variable[]).map((variable) => variable.dataSync());
  const distances = Array.from(labels, (label, i) => {
    const hidden = [0, 1, 2].map((k) =>
      Math.max(0, inputs[2 * i]! * kernel1![k]! + inputs[2 * i + 1]! * kernel1![3 + k]! + bias1![k]!),
    );
    return hidden.reduce((sum, value, k) => sum + value * kernel2![k]!, bias2![0]!) - label;
  });
  task.dispose();
  const middle = mean([...labels]);
  const squares = mean(distances.map((d) => d ** 2));
  for (const { metrics, accuracy } of all) {
    expect(accuracy).toBeNull();
    expect(Object.keys(metrics!)).toEqual(['r2', 'mae', 'rmse']);
    expect(metrics!.rmse).toBeCloseTo(Math.sqrt(squares) * UNIT, 3);
    expect(metrics!.mae).toBeCloseTo(mean(distances.map(Math.abs)) * UNIT, 3);
    expect(metrics!.r2).toBeCloseTo(1 - squares / mean([...labels].map((label) => (label - middle) ** 2)), 5);
  }
  // The results of the ranks of one world are bitwise equal.
  expect(all[2]!.metrics).toEqual(all[1]!.metrics);
});

test('R² of equal labels is 0, or 1 if all predictions are exact, and never infinite', () => {
  const sums = regressionSums([1, 2, 3], [0.3, 0.3, 0.3], [1, 1, 1]);
  const score = extraRegressionMetrics({ metrics: ['r2'] }, 1);
  expect(score.toMetrics(sums, 3)).toEqual({ r2: 0 });
  for (const amount of [0.3, 0]) {
    const all = [amount, amount, amount];
    expect(score.toMetrics(regressionSums(all, all, [1, 1, 1]), 3)).toEqual({ r2: 1 });
  }
});

test('each sample is counted once in top-3 accuracy, on whichever rank it is evaluated', async () => {
  const classes = 8;
  const rows: Dataset = {
    ...{ size: HELD_OUT, inputShape: [1, 1, 2] as const, classes },
    read: (indices, inputs, labels) => {
      for (let i = 0; i < indices.length; i++) {
        const rng = createRng(indices[i]!);
        inputs.set([rng.next(), rng.next()], 2 * i);
        labels[i] = indices[i]! % classes;
      }
    },
  };
  const job = parseJob({ hidden: 3, metrics: ['top-3', 'accuracy'] });
  const all = await told((n) => createJobTask(job, { train: rows, test: rows }, n));
  const [first] = all;
  const among = first!.metrics!['top-3']! * HELD_OUT;
  expect(among).toBeCloseTo(Math.round(among), 9);
  expect(first!.metrics!['top-3']).toBeGreaterThan(first!.accuracy!);
  for (const one of all) expect([one.accuracy, one.metrics]).toEqual([first!.accuracy, first!.metrics]);
});

test('equal logits are ranked in the order of classes, and a row of NaN is never correct', () => {
  const logits = [...[1, 1, 1, 1, 0], ...[1, 1, 1, 1, 0], ...[5, 4, NaN, 0, 0], ...[0, 1, 2, 3, 4]];
  expect(countLabelsInTopK(3, logits, [2, 3, 0, 2], 5)).toBe(2);
  expect(countLabelsInTopK(3, logits, [2, 3, 0, 2], 5, [1, 1, 1, 0])).toBe(1);
  expect(countLabelsInTopK(1, logits, [0, 1, 0, 4], 5)).toBe(countCorrect(logits, [0, 1, 0, 4], 5));
});

test.each([
  [{ loss: 'huber' }, 'loss: huber is for amounts, but this job predicts classes: choose cross-entropy'],
  [{ job: 'gpt', metrics: ['accuracy', 'mae'] }, 'metrics[1]: mae is for amounts, but this job predicts classes'],
  [
    { job: 'table', data: { kind: 'files' }, task: 'regression', metrics: ['top-3'] },
    'metrics[0]: top-3 is for classes, but this job predicts an amount: choose rmse or mae or r2',
  ],
  [{ metrics: [] }, 'metrics: name at least one metric, or use null for the default'],
  [{ metrics: ['accuracy', 'accuracy'] }, 'metrics[1]: this name occurs twice: remove one'],
])(
  'a loss or metric that does not fit the data is rejected, and the error contains its path: %o',
  (fields, sentence) => {
    expect(() => parseJob(fields)).toThrow(sentence);
  },
);
