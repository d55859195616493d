import * as tf from '@tensorflow/tfjs';
import { describe, expect, test, vi } from 'vitest';
import { ReduceOp } from '../../../src/protocol/frame.ts';
import { alone, compiled, distributed, expectEqual, useSamples } from './models.ts';

let x: tf.Tensor;
let y: tf.Tensor;
useSamples((samples) => ({ x, y } = samples));

const mlp = () => compiled('mlp');
const ARGS = { shuffle: false, verbose: 0 as const };

/** Records the calls of a list of callbacks, with names and rounded values of the logs. */
function recorder(): { calls: string[]; callbacks: tf.CustomCallbackArgs } {
  const calls: string[] = [];
  const record =
    (name: string) =>
    (...args: (number | tf.Logs | undefined)[]): void => {
      const texts = args.map((arg) =>
        typeof arg === 'object'
          ? Object.entries(arg)
              .map(([key, value]) => `${key} ${value.toFixed(3)}`)
              .toSorted()
              .join(', ')
          : String(arg),
      );
      calls.push(`${name}(${texts.join('; ')})`);
    };
  const callbacks = {
    onTrainBegin: record('onTrainBegin'),
    onTrainEnd: record('onTrainEnd'),
    onEpochBegin: record('onEpochBegin'),
    onEpochEnd: record('onEpochEnd'),
    onBatchEnd: record('onBatchEnd'),
  };
  return { calls, callbacks };
}

const withAdam = () => compiled('mlp', { optimizer: () => tf.train.adam(0.03) });

const stoppingEarly = () => ({
  ...ARGS,
  epochs: 30,
  validationSplit: 0.3,
  callbacks: tf.callbacks.earlyStopping({ patience: 2 }),
});

const resetAfter = (model: tf.LayersModel, value: number) => ({
  onBatchEnd: (batch: number) => {
    if (batch === 1) tf.tidy(() => model.setWeights(model.getWeights().map((weight) => tf.fill(weight.shape, value))));
  },
});

const lowerRate = (model: tf.LayersModel) => ({
  onEpochBegin: (epoch: number) => {
    (model.optimizer as tf.SGDOptimizer).setLearningRate(0.1 / (1 + epoch));
  },
});

const halve = (model: tf.LayersModel) => ({
  onBatchBegin: (batch: number) => {
    if (batch === 2) tf.tidy(() => model.setWeights(model.getWeights().map((weight) => weight.mul(0.5))));
  },
});

const setTo = (model: tf.LayersModel, value: number): void =>
  tf.tidy(() => model.setWeights(model.getWeights().map((weight) => tf.fill(weight.shape, value))));

