/** An AbortSignal ends calls of DistributedDataParallel, and the group. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { AbortError } from '../../../src/util/errors.ts';
import { errorOf } from '../../errorOf.ts';

/** Rank 1 does not make the call, so rank 0 waits until its signal is aborted. */
async function abortedOn(
  call: (group: ProcessGroup, ddp: DistributedDataParallel, signal: AbortSignal) => Promise<unknown>,
): Promise<Error[]> {
  const before = tf.memory();
  const errors = await runWorld(2, async (group) => {
    const weight = tf.tidy(() => tf.variable(tf.ones([1])));
    const ddp = await DistributedDataParallel.create([weight], group);
    const controller = new AbortController();
    const waiting =
      group.rank === 0 ? call(group, ddp, controller.signal) : group.failed.then((error) => Promise.reject(error));
    const error = errorOf(waiting);
    if (group.rank === 0) controller.abort(new Error('The user pressed Stop.'));
    await error;
    ddp.dispose();
    weight.dispose();
    return error;
  });
  const { numTensors, numBytes } = tf.memory();
  expect([numTensors, numBytes]).toEqual([before.numTensors, before.numBytes]);
  return errors;
}

const loss = (weight: tf.Variable) => (): tf.Scalar => weight.sum().asScalar();

describe('a signal of DistributedDataParallel', () => {
  test.each([
    [
      'DistributedDataParallel.create',
      (group: ProcessGroup, _: DistributedDataParallel, signal: AbortSignal) => {
        const weight = tf.tidy(() => tf.variable(tf.ones([1])));
        return DistributedDataParallel.create([weight], group, { signal }).finally(() => weight.dispose());
      },
    ],
    [
      'backward',
      (_: ProcessGroup, ddp: DistributedDataParallel, signal: AbortSignal) => {
        const weight = tf.tidy(() => tf.variable(tf.ones([1])));
        return ddp.backward(loss(weight), { samples: 0, signal }).finally(() => weight.dispose());
      },
    ],
    [
      'join',
      (_: ProcessGroup, ddp: DistributedDataParallel, signal: AbortSignal) =>
        ddp.join(() => Promise.resolve(), { signal }),
    ],
  ] as const)('ends %s on every rank', async (name, call) => {
    const errors = await abortedOn(call);
    for (const error of errors) {
      expect(error).toBeInstanceOf(AbortError);
      expect(error.message).toContain(`Aborted: the signal of rank 0 ended ${name}: The user pressed Stop.`);
    }
  });

  test('that is already aborted prevents anything from being sent', async () => {
    await runWorld(2, async (group) => {
      const error = await errorOf(DistributedDataParallel.create([], group, { signal: AbortSignal.abort('late') }));
      expect(error).toBeInstanceOf(AbortError);
      expect(group.failure).toBeNull();
      expect(group.bytesSent).toBe(0);
    });
  });
});
