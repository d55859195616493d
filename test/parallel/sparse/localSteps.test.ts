import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, test } from 'vitest';
import { Mesh } from '../../../src/collectives/mesh.ts';
import { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { Sgd } from '../../../src/optim/sgd.ts';
import { startOfRun } from '../../../src/parallel/recovery/progress.ts';
import { LocalSteps } from '../../../src/parallel/localSteps/localSteps.ts';
import { SparseMean } from '../../../src/parallel/sparse/sparseMean.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { systemClock } from '../../../src/util/clock.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

const SIZE = 500;
const ENTRIES = 256;

/** Trains towards a target of this rank, and exchanges after every second step. */
async function train(
  worldSize: number,
  steps: number,
  isEnd: boolean,
): Promise<{ own: Float32Array; shared: Float32Array }[]> {
  return runWorld(worldSize, async (group) => {
    const parameters = tf.variable(tf.zeros([SIZE]));
    const target = tf.range(0, SIZE).mul(group.rank + 1);
    const alone = new Mesh({ rank: 0, worldSize: 1, generation: 0, links: new Map() });
    const strategy = await LocalSteps.create({
      ...{ model: [parameters], group: new ProcessGroup(alone), clock: systemClock },
      ...{ checkGradients: () => {}, onnote: () => {}, syncEvery: 2, codec: 'fp32' },
      createOptimizer: (size) => new Sgd({ learningRate: 0.1 }, size),
      createOuterOptimizer: (size) => new Sgd({ learningRate: 1 }, size),
      createMean: (size) => new SparseMean(size, ENTRIES),
    });
    await strategy.attach(group, startOfRun(), null);
    const loss = () => tf.tidy(() => parameters.sub(target).square().sum().asScalar());
    for (let step = 0; step < steps; step++) await strategy.step(loss, { samples: 1 }, () => {});
    if (isEnd) await strategy.synchronize();
    const [shared] = strategy.state() as [Float32Array];
    const result = { own: parameters.dataSync().slice() as Float32Array, shared: shared.slice() };
    strategy.dispose();
    return result;
  });
}

describe('local steps with a sparse mean', () => {
  test('continue from what a rank has learned itself, sent or not', async () => {
    const [rank] = await train(1, 10, false);
    // Training alone, without exchanges: p := p - 0.1 * 2 (p - target).
    for (let i = 0; i < SIZE; i++) expect(rank!.own[i]).toBeCloseTo(i * (1 - 0.8 ** 10), 2);
    expect(rank!.shared).not.toEqual(rank!.own);
  });

  test('have an equal state on all ranks after an exchange, and equal parameters at the end of a run', async () => {
    const running = await train(3, 10, false);
    expect(running[1]!.shared).toEqual(running[0]!.shared);
    expect(running[1]!.own).not.toEqual(running[0]!.own);
    for (const { own, shared } of await train(3, 10, true)) {
      expect(shared).toEqual(running[0]!.shared);
      expect(own).toEqual(shared);
    }
  });
});
