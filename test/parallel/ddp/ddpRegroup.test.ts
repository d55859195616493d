/** Gradients that survive the group they were computed for, on TensorFlow.js's CPU backend. */
import type * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { Mesh } from '../../../src/collectives/mesh.ts';
import { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import type { DistributedDataParallelOptions } from '../../../src/parallel/ddp/options.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { errorOf } from '../../errorOf.ts';
import { line } from '../models.ts';

/**
 * Returns rank 0's DDP of y = w x + b. Its group of two ranks has ended during a backward of 2
 * samples, x = 3 and 5.
 */
async function interrupted(
  options: DistributedDataParallelOptions,
): Promise<{ ddp: DistributedDataParallel; weight: tf.Variable }> {
  const [first] = await runWorld(2, async (group) => {
    const [weight, bias] = line(1);
    const made = await DistributedDataParallel.create([weight, bias], group, options);
    const sum = (x: number) => () => weight.mul(x).add(bias).sum().asScalar();
    // Orders the buckets.
    await made.backward(sum(1), { samples: 1 });
    if (group.rank === 1) group.abort(new Error('over'));
    else {
      const backward = made.backward(() => sum(3)().add(sum(5)()).asScalar(), { samples: 2, reduction: 'sum' });
      await errorOf(backward);
    }
    return { ddp: made, weight };
  });
  return first!;
}

const alone = (): ProcessGroup =>
  new ProcessGroup(new Mesh({ rank: 0, worldSize: 1, generation: 2, links: new Map() }));
const nothing = { samples: 0 };
const noLoss = (): never => {
  throw new Error('This pass must not run.');
};

describe('a backward that fails with its group', () => {
  test('keeps its gradients for the next group with keepGradients', async () => {
    const { ddp } = await interrupted({ keepGradients: true });
    expect(ddp.pendingSamples).toBe(2);
    ddp.regroup(alone());
    const { samples, loss } = await ddp.backward(noLoss, nothing);
    // w is 1, b is 0: the outputs are the inputs.
    expect([samples, loss]).toEqual([2, 4]);
    expect(Array.from(ddp.gradient).sort((a, b) => a - b)).toEqual([1, 4]);
    expect(ddp.pendingSamples).toBe(0);
  });

  test('adds its gradients to those of the next pass with keepGradients', async () => {
    const { ddp, weight } = await interrupted({ keepGradients: true });
    const group = alone();
    ddp.regroup(group);
    expect(ddp.group).toBe(group);
    const { samples } = await ddp.backward(() => weight.mul(6).sum().asScalar(), { samples: 2 });
    expect(samples).toBe(4);
    // (1 + 1) / 4, (3 + 5 + 2 * 6) / 4
    expect(Array.from(ddp.gradient).sort((a, b) => a - b)).toEqual([0.5, 5]);
  });

  test('keeps no gradients after dropGradients', async () => {
    const { ddp } = await interrupted({ keepGradients: true });
    ddp.dropGradients();
    ddp.regroup(alone());
    expect((await ddp.backward(noLoss, nothing)).samples).toBe(0);
  });

  test.each(['fp32', 'int8'] as const)('keeps no gradients if the device fails too: codec %s', async (codec) => {
    const [pending] = await runWorld(2, async (group) => {
      const [weight, bias] = line(1);
      const checkGradients = (): void => {
        if (group.failure) throw new Error('broken');
      };
      const options = { keepGradients: true, codec, checkGradients };
      const ddp = await DistributedDataParallel.create([weight, bias], group, options);
      const backward = () => ddp.backward(() => weight.add(bias).sum().asScalar(), { samples: 1 });
      // Orders the buckets.
      await backward();
      if (group.rank === 1) group.abort(new Error('over'));
      else expect((await errorOf(backward())).message).toBe('broken');
      return ddp.pendingSamples;
    });
    expect(pending).toBe(0);
  });

  test('keeps no gradients without keepGradients, or if only the device fails', async () => {
    expect((await interrupted({})).ddp.pendingSamples).toBe(0);
    let isBroken = false;
    const checkGradients = (): void => {
      if (isBroken) throw new Error('broken');
    };
    const [weight, bias] = line(1);
    const options = { keepGradients: true, checkGradients };
    const ddp = await DistributedDataParallel.create([weight, bias], alone(), options);
    const loss = () => weight.add(bias).sum().asScalar();
    await ddp.noSync(() => ddp.backward(loss, { samples: 1 }));
    expect(ddp.pendingSamples).toBe(1);
    isBroken = true;
    await expect(ddp.backward(loss, { samples: 1 })).rejects.toThrow('broken');
    expect(ddp.pendingSamples).toBe(0);
  });
});
