/** Gradients that are reported, and read, while back-propagation still runs. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { gradientsOf, TensorReader } from '../../../src/parallel/backward/flatten.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { errorOf } from '../../errorOf.ts';

describe('back-propagation', () => {
  test("reports a variable's gradient before it computes gradients of earlier ops, unless several ops use the variable", () => {
    const [a, b, c] = [tf.variable(tf.scalar(2)), tf.variable(tf.scalar(3)), tf.variable(tf.scalar(5))] as const;
    const events: string[] = [];
    const marked = tf.customGrad((x) => ({
      value: (x as tf.Tensor).clone(),
      gradFunc: (dy) => {
        events.push('reached the middle');
        return dy;
      },
    }));
    const computed = gradientsOf(
      () => marked(a.mul(c)).mul(b).mul(c).asScalar(),
      [a, b, c],
      1,
      (variable, gradient) => events.push(`${variable}: ${gradient.dataSync()[0]}`),
    );
    expect(events).toEqual(['1: 50', 'reached the middle', '0: 75']);
    expect(computed.gradients.map((gradient) => gradient.dataSync()[0])).toEqual([75, 50, 60]);
    computed.dispose();
    tf.dispose([a, b, c]);
  });
});

describe('a pending read of tensors', () => {
  test('adds the values to those in the array, and returns the values beyond the end of the array', async () => {
    const reader = new TensorReader();
    const pending = reader.start(0, [tf.tensor1d([1, 2]), tf.tensor1d([3]), tf.scalar(4)]);
    const into = Float32Array.of(10, 20, 30);
    expect(await pending.into(into, { add: true })).toEqual([4]);
    expect(Array.from(into)).toEqual([11, 22, 33]);
    reader.dispose();
  });

  test('that fails and is not awaited causes no unhandled rejection', async () => {
    const reader = new TensorReader();
    const tensor = tf.tensor1d([1]);
    tensor.dispose();
    const pending = reader.start(0, [tensor]);
    await reader.read(0, [tf.tensor1d([7])], new Float32Array(1));
    // An unhandled rejection before would have failed this test.
    await expect(pending.into(new Float32Array(1))).rejects.toThrow('disposed');
    reader.dispose();
  });
});

/** One bucket for each of four variables; the third variable is used twice. */
const create = async (group: ProcessGroup) => {
  const variables = [1, 2, 3, 4].map((value) => tf.variable(tf.tensor1d([value, value, value])));
  const options = { firstBucketBytes: 1, bucketCapBytes: 1, keepGradients: true };
  const ddp = await DistributedDataParallel.create(variables, group, options);
  const loss = (scale: number) => (): tf.Scalar => {
    const [a, b, c, d] = variables as [tf.Variable, tf.Variable, tf.Variable, tf.Variable];
    return a.mul(b).mul(c).add(c).mul(d).mul(scale).sum().asScalar();
  };
  return { ddp, loss };
};
/** By parameter: d (abcd + cd) for a, b, c, d = 1, 2, 3, 4. */
const DERIVATIVES = [24, 12, 12, 9];
const byParameter = ({ layout, gradient }: DistributedDataParallel) => {
  const flat: number[] = [];
  for (const { parameter, offset } of layout.slots) flat[parameter] = gradient[offset]!;
  return flat;
};

describe('buckets that are read early', () => {
  test('have the right averages in every pass, even with gradients that noSync kept', async () => {
    await runWorld(2, async (group) => {
      const { ddp, loss } = await create(group);
      for (let step = 0; step < 3; step++) {
        const { loss: mean, samples } = await ddp.backward(loss(group.rank + 1), { samples: 2 });
        expect(byParameter(ddp)).toEqual(DERIVATIVES.map((value) => 1.5 * value));
        expect(mean).toBeCloseTo(1.5 * 3 * 36);
        expect(samples).toBe(4);
      }
      await ddp.noSync(() => ddp.backward(loss(1), { samples: 1 }));
      await ddp.noSync(() => ddp.backward(loss(2), { samples: 1 }));
      const { loss: mean } = await ddp.backward(loss(6), { samples: 1 });
      expect(byParameter(ddp)).toEqual(DERIVATIVES.map((value) => 3 * value));
      expect(mean).toBeCloseTo(3 * 3 * 36);
      ddp.dispose();
    });
  });

  test('of a failed pass are dropped', async () => {
    await runWorld(2, async (group) => {
      const { ddp, loss } = await create(group);
      await ddp.backward(loss(1), { samples: 1 });
      const broken = tf.customGrad((x) => ({
        value: (x as tf.Tensor).clone(),
        gradFunc: () => {
          throw new Error('no gradient here');
        },
      }));
      const failing = (): tf.Scalar =>
        loss(7)()
          .add(broken(loss(1)()))
          .asScalar();
      expect((await errorOf(ddp.backward(failing, { samples: 1 }))).message).toBe('no gradient here');
      await ddp.backward(loss(1), { samples: 1 });
      expect(byParameter(ddp)).toEqual(DERIVATIVES);
      ddp.dispose();
    });
  });
});
