import * as tf from '@tensorflow/tfjs';
import { createOptimizer } from '../../../src/optim/index.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { createRng } from '../../../src/util/rng.ts';
import type { Suite } from '../suite.ts';

const BATCHES = [2, 6, 4];
const [INPUTS, OUTPUTS] = [4, 3];

interface Batch {
  samples: number;
  x: number[];
  y: number[];
}

/**
 * Uneven inputs: 3 ranks have 2, 6 and 4 batches. There are four cases: with or without noSync, and
 * with gradients divided by the number of all ranks or of the remaining ranks.
 */
export const join: Suite = {
  name: 'join',
  tolerance: 1e-6,
  compute: async () => {
    const rng = createRng(5);
    const numbers = (length: number): number[] => Array.from({ length }, () => Math.fround(rng.next()));
    const start = numbers(INPUTS * OUTPUTS).map((value) => Math.fround(value - 0.5));
    const data = BATCHES.map((count, rank) =>
      Array.from({ length: count }, (_, k): Batch => {
        const samples = 1 + ((k + rank) % 3);
        return { samples, x: numbers(INPUTS * samples), y: numbers(OUTPUTS * samples) };
      }),
    );
    const cases = [];
    for (const divideByInitialWorldSize of [true, false]) {
      for (const passesPerStep of [1, 2]) {
        const ranks = await train(start, data, divideByInitialWorldSize, passesPerStep);
        cases.push({ divideByInitialWorldSize, passesPerStep, ranks });
      }
    }
    return { start, data, cases };
  },
};

function train(
  start: number[],
  data: Batch[][],
  divideByInitialWorldSize: boolean,
  passesPerStep: number,
): Promise<number[][]> {
  return runWorld(BATCHES.length, async (group) => {
    const weights = tf.variable(tf.tensor2d(start, [INPUTS, OUTPUTS]));
    const ddp = await DistributedDataParallel.create([weights], group, { average: 'ranks' });
    const optimizer = createOptimizer('momentum', { learningRate: 0.1, momentum: 0.9 }, ddp.layout.size);
    const backward = async ({ samples, x, y }: Batch): Promise<void> => {
      const loss = (): tf.Scalar =>
        tf.losses
          .meanSquaredError(tf.tensor2d(y, [samples, OUTPUTS]), tf.tensor2d(x, [samples, INPUTS]).matMul(weights))
          .asScalar();
      await ddp.backward(loss, { samples });
    };
    await ddp.join(
      async () => {
        for (const [i, batch] of data[group.rank]!.entries()) {
          if ((i + 1) % passesPerStep > 0) await ddp.noSync(() => backward(batch));
          else {
            await backward(batch);
            ddp.step(optimizer);
          }
        }
      },
      { divideByInitialWorldSize },
    );
    return [...ddp.parameters];
  });
}
