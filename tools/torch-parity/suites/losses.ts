import * as tf from '@tensorflow/tfjs';
import { lossSumFunctionOf } from '../../../src/jobs/models/loss.ts';
import { crossEntropySum } from '../../../src/gpu/kernels/crossEntropy.ts';
import { createRng } from '../../../src/util/rng.ts';
import type { Suite } from '../suite.ts';

const AMOUNT_LOSSES = ['mean-squared-error', 'mean-absolute-error', 'huber'] as const;
/**
 * Half the range of logits: as at the start of training, as later, and beyond the range of exp.
 * There are 10 rows for each.
 */
const SPREADS = [0.5, 25, 10_000];

/** Losses of weighted samples, and the gradients of these losses. */
export const losses: Suite = {
  name: 'losses',
  tolerance: 1e-6,
  compute: async () => {
    const rng = createRng(4);
    const rows = SPREADS.flatMap((spread) =>
      Array.from({ length: 10 }, () => Array.from({ length: 5 }, () => Math.fround(2 * spread * (rng.next() - 0.5)))),
    );
    rows.push([0, 0, 0, 0, 0], [88, -88, 0, 1, 2], [1000, 1000, 0, 0, 0]);
    const labels = rows.map((_, i) => i % 5);
    const weights = rows.map((_, i) => (i % 7 === 3 ? 0 : 1));
    const ofClasses = await differentiated(tf.tensor2d(rows), (logits) =>
      crossEntropySum(logits as tf.Tensor2D, tf.tensor1d(labels, 'int32'), tf.tensor1d(weights)),
    );
    const outputs = [0, 0.5, 1, -1, 1.0000001, 3, -7, 100, 1e-20, 2, 2].map(Math.fround);
    const amounts = [0, 0, 0, 0, 0, 1, 2, -50, 0, 2, 1.5];
    const amountWeights = outputs.map((_, i) => (i === 5 ? 0 : 1));
    const ofAmounts = [];
    for (const name of AMOUNT_LOSSES) {
      const result = await differentiated(tf.tensor2d(outputs, [outputs.length, 1]), (x) =>
        lossSumFunctionOf(name)(x as tf.Tensor2D, tf.tensor1d(amounts), tf.tensor1d(amountWeights)),
      );
      ofAmounts.push({ name, ...result });
    }
    return {
      classes: { rows, labels, weights, ...ofClasses },
      amounts: { outputs, amounts, weights: amountWeights, losses: ofAmounts },
    };
  },
};

async function differentiated(
  x: tf.Tensor,
  loss: (x: tf.Tensor) => tf.Scalar,
): Promise<{ value: number; gradient: number[] }> {
  const { value, grad } = tf.valueAndGrad(loss)(x);
  return { value: (await value.data())[0]!, gradient: Array.from(await grad.data()) };
}
