/** Confusion matrices, in worlds over memory links, on TensorFlow.js's CPU backend. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { evaluateHeldOutSamples } from '../../../src/engine/tasks/evaluation.ts';
import { createJobTask } from '../../../src/engine/tasks/jobTask.ts';
import { createTensorTask } from '../../../src/engine/tasks/tensorTask.ts';
import { SyntheticDigits } from '../../../src/jobs/digits/digits.ts';
import { sampleLength, type Dataset } from '../../../src/jobs/index.ts';
import { MAX_CLASS_NAME_LENGTH, MAX_CONFUSED_CLASSES } from '../../../src/protocol/confusion.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { createRng } from '../../../src/util/rng.ts';
import { train } from '../train.ts';

const DIGITS = Array.from({ length: 10 }, (_, digit) => String(digit));
const zeros = (classes: number): number[][] => Array.from({ length: classes }, () => Array<number>(classes).fill(0));
const total = (counts: readonly number[][]): number => counts.flat().reduce((sum, count) => sum + count, 0);

/** Not divisible by the number of ranks, by the samples of an evaluation, or by the batch size. */
const HELD_OUT = 643;
const heldOut = new SyntheticDigits(1, 'test');
const { inputShape, classes } = heldOut;
const some: Dataset = { inputShape, classes, size: HELD_OUT, read: heldOut.read.bind(heldOut) };

describe.each([1, 3])('the confusion matrix on %i ranks', (n) => {
  test('counts each held-out sample once, like a matrix computed by hand', async () => {
    const job = parseJob({ job: 'digits', hidden: 8 });
    const all = await runWorld(n, async (group) => {
      const task = await createJobTask(job, { train: new SyntheticDigits(1, 'train'), test: some }, n);
      expect(HELD_OUT % task.testBatch).not.toBe(0);
      const { confusion, accuracy } = (await evaluateHeldOutSamples(group, task, HELD_OUT))!;
      const byHand = zeros(10);
      const [inputs, labels] = [new Float32Array(HELD_OUT * sampleLength(some)), new Int32Array(HELD_OUT)];
      await some.read(
        Uint32Array.from(labels, (_, i) => i),
        inputs,
        labels,
      );
      const answers = tf.tidy(() => {
        const { logits } = (task.queryModel as { jobModel: { logits: (inputs: tf.Tensor) => tf.Tensor } }).jobModel;
        return logits(tf.tensor(inputs, [HELD_OUT, ...inputShape]))
          .argMax(1)
          .dataSync();
      });
      for (const [i, label] of labels.entries()) byHand[label]![answers[i]!]! += 1;
      expect(confusion).toEqual({ classes: DIGITS, counts: byHand });
      expect(accuracy).toBe(byHand.reduce((sum, row, i) => sum + row[i]!, 0) / HELD_OUT);
      expect((await evaluateHeldOutSamples(group, task, 500))!.confusion).toBeUndefined();
      task.dispose();
      return confusion!;
    });
    expect(total(all[0]!.counts)).toBe(HELD_OUT);
    for (const one of all) expect(one).toEqual(all[0]);
  });

  test('of a custom model on tensors equals a matrix computed by hand', async () => {
    const rng = createRng(5);
    const data = Array.from({ length: 25 }, () => [rng.next() - 0.5, rng.next() - 0.5]);
    const labels = data.map((_, i) => i % 3);
    const weights = [[1, -1, 0.5], [0.2, 1, -1]]; // prettier-ignore
    const byHand = zeros(3);
    for (const [i, [x, y]] of data.entries()) {
      const outputs = weights[0]!.map((weight, k) => weight * x! + weights[1]![k]! * y!);
      byHand[labels[i]!]![outputs.indexOf(Math.max(...outputs))]! += 1;
    }
    await runWorld(n, async (group) => {
      const model = tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [2] })] });
      model.setWeights([tf.tensor2d(weights), tf.zeros([3])]);
      const samples = { xs: tf.tensor2d(data), ys: tf.oneHot(labels, 3).cast('float32') };
      const task = createTensorTask(model, samples, { loss: 'softmaxCrossEntropy', validation: samples });
      const { confusion } = (await evaluateHeldOutSamples(group, task, 25))!;
      expect(confusion).toEqual({ classes: ['0', '1', '2'], counts: byHand });
    });
  });
});

describe('the confusion matrix of a run', () => {
  test('is emitted at each evaluation of all held-out samples, and the final matrix is in the result', async () => {
    const { results, events } = await train(
      3,
      { hidden: 8, batchSize: 20, epochs: 2 },
      { trainSize: 100, testSize: 601 },
    );
    for (const [rank, { confusion, accuracy }] of results.entries()) {
      const told = events[rank]!.filter((event) => event.type === 'confusion');
      // These are the last steps of epochs that have two steps.
      expect(told.map(({ step }) => step)).toEqual([1, 3]);
      expect(told.map(({ counts }) => total(counts))).toEqual([601, 601]);
      expect(confusion).toEqual({ classes: DIGITS, counts: told[1]!.counts });
      expect(confusion).toEqual(results[0]!.confusion);
      expect(confusion!.counts.reduce((sum, row, i) => sum + row[i]!, 0)).toBe(Math.round(accuracy! * 601));
    }
  });

  test.each([
    ['the model predicts amounts', { classes: 1, labelUnit: 2 }],
    ['there are too many classes', { classes: MAX_CONFUSED_CLASSES + 1 }],
  ])('does not exist if %s', async (_, what) => {
    const task = await createJobTask(parseJob({ hidden: 4 }), { train: rows(what), test: rows(what) }, 1);
    expect(task.classes).toBeUndefined();
    await runWorld(1, async (group) => {
      expect(await evaluateHeldOutSamples(group, task, 4)).not.toHaveProperty('confusion');
    });
  });

  test('has the names of the classes, and cuts long names', async () => {
    const what = { classes: 2, classNames: ['cats', 'd'.repeat(1000)] };
    const task = await createJobTask(parseJob({ hidden: 4 }), { train: rows(what), test: rows(what) }, 1);
    expect(task.classes).toEqual(['cats', `${'d'.repeat(MAX_CLASS_NAME_LENGTH - 1)}…`]);
  });
});

/** Creates four samples, all of class 0. */
function rows(what: Pick<Dataset, 'classes' | 'classNames' | 'labelUnit'>): Dataset {
  return { ...what, inputShape: [1, 1, 2], size: 4, read: () => {} };
}
