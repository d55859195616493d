/** The page's picture of pipelines: frames of the plan, places of ranks, measured idle time. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { pipelineFrameAt, pipelineReelOf, timelineOfPipelineReel } from '../../../src/app/pipeline/frame.ts';
import { idleShareOfStep } from '../../../src/app/pipeline/IdleShare.tsx';
import { layoutPipeline, pointOfTravellingValue } from '../../../src/app/pipeline/layout.ts';
import { placeInReplica, pipelinePlanOf, stagesByRank, type PipelineShape } from '../../../src/app/pipeline/shape.ts';
import { stageTakesTime, timePipelinePlan } from '../../../src/parallel/pipeline/schedules.ts';
import { stepLaneOf } from '../../../src/telemetry/stepLane.ts';

const shapes = fc.record({
  ranks: fc.integer({ min: 2, max: 10 }),
  replicas: fc.integer({ min: 1, max: 6 }),
  microBatches: fc.integer({ min: 1, max: 12 }),
  schedule: fc.constantFrom('1f1b' as const, 'gpipe' as const),
  ring: fc.boolean(),
});

describe('a frame of the plan', () => {
  test('shows as many passes as the plan has in its tick, and values that travel between neighbours only', () => {
    fc.assert(
      fc.property(shapes, (shape) => {
        const plan = pipelinePlanOf(shape);
        const reel = pipelineReelOf(plan);
        const all = plan.passes.flat().filter(({ stage }) => stageTakesTime(plan, stage));
        for (let tick = 0; tick < plan.ticks; tick++) {
          const { passes, values } = pipelineFrameAt(reel, tick + 0.99);
          expect(passes.filter((pass) => pass !== null)).toHaveLength(all.filter((pass) => pass.tick === tick).length);
          for (const { kind, from, to } of values) {
            const step = kind === 'forward' ? 1 : shape.ranks - 1;
            expect((from + step) % shape.ranks).toBe(to);
          }
          // A rank computes a pass only after its input has arrived. The first stage of a ring has
          // no tick.
          const arriving = values.filter(({ share }) => share < 1);
          const computed = passes.filter((pass) => pass !== null).length + (shape.ring ? 1 : 0);
          expect(arriving.length).toBeLessThanOrEqual(computed);
        }
      }),
      { numRuns: 40 },
    );
  });

  test('shows no more kept activations than the schedule allows, and none at the end', () => {
    fc.assert(
      fc.property(shapes, (shape) => {
        const plan = pipelinePlanOf({ ...shape, ring: false });
        const reel = pipelineReelOf(plan);
        for (let tick = 0; tick < plan.ticks; tick++) {
          for (const [rank, kept] of pipelineFrameAt(reel, tick).kept.entries()) {
            const most = shape.schedule === 'gpipe' ? shape.microBatches : shape.ranks - rank;
            expect(kept).toBeGreaterThanOrEqual(0);
            expect(kept).toBeLessThanOrEqual(most);
          }
        }
        const end = pipelineFrameAt(reel, plan.ticks);
        expect(end).toMatchObject({ tick: plan.ticks, values: [] });
        expect(end.kept.every((kept) => kept === 0)).toBe(true);
        expect(end.passes.every((pass) => pass === null)).toBe(true);
        expect(timelineOfPipelineReel(reel)).toMatchObject({ duration: plan.ticks });
      }),
      { numRuns: 40 },
    );
  });
});

describe('the picture of a pipeline', () => {
  const options = { width: 560, textSize: 13, own: null };

  test('contains the marks of all ranks, from 2 to 64', () => {
    for (const width of [300, 560, 1200]) {
      for (const ranks of [2, 3, 4, 7, 8, 13, 32, 64]) {
        const layout = layoutPipeline({ ...options, width, ranks, replicas: 1, ring: true });
        const places = layout.rows.flat();
        expect(places.map(({ rank }) => rank)).toEqual(Array.from({ length: ranks }, (_, rank) => rank));
        for (const { x, y } of places) {
          expect(x - layout.mark).toBeGreaterThanOrEqual(0);
          expect(x + layout.mark).toBeLessThanOrEqual(width);
          expect(y - layout.lane - layout.box.height / 2).toBeGreaterThanOrEqual(0);
          expect(y + layout.lane + layout.box.height / 2).toBeLessThanOrEqual(layout.height);
        }
        expect(new Set(places.map(({ x, y }) => `${x} ${y}`)).size).toBe(ranks);
      }
    }
  });

  test('draws neighbours next to each other, even at the end of a line', () => {
    const { rows } = layoutPipeline({ ...options, ranks: 32, replicas: 1, ring: false });
    for (const [i, { x, y }] of rows[0]!.slice(1).entries()) {
      const before = rows[0]![i]!;
      const isBelow = x === before.x && y > before.y && y - before.y < 120;
      expect(isBelow || (y === before.y && Math.abs(x - before.x) < 60)).toBe(true);
    }
  });

  test('has a row for each of the first replicas and for the replica of this tab, and counts the other replicas', () => {
    const layout = layoutPipeline({ ...options, ranks: 4, replicas: 9, ring: false, own: 30 });
    expect(layout.rows.map((row) => row[0]!.replica)).toEqual([0, 1, 7]);
    expect(layout.rows[2]!.map(({ rank }) => rank)).toEqual([28, 29, 30, 31]);
    expect(layout.more).toBe(6);
    expect(placeInReplica({ ranks: 4, replicas: 9 }, 30)).toBe(2);
    expect(placeInReplica({ ranks: 4, replicas: 9 }, 36)).toBeNull();
  });

  test('shows activations above the marks, gradients below, and values that return to the first rank on an arc', () => {
    const layout = layoutPipeline({ ...options, ranks: 4, replicas: 1, ring: true });
    const [first, second, , last] = layout.rows[0]! as [
      (typeof layout.rows)[0][0],
      (typeof layout.rows)[0][0],
      unknown,
      (typeof layout.rows)[0][0],
    ];
    expect(pointOfTravellingValue(layout, 'forward', first, second, 0.5)).toEqual({
      x: (first.x + second.x) / 2,
      y: first.y - layout.lane,
    });
    expect(pointOfTravellingValue(layout, 'backward', second, first, 1)).toEqual({
      x: first.x,
      y: first.y + layout.lane,
    });
    expect(pointOfTravellingValue(layout, 'forward', last, first, 0.5).y).toBe(first.y - layout.lane - layout.arc);
    expect(pointOfTravellingValue(layout, 'backward', first, last, 0.5).y).toBe(first.y + layout.lane + layout.arc);
  });
});

test('stagesByRank gives each rank the layers of its stages; in a ring, rank 0 has the first and the last stage', () => {
  const layers = ['embedding', 'a', 'b', 'c', 'norm'].map((name, i) => ({ name, bytes: 10 ** i }));
  expect(stagesByRank({ ranks: 2, layers, cut: [2, 2, 1] })).toEqual([
    { stages: [0, 2], layers: ['embedding', 'a', 'norm'], bytes: 10_011 },
    { stages: [1], layers: ['b', 'c'], bytes: 1100 },
  ]);
});

test('the measured idle share equals that of the plan if the step runs as planned', () => {
  const shape: PipelineShape = { ranks: 4, replicas: 1, microBatches: 8, schedule: '1f1b', ring: false };
  const plan = pipelinePlanOf(shape);
  const lanes = timePipelinePlan(plan, () => 5).map((passes) => {
    const total = 5 * plan.ticks + 2;
    const ms = { total, data: 0, compute: 0, readback: 0, communicate: 0, exposed: 0, update: 1 };
    const exchangedAt = passes.at(-1)!.end;
    return [stepLaneOf({ step: 6, startedAt: 0, ms, traces: [], pipeline: { passes, exchangedAt } })];
  });
  expect(idleShareOfStep(shape, lanes)).toEqual({ step: 6, share: expect.closeTo(3 / 11, 10) });
  expect(idleShareOfStep(shape, lanes.slice(0, 3))).toBeNull();
  expect(idleShareOfStep(shape, [])).toBeNull();
});