describe('callbacks', () => {
  test('are called on every rank as in model.fit, with logs over the samples of all ranks', async () => {
    const args = { ...ARGS, epochs: 2, validationSplit: 0.2 };
    const { calls: expected, callbacks } = recorder();
    await alone(mlp, (model) => model.fit(x, y, { ...args, batchSize: 12, callbacks }));
    const all = await distributed(3, mlp, async (model) => {
      const own = recorder();
      await model.fit(x, y, { ...args, batchSize: 4, callbacks: own.callbacks });
      return own.calls;
    });
    expect(expected).toHaveLength(12);
    for (const { result } of all) expect(result).toEqual(expected);
  });

  test('may be instances of tf.Callback and plain objects in one list; instances receive the model and the parameters', async () => {
    const seen: unknown[] = [];
    class Watch extends tf.Callback {
      override onTrainBegin(): Promise<void> {
        seen.push(this.params['epochs'], this.params['batchSize'], this.params['samples'], this.params['steps']);
        expect(Reflect.get(this, 'model')).toBeInstanceOf(tf.LayersModel);
        return Promise.resolve();
      }
    }
    await distributed(2, mlp, (model) =>
      model.fit(x, y, {
        ...ARGS,
        batchSize: 8,
        callbacks: [{ onTrainEnd: () => void seen.push('end') }, new Watch()] as never,
      }),
    );
    expect(seen).toEqual([1, 16, 44, 3, 1, 16, 44, 3, 'end', 'end']);
  });

  test('for early stopping end all ranks after the same epoch as model.fit', async () => {
    // A learning rate at which the held-out loss rises after some epochs.
    const expected = await alone(withAdam, (model) => model.fit(x, y, { ...stoppingEarly(), batchSize: 8 }));
    const epochs = expected.history.epoch.length;
    expect(epochs).toBeGreaterThan(3);
    expect(epochs).toBeLessThan(30);
    for (const ranks of [2, 4]) {
      const all = await distributed(ranks, withAdam, (model) =>
        model.fit(x, y, { ...stoppingEarly(), batchSize: 8 / ranks }),
      );
      for (const { history } of all) expect(history.epoch).toEqual(expected.history.epoch);
    }
  });

  test.each(['onBatchEnd', 'onEpochEnd'])('of one rank may stop all ranks in %s', async (name) => {
    const stopOf = (model: tf.LayersModel) => ({
      [name]: (index: number) => {
        if (index === 1) model.stopTraining = true;
      },
    });
    const args = { ...ARGS, epochs: 5 };
    const expected = await alone(mlp, (model) => model.fit(x, y, { ...args, batchSize: 12, callbacks: stopOf(model) }));
    const stopped = await distributed(3, mlp, (trainerOf, { rank }) =>
      trainerOf.fit(x, y, { ...args, batchSize: 4, callbacks: rank === 1 ? stopOf(trainerOf.model) : {} }),
    );
    expectEqual(stopped, expected);
    expect(expected.history.epoch).toHaveLength(name === 'onBatchEnd' ? 1 : 2);
  });

  test.each(['onBatchBegin', 'onBatchEnd'])(
    'that stop in %s of the last batch do not prevent validation',
    async (name) => {
      const stopOf = (model: tf.LayersModel) => ({
        [name]: (index: number) => {
          if (index === 2) model.stopTraining = true;
        },
      });
      const args = { ...ARGS, epochs: 3, validationSplit: 0.25 };
      const expected = await alone(mlp, (model) =>
        model.fit(x, y, { ...args, batchSize: 12, callbacks: stopOf(model) }),
      );
      expect(expected.history.history).toHaveProperty('val_loss');
      expectEqual(
        await distributed(2, mlp, (trainer) =>
          trainer.fit(x, y, { ...args, batchSize: 6, callbacks: stopOf(trainer.model) }),
        ),
        expected,
      );
    },
  );

  test('are not needed to stop training: if stopTraining is set on one rank, all ranks stop after the next batch', async () => {
    const trained = await distributed(2, mlp, async (trainer, { rank }) => {
      const original = trainer.ddp.step.bind(trainer.ddp);
      const step = vi.spyOn(trainer.ddp, 'step').mockImplementation((optimizer) => {
        original(optimizer);
        // A button of rank 1 is pressed during the third batch.
        if (rank === 1 && step.mock.calls.length === 3) trainer.model.stopTraining = true;
      });
      const { epoch } = await trainer.fit(x, y, { ...ARGS, batchSize: 1, epochs: 2 });
      return { steps: step.mock.calls.length, epochs: epoch.length };
    });
    expect(trained.map(({ result }) => result)).toEqual([1, 2].map(() => ({ steps: 4, epochs: 1 })));
    expect(trained[1]!.weights).toEqual(trained[0]!.weights);
  });

  test('that set weights on one rank: all ranks continue with the weights of rank 0', async () => {
    const fit = (ranks: number, valueOf: (rank: number) => number | null) =>
      distributed(ranks, mlp, (trainer, { rank }) => {
        const value = valueOf(rank);
        const callbacks = value === null ? {} : resetAfter(trainer.model, value);
        return trainer.fit(x, y, { ...ARGS, batchSize: 12 / ranks, callbacks });
      });
    const expected = await alone(mlp, (model) =>
      model.fit(x, y, { ...ARGS, batchSize: 12, callbacks: resetAfter(model, 0.1) }),
    );
    // Rank 1 sets other weights, or only rank 0 sets weights.
    expectEqual(await fit(2, (rank) => (rank === 0 ? 0.1 : 0.7)), expected);
    expectEqual(await fit(2, (rank) => (rank === 0 ? 0.1 : null)), expected);
    expectEqual(await fit(1, () => 0.1), expected);
  });

  test('that set weights in onBatchBegin: all ranks continue with the weights of rank 0', async () => {
    const expected = await alone(mlp, (model) => model.fit(x, y, { ...ARGS, batchSize: 12, callbacks: halve(model) }));
    const fit = (onRanks: number) =>
      distributed(2, mlp, (trainer, { rank }) =>
        trainer.fit(x, y, { ...ARGS, batchSize: 6, callbacks: rank < onRanks ? halve(trainer.model) : {} }),
      );
    expectEqual(await fit(2), expected);
    expectEqual(await fit(1), expected);
  });

  test("may be instances of the page's own class, and stop all ranks after a batch", async () => {
    const calls: string[] = [];
    let running: tf.LayersModel | null = null;
    class Stop {
      onEpochEnd(epoch: number): void {
        calls.push(`epoch ${epoch}`);
      }

      onBatchEnd(batch: number): void {
        calls.push(`batch ${batch}`);
        if (batch === 1) running!.stopTraining = true;
      }
    }
    const args = { ...ARGS, epochs: 5 };
    const expected = await alone(mlp, (model) => {
      running = model;
      return model.fit(x, y, { ...args, batchSize: 12, callbacks: new Stop() });
    });
    const theirs = calls.splice(0);
    const stopped = await distributed(2, mlp, (trainer, { rank }) => {
      if (rank === 1) running = trainer.model;
      return trainer.fit(x, y, { ...args, batchSize: 6, callbacks: rank === 1 ? new Stop() : {} });
    });
    expectEqual(stopped, expected);
    expect(calls).toEqual(theirs);
    expect(calls).toEqual(['batch 0', 'batch 1', 'epoch 0']);
  });

  test('may change the learning rate on every rank', async () => {
    const args = { ...ARGS, epochs: 3 };
    const expected = await alone(mlp, (model) =>
      model.fit(x, y, { ...args, batchSize: 12, callbacks: lowerRate(model) }),
    );
    expectEqual(
      await distributed(2, mlp, (trainer) =>
        trainer.fit(x, y, { ...args, batchSize: 6, callbacks: lowerRate(trainer.model) }),
      ),
      expected,
    );
  });
});

