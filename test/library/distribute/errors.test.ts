import * as tf from '@tensorflow/tfjs';
import { describe, expect, test, vi } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import type { DistributedFitArgs } from '../../../src/library/distribute/arguments.ts';
import type { DistributedModel } from '../../../src/library/distribute/distributedModel.ts';
import { AbortError, MismatchError, UsageError } from '../../../src/util/errors.ts';
import { errorsOf } from './errorsOf.ts';
import { compiled, MODELS, useSamples } from './models.ts';

let x: tf.Tensor;
let y: tf.Tensor;
useSamples((samples) => ({ x, y } = samples));

const mlp = () => compiled('mlp');
const unfrozen = (): tf.LayersModel => {
  const model = MODELS.mlp();
  model.layers[0]!.trainable = false;
  model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
  model.layers[0]!.trainable = true;
  return model;
};
const dense = (config: object): tf.layers.Layer => tf.layers.dense({ units: 2, inputShape: [4], ...config });
const chain = (layers: tf.layers.Layer[]): tf.LayersModel => {
  const model = tf.sequential({ layers });
  model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
  return model;
};
const withOwnNames = (rank: number): tf.LayersModel => {
  const kernelInitializer = tf.initializers.glorotUniform({ seed: rank });
  return chain([dense({ kernelInitializer, name: `layer-${rank}` }), tf.layers.dropout({ rate: 0.5, seed: rank })]);
};

const fitOn =
  (argsOf: (rank: number) => DistributedFitArgs) =>
  (trainer: DistributedModel, { rank }: ProcessGroup) =>
    trainer.fit(x, y, { batchSize: 4, shuffle: false, ...argsOf(rank) });

const failsOn = (rank: number, callbacks: tf.CustomCallbackArgs) => fitOn((own) => (own === rank ? { callbacks } : {}));

const setWeights = ({ model }: DistributedModel): void =>
  tf.tidy(() => model.setWeights(model.getWeights().map((weight) => weight.mul(2))));

function fail(): void {
  throw new Error('no space for a checkpoint');
}

