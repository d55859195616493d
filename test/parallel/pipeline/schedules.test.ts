/** The laws of pipeline schedules, for every number of stages and micro-batches. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  gpipe,
  idleShare,
  oneForwardOneBackward,
  rankOfStage,
  stageTakesTime,
  timePipelinePlan,
  type PipelinePlan,
  type StagePass,
} from '../../../src/parallel/pipeline/schedules.ts';

const SCHEDULES = { gpipe, oneForwardOneBackward } as const;
const sizes = [fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 20 })] as const;

/** Returns the largest number of micro-batches whose activations each stage keeps at a time. */
function mostInFlight({ passes, stages }: PipelinePlan): number[] {
  const most = Array.from({ length: stages }, () => 0);
  for (const own of passes) {
    const kept = Array.from({ length: stages }, () => 0);
    for (const { kind, stage } of own) {
      kept[stage]! += kind === 'forward' ? 1 : -1;
      most[stage] = Math.max(most[stage]!, kept[stage]!);
    }
  }
  return most;
}

/** Returns a function that returns the tick of a pass. */
function ticksOf({ passes }: PipelinePlan): (kind: StagePass['kind'], stage: number, microBatch: number) => number {
  const ticks = new Map(
    passes.flat().map(({ kind, stage, microBatch, tick }) => [`${kind}/${stage}/${microBatch}`, tick]),
  );
  return (kind, stage, microBatch) => ticks.get(`${kind}/${stage}/${microBatch}`)!;
}

describe.each(Object.entries(SCHEDULES))('%s', (_name, schedule) => {
  const everyPlan = (check: (plan: PipelinePlan, ring: boolean) => void): void =>
    fc.assert(
      fc.property(...sizes, fc.boolean(), (ranks, microBatches, ring) => {
        check(schedule(ranks, microBatches, { ring }), ring);
      }),
    );

  test('computes each micro-batch once forward and once backward on each stage, in their order', () => {
    everyPlan((plan) => {
      const all = Array.from({ length: plan.microBatches }, (_, microBatch) => microBatch).join();
      const wrong: object[] = [];
      for (const [rank, own] of plan.passes.entries()) {
        for (let stage = 0; stage < plan.stages; stage++) {
          for (const kind of ['forward', 'backward'] as const) {
            const microBatches = own
              .filter((pass) => pass.stage === stage && pass.kind === kind)
              .map(({ microBatch }) => microBatch);
            const expected = rankOfStage(plan, stage) === rank ? all : '';
            if (microBatches.join() !== expected) wrong.push({ rank, stage, kind, microBatches });
          }
        }
      }
      expect(wrong).toEqual([]);
    });
  });

  test('computes a pass only after the pass whose result it needs', () => {
    everyPlan((plan) => {
      const tickOf = ticksOf(plan);
      const early: object[] = [];
      for (let microBatch = 0; microBatch < plan.microBatches; microBatch++) {
        for (let stage = 1; stage < plan.stages; stage++) {
          const isOneTickLater = stageTakesTime(plan, stage - 1) ? 1 : 0;
          const [forward, before] = [stage, stage - 1].map((each) => tickOf('forward', each, microBatch));
          if (!(forward! >= before! + isOneTickLater)) early.push({ microBatch, stage, forward, before });
          const [backward, after] = [stage - 1, stage].map((each) => tickOf('backward', each, microBatch));
          if (!(backward! >= after! + isOneTickLater)) early.push({ microBatch, stage, backward, after });
        }
        const last = plan.stages - 1;
        const [backward, forward] = [tickOf('backward', last, microBatch), tickOf('forward', last, microBatch)];
        if (!(backward > forward)) early.push({ microBatch, last, backward, forward });
      }
      expect(early).toEqual([]);
    });
  });

  test('computes at most one pass per rank and tick, not counting the first stage of a ring', () => {
    everyPlan((plan) => {
      for (const own of plan.passes) {
        const ticks = own.filter(({ stage }) => stageTakesTime(plan, stage)).map(({ tick }) => tick);
        expect(ticks).toEqual([...new Set(ticks)].sort((a, b) => a - b));
      }
    });
  });

  test('is idle for (S - 1) / (M + S - 1) of the time', () => {
    fc.assert(
      fc.property(...sizes, fc.boolean(), (ranks, microBatches, ring) => {
        const plan = schedule(ranks, microBatches, { ring });
        expect(plan.ticks).toBe(2 * (microBatches + ranks - 1));
        expect(idleShare(plan)).toBeCloseTo((ranks - 1) / (microBatches + ranks - 1), 12);
      }),
    );
  });

  test('takes one unit of time per tick if passes of the first stage of a ring take no time and all others one unit', () => {
    everyPlan((plan) => {
      const timed = timePipelinePlan(plan, ({ stage }) => (stageTakesTime(plan, stage) ? 1 : 0)).flat();
      const isOnTime = ({ stage, tick, start }: (typeof timed)[number]): boolean =>
        stageTakesTime(plan, stage) ? start === tick : start <= tick + 1;
      expect(timed.filter((pass) => !isOnTime(pass))).toEqual([]);
    });
  });

  test('has the same idle share in a ring if backward passes take twice as long as forward passes', () => {
    fc.assert(
      fc.property(...sizes, (ranks, microBatches) => {
        const plan = schedule(ranks, microBatches, { ring: true });
        const timed = timePipelinePlan(plan, ({ kind, stage }) => (stage === 0 ? 0 : kind === 'forward' ? 1 : 2));
        const end = Math.max(...timed.flat().map((pass) => pass.end));
        expect(end).toBe(3 * (microBatches + ranks - 1));
      }),
    );
  });

  test.each([0, -1, 1.5, NaN])('rejects %s stages or micro-batches', (count) => {
    expect(() => schedule(count, 4)).toThrow(`The number of stages is ${count}. Pass a whole number of at least 1.`);
    expect(() => schedule(4, count)).toThrow(`The number of microBatches is ${count}.`);
  });
});