describe('ranks exchange a few numbers', () => {
  test.each([
    ['at the end, and before and after each epoch without callbacks for batches', { onEpochEnd: () => {} }, 2 * 2 + 1],
    [
      'also before each of the 4 batches and at their end with callbacks for batches',
      { onBatchEnd: () => {} },
      2 * (4 + 1 + 1) + 1,
    ],
    ['twice before each batch with onBatchBegin', { onBatchBegin: () => {} }, 2 * (4 + 4 + 1 + 1) + 1],
  ])('%s', async (_, callbacks, expected) => {
    const all = await distributed(2, mlp, async (trainer, group) => {
      const allReduce = vi.spyOn(group, 'allReduce');
      await trainer.fit(x, y, { ...ARGS, batchSize: 6, epochs: 2, callbacks });
      const sums = allReduce.mock.calls.map(([values, options]) => [values.length, options?.op]);
      // The rest are the gradients of each batch, with loss and metrics.
      const exchanges = sums.filter(([, op]) => op === ReduceOp.MAX);
      expect(sums.length - exchanges.length).toBe(2 * 4);
      return exchanges.length;
    });
    for (const { result } of all) expect(result).toBe(expected);
  });
});

describe('weights that were set between two calls of fit', () => {
  test('are the same as on rank 0 in the next call of fit', async () => {
    const expected = await alone(mlp, async (model) => {
      setTo(model, 0.1);
      return model.fit(x, y, { ...ARGS, batchSize: 12 });
    });
    const all = await distributed(3, mlp, async (trainer, { rank }) => {
      await trainer.fit(x, y, { ...ARGS, batchSize: 4 });
      setTo(trainer.model, rank === 0 ? 0.1 : 0.5);
      return trainer.fit(x, y, { ...ARGS, batchSize: 4 });
    });
    expectEqual(all, expected);
  });

  test('are the same as on rank 0 in evaluate and evaluateDataset', async () => {
    const expected = await alone(mlp, async (model) => {
      setTo(model, 0.1);
      const results = [model.evaluate(x, y)].flat();
      const values = results.map((scalar) => scalar.dataSync()[0]!);
      tf.dispose(results);
      return Object.assign(new tf.History(), { values });
    });
    const { values } = expected.history as tf.History & { values: number[] };
    const all = await distributed(2, mlp, async (trainer, { rank }) => {
      const losses: number[] = [];
      for (const call of ['evaluate', 'evaluateDataset'] as const) {
        setTo(trainer.model, rank === 0 ? 0.1 : 0.5);
        const data = tf.data.generator(() => [{ xs: x.clone(), ys: y.clone() }].values());
        const results = [
          call === 'evaluate' ? await trainer.evaluate(x, y) : await trainer.evaluateDataset(data),
        ].flat();
        losses.push(results[0]!.dataSync()[0]!);
        tf.dispose(results);
      }
      return losses;
    });
    for (const { result, weights } of all) {
      for (const loss of result) expect(loss).toBeCloseTo(values[0]!, 5);
      expect(weights).toEqual(expected.weights);
    }
  });
});
