import { createPowerSgdHook } from '../../../src/parallel/ddp/powerSgd.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { createRng } from '../../../src/util/rng.ts';
import type { Suite } from '../suite.ts';

const [ROWS, COLS, RANK] = [40, 30, 2];
const STEPS = 300;

/**
 * The result of PowerSGD for one matrix after many steps. The two programs start with different
 * random directions, but without error feedback both converge to the best approximation of the
 * given rank.
 */
export const powerSgd: Suite = {
  name: 'powerSgd',
  tolerance: 2e-6,
  compute: async () => {
    const gradient = matrix();
    const [last] = await reduced(gradient, false);
    return { rows: ROWS, cols: COLS, rank: RANK, steps: STEPS, gradient, result: last };
  },
};

/**
 * The mean of the results of many steps. With error feedback it approaches the exact matrix: all
 * steps together have the error of one step, so the mean has 1 / steps of that error.
 */
export const powerSgdErrorFeedback: Suite = {
  name: 'powerSgdErrorFeedback',
  tolerance: 0.05,
  compute: async () => {
    const gradient = matrix();
    const [, mean] = await reduced(gradient, true);
    return { rows: ROWS, cols: COLS, rank: RANK, steps: STEPS, gradient, result: mean };
  },
};

function matrix(): number[] {
  const rng = createRng(9);
  return Array.from({ length: ROWS * COLS }, () => Math.fround(rng.next() - 0.5));
}

/** Resolves with the final step's result, and the mean of all steps' results. */
async function reduced(gradient: number[], useErrorFeedback: boolean): Promise<[number[], number[]]> {
  const [results] = await runWorld(2, async (group) => {
    const hook = createPowerSgdHook({ matrixApproximationRank: RANK, startPowerSgdIter: 0, useErrorFeedback });
    const mean = new Float64Array(gradient.length);
    let buffer = new Float32Array();
    for (let step = 0; step < STEPS; step++) {
      // Each of two ranks has half of the gradient.
      buffer = Float32Array.from(gradient, (value) => value / 2);
      const parameters = [{ index: 0, offset: 0, shape: [ROWS, COLS], isUsed: true }];
      await hook({ index: 0, isLast: true, isRetry: false, buffer, parameters }, group);
      buffer.forEach((value, i) => (mean[i]! += value / STEPS));
    }
    return [[...buffer], [...mean]] satisfies [number[], number[]];
  });
  return results!;
}