describe('an invalid argument of rank 1 is an error on all ranks, and the group can still be used', () => {
  const cases: [string, (trainer: DistributedModel, group: ProcessGroup) => Promise<unknown>, RegExp][] = [
    [
      'inputs of a wrong shape',
      (trainer, { rank }) => {
        const wrong = x.reshape([88, 2]);
        const given = wrong.slice([0, 0], [44, 2]);
        return trainer.fit(rank === 1 ? given : x, y).finally(() => tf.dispose([wrong, given]));
      },
      /shape \[,?4\]/,
    ],
    [
      'another number of targets',
      (trainer, { rank }) => {
        const few = y.slice([0, 0], [10, 3]);
        return trainer.fit(x, rank === 1 ? few : y).finally(() => few.dispose());
      },
      /44 input sample\(s\) and 10 target/,
    ],
    ['a batch size of 0', fitOn((rank) => ({ batchSize: rank === 1 ? 0 : 4 })), /batchSize is 0/],
    [
      'shuffle: batch',
      fitOn((rank) => ({ shuffle: rank === 1 ? ('batch' as unknown as boolean) : true })),
      /shuffle is batch, which is not implemented; pass true or false/,
    ],
    ['half an epoch', fitOn((rank) => ({ epochs: rank === 1 ? 0.5 : 1 })), /epochs is 0\.5/],
    ['a class without weight', fitOn((rank) => (rank === 1 ? { classWeight: { 0: 1 } } : {})), /no weight for class/],
    [
      'an infinite dataset',
      (trainer, { rank }) => {
        const dataset = tf.data.array([1, 2]).repeat(rank === 1 ? -1 : 1);
        return trainer.fitDataset(dataset, { epochs: 1 });
      },
      /The dataset is infinite. Pass batchesPerEpoch/,
    ],
    [
      'an aborted signal',
      fitOn((rank) => (rank === 1 ? { signal: AbortSignal.abort(new Error('too slow')) } : {})),
      /its signal was already aborted: too slow/,
    ],
    [
      'a model that is compiled again with other metrics',
      (trainer, { rank }) => {
        if (rank === 1) trainer.model.compile({ optimizer: trainer.model.optimizer, loss: 'meanSquaredError' });
        return trainer.fit(x, y);
      },
      /The metrics of the model ".*" changed after distribute. Call distribute again/,
    ],
  ];

  test.each(cases)('%s', async (_, main, message) => {
    for (const [rank, { error, isAlive }] of (await errorsOf(mlp, main)).entries()) {
      expect(error.message).toMatch(message);
      if (rank !== 1) {
        expect(error).toBeInstanceOf(UsageError);
        expect(error.message).toMatch(/^Rank 1 cannot run fit/);
      }
      expect(isAlive).toBe(true);
    }
  });

  test('a weight that was unfrozen after the model was compiled', async () => {
    const errors = await errorsOf(unfrozen, () => Promise.resolve());
    for (const { error } of errors)
      expect(error.message).toMatch(/kernel" was frozen when .*Call model\.compile after/);
  });

  test('an uncompiled model', async () => {
    const errors = await errorsOf(
      (rank) => (rank === 1 ? MODELS.mlp() : mlp()),
      fitOn(() => ({})),
    );
    for (const { error } of errors) expect(error.message).toMatch(/The model ".*" is not compiled. Call model.compile/);
  });
});

test('data without samples are an error on all ranks', async () => {
  const none = { x: x.slice([0, 0], [0, 4]), y: y.slice([0, 0], [0, 3]) };
  for (const sharded of [false, true]) {
    for (const { error, isAlive } of await errorsOf(mlp, (trainer) => trainer.fit(none.x, none.y, { sharded }))) {
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toBe('There are no samples to train on.');
      expect(isAlive).toBe(true);
    }
    const empty = tf.data.generator(() => [].values());
    for (const { error } of await errorsOf(mlp, (trainer) => trainer.fitDataset(empty, { sharded, epochs: 1 }))) {
      expect(error.message).toContain('There are no samples to train on.');
    }
  }
  tf.dispose(none);
});

describe('an argument that differs between ranks is a MismatchError on all ranks, and the group can still be used', () => {
  const cases: [
    string,
    (rank: number) => tf.LayersModel,
    (trainer: DistributedModel, group: ProcessGroup) => Promise<unknown>,
    string,
  ][] = [
    [
      'the number of samples',
      mlp,
      (trainer, { rank }) => {
        const [someX, someY] = [x.slice([0, 0], [40 + rank, 4]), y.slice([0, 0], [40 + rank, 3])];
        return trainer.fit(someX, someY).finally(() => tf.dispose([someX, someY]));
      },
      'fit: x is [41, 4] float32 on rank 1, but [40, 4] float32 on rank 0. Pass the same samples on every rank, or `sharded: true`',
    ],
    [
      'the dtype of targets',
      mlp,
      (trainer, { rank }) => {
        const ints = y.toInt();
        return trainer.fit(x, rank === 2 ? ints : y).finally(() => ints.dispose());
      },
      'fit: y is [44, 3] int32 on rank 2, but [44, 3] float32 on rank 0.',
    ],
    [
      'the batch size',
      mlp,
      fitOn((rank) => ({ batchSize: 4 + rank })),
      'fit: batchSize is 5 on rank 1, but 4 on rank 0.',
    ],
    [
      'sharded',
      mlp,
      fitOn((rank) => ({ sharded: rank === 2 })),
      'fit: sharded is true on rank 2, but false on rank 0.',
    ],
    [
      'the optimizer',
      (rank) => compiled('mlp', { optimizer: () => (rank === 1 ? tf.train.adam() : tf.train.sgd(1)) }),
      fitOn(() => ({})),
      'fit: the optimizer is Adam on rank 1, but SGD on rank 0.',
    ],
    [
      'a setting of the optimizer',
      (rank) => compiled('mlp', { optimizer: () => tf.train.adam(0.1, 0.9 - 0.1 * rank) }),
      fitOn(() => ({})),
      "fit: the optimizer's beta1 is 0.8 on rank 1, but 0.9 on rank 0.",
    ],
    [
      'the metrics of compile',
      (rank) => compiled('mlp', { metrics: rank === 1 ? ['mse'] : ['accuracy'] }),
      fitOn(() => ({})),
      'distribute: metrics is mse on rank 1, but accuracy on rank 0.',
    ],
    [
      'the method',
      mlp,
      (trainer, { rank }) => (rank === 1 ? trainer.evaluate(x, y) : trainer.fit(x, y)),
      'Rank 0 called fit, but rank 1 called evaluate.',
    ],
    [
      'the size of a dataset',
      mlp,
      (trainer, { rank }) =>
        trainer.fitDataset(tf.data.array(Array(3 + rank).fill(1)), {
          epochs: 1,
        }),
      'fitDataset: the size of the dataset is 4 on rank 1, but 3 on rank 0.',
    ],
  ];

  test.each(cases)('%s', async (_, create, main, message) => {
    for (const { error, isAlive } of await errorsOf(create, main)) {
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message).toContain(message);
      expect(isAlive).toBe(true);
    }
  });

  test.each(['fit', 'evaluate'] as const)('weights that were set only on rank 1, in %s', async (call) => {
    const errors = await errorsOf(mlp, (trainer, { rank }) => {
      if (rank === 1) setWeights(trainer);
      return trainer[call](x, y);
    });
    for (const { error, isAlive } of errors) {
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message).toBe(
        'Weights of the model were set on rank 1, but not on rank 0, whose weights all ranks receive. Set weights on rank 0, or on every rank.',
      );
      expect(isAlive).toBe(true);
    }
  });

  test('the model', async () => {
    const errors = await errorsOf(
      (rank) => compiled(rank === 1 ? 'cnn' : 'mlp'),
      fitOn(() => ({})),
    );
    for (const { error } of errors) {
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message).toMatch(/: layer 0 is Conv2D .* on rank 1, but Dense .* on rank 0\. It must be the same/);
    }
  });

  test.each<[string, RegExp, (rank: number) => tf.layers.Layer[]]>([
    ['an activation', /layer 0 is Dense .*"relu"/, (rank) => [dense({ activation: rank === 1 ? 'relu' : 'tanh' })]],
    ['a penalty', /layer 0 is Dense .*"L1L2"/, (rank) => [dense(rank === 1 ? { kernelRegularizer: 'l1l2' } : {})]],
    [
      'a layer without weights',
      /layer 1 is Dropout .* on rank 1, but null on rank 0/,
      (rank) => [dense({}), ...(rank === 1 ? [tf.layers.dropout({ rate: 0.5 })] : [])],
    ],
    [
      'a layer of a nested model',
      /layer 0, layer 1 is Activation .*"relu"/,
      (rank) => {
        const activation = tf.layers.activation({ activation: rank === 1 ? 'relu' : 'tanh' });
        return [tf.sequential({ layers: [dense({}), activation] })];
      },
    ],
  ])('%s of the model', async (_, message, create) => {
    const errors = await errorsOf(
      (rank) => chain(create(rank)),
      () => Promise.resolve(),
    );
    for (const { error } of errors) expect(error.message).toMatch(message);
  });

  test('names, seeds and initial weights of layers may differ', async () => {
    const errors = await errorsOf(withOwnNames, () => Promise.reject(new Error('compared')));
    expect(errors.map(({ error }) => error.message)).toEqual(['compared', 'compared', 'compared']);
  });
});