test('GPipe keeps the activations of all micro-batches', () => {
  fc.assert(
    fc.property(...sizes, (ranks, microBatches) => {
      expect(mostInFlight(gpipe(ranks, microBatches))).toEqual(Array.from({ length: ranks }, () => microBatches));
    }),
  );
});

test('stage s of S stages keeps the activations of at most S - s micro-batches with 1F1B; the first stage of a ring keeps two per rank at most', () => {
  fc.assert(
    fc.property(...sizes, fc.boolean(), (ranks, microBatches, ring) => {
      const plan = oneForwardOneBackward(ranks, microBatches, { ring });
      for (const [stage, kept] of mostInFlight(plan).entries()) {
        const most = stageTakesTime(plan, stage) ? plan.stages - stage : 2 * ranks;
        expect(kept).toBeLessThanOrEqual(Math.min(most, microBatches));
      }
    }),
  );
});

test('GPipe computes all forward passes of a rank before its backward passes', () => {
  const kinds = gpipe(3, 4).passes.map((own) => own.map(({ kind }) => kind[0]).join(''));
  expect(kinds).toEqual(['ffffbbbb', 'ffffbbbb', 'ffffbbbb']);
});

test('stage s of S stages computes S - s forward passes with 1F1B, and then alternates backward and forward passes', () => {
  const kinds = oneForwardOneBackward(3, 5).passes.map((own) => own.map(({ kind }) => kind[0]).join(''));
  expect(kinds).toEqual(['fffbfbfbbb', 'ffbfbfbfbb', 'fbfbfbfbfb']);
});

test('a slow stage delays the other stages', () => {
  const timed = timePipelinePlan(gpipe(2, 2), ({ stage }) => (stage === 1 ? 3 : 1));
  expect(timed[0]!.map(({ start, end }) => [start, end])).toEqual([
    [0, 1],
    [1, 2],
    [10, 11],
    [13, 14],
  ]);
});

test('the travel time of values delays the next stage', () => {
  const timed = timePipelinePlan(
    gpipe(2, 1),
    () => 1,
    () => 5,
  );
  expect(timed.flat().map(({ start }) => start)).toEqual([0, 13, 6, 7]);
});
