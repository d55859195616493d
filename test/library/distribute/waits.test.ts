import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { distribute, type DistributedModel } from '../../../src/library/distribute/distributedModel.ts';
import { createMeshes, runRanks } from '../../../src/testing/index.ts';
import { createDeferred } from '../../../src/util/deferred.ts';
import { AbortError } from '../../../src/util/errors.ts';
import { errorOf } from '../../errorOf.ts';
import { compiled, distributed, useSamples } from './models.ts';

let x: tf.Tensor;
let y: tf.Tensor;
useSamples((samples) => ({ x, y } = samples));

type Data = tf.data.Dataset<tf.TensorContainer>;

const batch = () => ({ xs: tf.ones([2, 4]), ys: tf.ones([2, 3]) });

/** A dataset whose first element is not there before `next` resolves. */
const waiting = (next: () => Promise<IteratorResult<unknown>>) =>
  ({ size: 3, iterator: () => Promise.resolve({ next }) }) as unknown as Data;

const fail = () => Promise.reject(new Error('no space'));
const never = () => new Promise<never>(() => {});

/** Runs two ranks that fail; resolves with their errors. */
const errorsOf = async (main: (trainer: DistributedModel, group: ProcessGroup) => Promise<unknown>) => {
  const all = await distributed(
    2,
    () => compiled('mlp'),
    (trainer, group) => errorOf(main(trainer, group)),
  );
  return all.map(({ result }) => result);
};

describe('a signal ends the call on all ranks while they wait for', () => {
  const cases: [string, (trainer: DistributedModel, signal: AbortSignal) => Promise<unknown>][] = [
    [
      'elements of a dataset',
      (trainer, signal) => trainer.fitDataset(waiting(never), { epochs: 1, sharded: true, signal }),
    ],
    [
      'the iterator of a dataset',
      (trainer, signal) =>
        trainer.fitDataset({ size: 3, iterator: never } as unknown as Data, { epochs: 1, sharded: true, signal }),
    ],
    [
      'held-out samples of fitDataset',
      (trainer, signal) =>
        trainer.fitDataset(
          tf.data.generator(() => [batch(), batch()].values()),
          {
            epochs: 1,
            sharded: true,
            validationData: waiting(never),
            signal,
          },
        ),
    ],
    [
      'elements of evaluateDataset',
      (trainer, signal) => trainer.evaluateDataset(waiting(never), { sharded: true, signal }),
    ],
    ...['onTrainBegin', 'onEpochBegin', 'onBatchBegin', 'onBatchEnd', 'onEpochEnd', 'onTrainEnd'].map(
      (name): (typeof cases)[number] => [
        name,
        (trainer, signal) => trainer.fit(x, y, { callbacks: { [name]: never }, signal }),
      ],
    ),
  ];

  test.each(cases)('%s', async (_, main) => {
    const stop = new AbortController();
    setTimeout(() => stop.abort(new Error('enough')), 50);
    const errors = await errorsOf((trainer, { rank }) =>
      main(trainer, rank === 1 ? stop.signal : new AbortController().signal),
    );
    for (const error of errors) {
      expect(error).toBeInstanceOf(AbortError);
      expect(error.message).toMatch(/rank 1.*enough/);
    }
  });

  test('the call of another rank', async () => {
    const stop = new AbortController();
    const errors = await errorsOf(async (trainer, group) => {
      if (group.rank === 0) throw await group.failed;
      setTimeout(() => stop.abort(new Error('enough')), 50);
      return trainer.fit(x, y, { signal: stop.signal });
    });
    for (const error of errors) expect(error).toBeInstanceOf(AbortError);
  });
});

describe('an error on one rank', () => {
  test('ends the call on a rank that waits for its dataset; an element that arrives late is disposed of', async () => {
    const late = createDeferred<IteratorResult<unknown>>();
    const errors = await errorsOf((trainer, { rank }) =>
      trainer.fitDataset(waiting(rank === 0 ? () => late.promise : () => Promise.reject(new Error('no such file'))), {
        epochs: 1,
        sharded: true,
      }),
    );
    expect(errors.map(({ message }) => message)).toEqual([
      'Rank 1 failed in fitDataset: no such file.',
      'no such file',
    ]);
    late.resolve({ value: batch(), done: false });
    await new Promise((resolve) => setTimeout(resolve, 10));
  });

  test('ends the call on a rank that waits for a callback', async () => {
    const errors = await errorsOf((trainer, { rank }) =>
      trainer.fit(x, y, { callbacks: { onEpochEnd: rank === 0 ? never : fail } }),
    );
    expect(errors[0]!.message).toBe('Rank 1 failed in fit: no space.');
  });
});

test('a second call on a rank during the first one is an error on that rank only', async () => {
  await runRanks(createMeshes(1), async (group) => {
    const model = compiled('mlp');
    const trainer = await distribute(model, group);
    const first = trainer.fit(x, y, { epochs: 2 });
    const error = await errorOf(trainer.fit(x, y));
    expect(error.message).toContain('already in use by fit or evaluate');
    await first;
    await expect(trainer.fit(x, y)).resolves.toBeInstanceOf(tf.History);
    model.optimizer.dispose();
    model.dispose();
  });
});