describe('an error in training ends the group on all ranks and names the rank', () => {
  test.each(['onTrainBegin', 'onEpochBegin', 'onBatchBegin', 'onBatchEnd', 'onEpochEnd', 'onTrainEnd'])(
    'if it is thrown in %s',
    async (name) => {
      const errors = await errorsOf(mlp, failsOn(1, { [name]: fail }));
      for (const [rank, { error, isAlive }] of errors.entries()) {
        expect(error.message).toContain('no space for a checkpoint');
        if (rank !== 1) {
          expect(error.message).toBe('Rank 1 failed in fit: no space for a checkpoint.');
          // Not a PeerGoneError: the rank is there.
          expect(error.name).toBe('PeergradError');
        }
        expect(isAlive).toBe(false);
      }
    },
  );

  test('if a batch of a dataset does not fit the model', async () => {
    const errors = await errorsOf(mlp, (trainer, { rank }) => {
      const dataset = tf.data.generator(function* () {
        for (let batch = 0; batch < 6; batch++) {
          yield { xs: tf.ones([2, rank === 1 && batch === 4 ? 5 : 4]), ys: tf.ones([2, 3]) };
        }
      });
      return trainer.fitDataset(dataset, { epochs: 1 });
    });
    for (const { error } of errors)
      expect(error.message).toMatch(/[Rr]ank 1 cannot train on batch 1 of epoch 0: .*4.*5/s);
  });

  test('if a layer has no gradient', async () => {
    class Rounded extends tf.layers.Layer {
      static className = 'RoundedForTest';
      override call(inputs: tf.Tensor | tf.Tensor[]): tf.Tensor {
        return tf.tidy(() => tf.topk([inputs].flat()[0]!, 3).indices.toFloat());
      }
    }
    const create = () => {
      const model = tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [4] }), new Rounded()] });
      model.compile({ optimizer: tf.train.sgd(0.1), loss: 'meanSquaredError' });
      return model;
    };
    const errors = await errorsOf(
      create,
      fitOn(() => ({})),
    );
    for (const { error } of errors) expect(error.message).toMatch(/cannot train on batch 0 of epoch 0: .*gradient/s);
  });

  test('if a callback sets different learning rates', async () => {
    const errors = await errorsOf(mlp, (trainer, { rank }) => {
      const onEpochBegin = (epoch: number): void => {
        if (epoch === 1) (trainer.model.optimizer as tf.SGDOptimizer).setLearningRate(0.1 * (1 + rank));
      };
      return trainer.fit(x, y, { epochs: 3, callbacks: { onEpochBegin } });
    });
    for (const { error } of errors) {
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message).toMatch(/different learning rates: 0.1\d* on rank 0, 0.2\d* on rank 1/);
    }
  });

  test('if a callback sets weights only on ranks other than rank 0', async () => {
    const errors = await errorsOf(mlp, (trainer, { rank }) => {
      const onEpochEnd = (): void => (rank === 0 ? undefined : setWeights(trainer));
      return trainer.fit(x, y, { epochs: 2, callbacks: { onEpochEnd } });
    });
    for (const { error } of errors) {
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message).toMatch(
        /set on ranks 1, 2, but not on rank 0.* Set weights on rank 0, or on every rank\.$/,
      );
    }
  });

  test('if weights are set during a step', async () => {
    const errors = await errorsOf(mlp, (trainer, { rank }) => {
      const { ddp } = trainer;
      const backward = ddp.backward.bind(ddp);
      vi.spyOn(ddp, 'backward').mockImplementation((pass, options) => {
        if (rank === 1) setWeights(trainer);
        return backward(pass, options);
      });
      return trainer.fit(x, y);
    });
    for (const { error } of errors) {
      expect(error.message).toMatch(
        /The weight "dense\w*\/kernel.*" of rank 1's model was set during batch 0 of epoch 0.*Set weights in a callback, or between two calls of fit\.$/,
      );
    }
  });

  test('if a signal is aborted during training', async () => {
    const stop = new AbortController();
    const errors = await errorsOf(
      mlp,
      fitOn((rank) => ({
        epochs: 100,
        callbacks: { onEpochEnd: (epoch) => (epoch === 1 && rank === 2 ? stop.abort(new Error('enough')) : undefined) },
        ...(rank === 2 && { signal: stop.signal }),
      })),
    );
    for (const { error } of errors) {
      expect(error).toBeInstanceOf(AbortError);
      expect(error.message).toMatch(/rank 2.*enough/);
    }
  });
});
