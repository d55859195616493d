import { describe, expect, test } from 'vitest';
import { createOptimizer } from '../../../src/optim/index.ts';
import { noopHook } from '../../../src/parallel/ddp/commHooks.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { PeriodicModelAverager } from '../../../src/parallel/strategies/modelAverager.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { line } from '../models.ts';

describe('PeriodicModelAverager', () => {
  // Case 45 of docs/CONFORMANCE.md, from torch's test_periodic_model_averager.
  describe.each([1, 2, 3, 4, 7])('of %i ranks', (n) => {
    test.each([12, 13, 14, 15])('averages every fourth of 20 steps, beginning with step %i', async (warmupSteps) => {
      const period = 4;
      await runWorld(n, async (group) => {
        const averager = new PeriodicModelAverager({ period, warmupSteps });
        for (let step = 0; step < 20; step++) {
          const params = new Float32Array(10).fill(group.rank);
          const isDue = step >= warmupSteps && (step - warmupSteps) % period === 0;
          expect(await averager.averageParameters(params, group)).toBe(isDue);
          expect(params).toEqual(new Float32Array(10).fill(isDue ? (n - 1) / 2 : group.rank));
        }
        expect(averager.step).toBe(20);
      });
    });
  });

  test('averages every step with period 1, with the same bits on all ranks', async () => {
    const results = await runWorld(3, async (group) => {
      const averager = new PeriodicModelAverager({ period: 1 });
      const params = Float32Array.from({ length: 50 }, (_, i) => 1 / (i + group.rank + 1));
      for (let step = 0; step < 3; step++) expect(await averager.averageParameters(params, group)).toBe(true);
      return params;
    });
    for (const result of results) expect(result).toEqual(results[0]);
  });

  test('averages the model of a DistributedDataParallel whose ranks train separately', async () => {
    const weights = await runWorld(2, async (group) => {
      const [weight] = line(1);
      const ddp = await DistributedDataParallel.create([weight], group);
      ddp.registerCommHook(noopHook);
      const optimizer = createOptimizer('sgd', { learningRate: 1 }, ddp.layout.size);
      const averager = new PeriodicModelAverager({ period: 2 });
      const seen: number[] = [];
      for (let step = 0; step < 3; step++) {
        await ddp.backward(() => weight.mul(group.rank).sum().asScalar(), { samples: 1 });
        ddp.step(optimizer);
        if (await averager.averageParameters(ddp.parameters, group)) ddp.writeParameters();
        seen.push(weight.dataSync()[0]!);
      }
      return seen;
    });
    // The weighted gradient is one half on rank 1 and zero on rank 0. Parameters are averaged after
    // the first and the third step.
    expect(weights).toEqual([
      [0.75, 0.75, 0.25],
      [0.75, 0.25, 0.25],
    ]);
  });

  test('changes neither parameters nor step if it fails', async () => {
    await runWorld(2, async (group) => {
      if (group.rank === 1) return group.abort(new Error('rank 1 has left'));
      const averager = new PeriodicModelAverager({ period: 2 });
      const params = Float32Array.of(1, 2, 3);
      await expect(averager.averageParameters(params, group)).rejects.toThrow('rank 1 has left');
      expect(params).toEqual(Float32Array.of(1, 2, 3));
      expect(averager.step).toBe(0);
    });
  });

  test.each([{ period: 0 }, { period: 1.5 }, { period: 2, warmupSteps: -1 }])('rejects %o', (options) => {
    expect(() => new PeriodicModelAverager(options)).toThrow(UsageError);
  });
});
