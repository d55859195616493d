import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { buildJobModel, countCorrect, loadData, sampleLength } from '../../src/jobs/index.ts';
import { crossEntropySum } from '../../src/gpu/kernels/crossEntropy.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { GlobalCursor } from '../../src/parallel/data/cursor.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';

/** Trains one rank without the engine, to test jobs, optimizer and cursor together. */
// It takes 2 s, but has taken 25 s on a busy machine.
test('an mlp learns the synthetic digits with more than 85 % accuracy in 60 steps', { timeout: 60_000 }, async () => {
  const job = DEFAULT_JOB;
  const globalBatch = 128;
  const { train, test: held } = await loadData(job, { baseUrl: 'http://localhost/' });
  const model = buildJobModel(job, train);
  const size = model.variables.reduce((sum, variable) => sum + variable.size, 0);
  const params = new Float32Array(size);
  const gradient = new Float32Array(size);
  forEachVariable((variable, at) => params.set(variable.dataSync(), at));
  const optimizer = createOptimizer(job.optimizer, { learningRate: job.learningRate }, size);
  const cursor = new GlobalCursor({ datasetSize: train.size, seed: job.seed });
  const inputs = new Float32Array(globalBatch * sampleLength(train));
  const labels = new Int32Array(globalBatch);

  for (let step = 0; step < 60; step++) {
    const position = { epoch: 0, offset: step * globalBatch };
    await train.read(cursor.windowAt(position, globalBatch).indices, inputs, labels);
    tf.tidy(() => {
      const x = tf.tensor(inputs.slice(), [globalBatch, ...train.inputShape]);
      const y = tf.tensor1d(labels.slice(), 'int32');
      const { grads } = tf.variableGrads(
        () => crossEntropySum(model.logits(x), y, tf.ones([globalBatch])),
        [...model.variables],
      );
      forEachVariable((variable, at) => gradient.set(grads[variable.name]!.dataSync(), at));
    });
    for (let i = 0; i < size; i++) gradient[i]! /= globalBatch;
    optimizer.apply(params, gradient);
    forEachVariable((variable, at) => {
      const values = tf.tensor(params.slice(at, at + variable.size), variable.shape);
      variable.assign(values);
      values.dispose();
    });
  }

  const count = 500;
  const heldInputs = new Float32Array(count * sampleLength(held));
  const heldLabels = new Int32Array(count);
  await held.read(
    Array.from({ length: count }, (_, i) => i),
    heldInputs,
    heldLabels,
  );
  const logits = tf.tidy(() => model.logits(tf.tensor(heldInputs, [count, ...held.inputShape])).dataSync());
  expect(countCorrect(logits, heldLabels, held.classes) / count).toBeGreaterThan(0.85);
  model.dispose();

  function forEachVariable(fn: (variable: tf.Variable, at: number) => void): void {
    let at = 0;
    for (const variable of model.variables) {
      fn(variable, at);
      at += variable.size;
    }
  }
});
