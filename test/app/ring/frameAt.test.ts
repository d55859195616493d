import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ringCellsAfter, chunkName, ringFrameAt, traceTimelineOf } from '../../../src/app/ring/frameAt.ts';
import {
  holderOfPickedChunk,
  transferOfPickedChunk,
  narrateFrame,
  narratePickedChunk,
  transferFromRank,
} from '../../../src/app/ring/narrate.ts';
import { simulatedTrace } from '../../../src/app/ring/simulatedTrace.ts';
import { allReduceSteps, planStepNumbersOfRank } from '../../../src/collectives/plans/planSteps.ts';
import { ringStepCount, ringTransfersAt } from '../../../src/collectives/plans/ringPlan.ts';
import { ALL_REDUCE_NAMES } from '../../../src/spec/algorithms.ts';
import type { AllReduceTraceRecord } from '../../../src/protocol/stepTrace.ts';

/**
 * A trace of three ranks and four ring steps. The all-reduce starts at 10. Chunks leave at 11, 21,
 * 31, 41 and arrive at 20, 30, 40, 50.
 */
const TRACE: AllReduceTraceRecord = {
  step: 7,
  bucket: 0,
  bytes: 1200,
  startedAt: 10,
  algorithm: 'ring',
  hops: [0, 1, 2, 3].map((planStep) => ({
    planStep,
    sentAt: 11 + 10 * planStep,
    receivedAt: 20 + 10 * planStep,
  })),
};

const ring = (n: number) => allReduceSteps('ring', n);
const worlds = fc.integer({ min: 2, max: 17 });

describe('traceTimelineOf', () => {
  test('returns times relative to the start of the all-reduce', () => {
    expect(traceTimelineOf(TRACE, ring(3))).toEqual({
      leaves: [1, 11, 21, 31],
      arrives: [10, 20, 30, 40],
      duration: 40,
    });
  });

  test('divides the time in which a rank waits evenly among the steps of the other ranks', () => {
    // With 6 ranks, rank 0 sends its tensor to rank 1 in the first step and waits until the last.
    expect(planStepNumbersOfRank('halving-doubling', 6, 0)).toEqual([0, 5]);
    const hops = [
      { planStep: 0, sentAt: 20, receivedAt: null },
      { planStep: 5, sentAt: null, receivedAt: 70 },
    ];
    const { arrives, duration } = traceTimelineOf(
      { ...TRACE, algorithm: 'halving-doubling', hops },
      allReduceSteps('halving-doubling', 6),
    );
    expect(arrives).toEqual([10, 20, 30, 40, 50, 60]);
    expect(duration).toBe(60);
  });

  test('returns the average step time for steps after the last known time', () => {
    const { arrives } = traceTimelineOf({ ...TRACE, hops: TRACE.hops.slice(0, 2) }, ring(3));
    expect(arrives).toEqual([10, 20, 30, 40]);
  });

  test('returns times that never decrease and a positive travel time for every chunk, for any recorded times', () => {
    const time = fc.option(fc.double({ min: -5, max: 100, noNaN: true }), { nil: null });
    fc.assert(
      fc.property(worlds, fc.array(fc.tuple(time, time), { minLength: 32, maxLength: 32 }), (n, times) => {
        const hops = Array.from({ length: ringStepCount(n) }, (_, planStep) => ({
          planStep,
          sentAt: times[planStep]![0],
          receivedAt: times[planStep]![1],
        }));
        const { leaves, arrives, duration } = traceTimelineOf({ ...TRACE, startedAt: 0, hops }, ring(n));
        let before = 0;
        arrives.forEach((arrive, i) => {
          expect(leaves[i]).toBeGreaterThanOrEqual(before);
          expect(leaves[i]).toBeLessThanOrEqual(arrive);
          if (duration > 1e-6) expect(leaves[i]).toBeLessThan(arrive);
          before = arrive;
        });
        expect(duration).toBe(arrives.at(-1));
      }),
    );
  });
});

describe('ringFrameAt', () => {
  test('shows, during a ring step, exactly the chunks that the plan sends in this ring step', () => {
    const frame = ringFrameAt(TRACE, 3, 5.5);
    expect(frame.completed).toBe(0);
    expect(frame.phase).toBe('reduce-scatter');
    expect(frame.flights.map(({ from, to, first, count }) => ({ from, to, first, count }))).toEqual(
      ringTransfersAt(3, 0).map(({ from, to, chunk }) => ({ from, to, first: chunk, count: 1 })),
    );
    for (const flight of frame.flights) expect(flight.progress).toBeCloseTo(0.5);
  });

  test('shows no moving chunk between two ring steps', () => {
    expect(ringFrameAt(TRACE, 3, 0.5).flights).toEqual([]);
    expect(ringFrameAt(TRACE, 3, 10.5)).toMatchObject({ completed: 1, flights: [] });
  });

  test('returns the phase reduce-scatter for the first n - 1 ring steps, then all-gather, and done at the end', () => {
    expect(ringFrameAt(TRACE, 3, 19.9).phase).toBe('reduce-scatter');
    expect(ringFrameAt(TRACE, 3, 20).phase).toBe('all-gather');
    expect(ringFrameAt(TRACE, 3, 40)).toMatchObject({ completed: 4, phase: 'done', flights: [] });
    expect(ringFrameAt(TRACE, 3, 1e9).phase).toBe('done');
  });

  test('moves each chunk from its sender to the next rank, and the number of completed ring steps never decreases', () => {
    fc.assert(
      fc.property(worlds, fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 20 }), (n, places) => {
        const trace = simulatedTrace(n, 'ring');
        const { duration } = traceTimelineOf(trace, ring(n));
        let completed = 0;
        for (const place of places.sort((a, b) => a - b)) {
          const frame = ringFrameAt(trace, n, place * duration);
          expect(frame.completed).toBeGreaterThanOrEqual(completed);
          completed = frame.completed;
          for (const flight of frame.flights) {
            expect(flight.to).toBe((flight.from + 1) % n);
            expect(flight.progress).toBeGreaterThanOrEqual(0);
            expect(flight.progress).toBeLessThanOrEqual(1);
            expect(flight.parts).toEqual(frame.cells[flight.from]![flight.first]);
          }
        }
      }),
    );
  });
});

describe('ringCellsAfter', () => {
  test('returns only each rank’s own numbers after 0 ring steps, and sums over all ranks after the last ring step', () => {
    fc.assert(
      fc.property(worlds, (n) => {
        ringCellsAfter(ring(n), 0).forEach((row, rank) => {
          for (const parts of row) expect(parts).toEqual([rank]);
        });
        for (const row of ringCellsAfter(ring(n), ringStepCount(n)))
          for (const parts of row) expect(parts).toHaveLength(n);
      }),
    );
  });

  test('returns the whole sum of chunk r at rank r after the reduce-scatter, and never adds a rank twice to a sum', () => {
    fc.assert(
      fc.property(worlds, fc.nat(32), (n, steps) => {
        const completed = Math.min(steps, ringStepCount(n));
        ringCellsAfter(ring(n), completed).forEach((row, rank) => {
          row.forEach((parts) => {
            expect(new Set(parts).size).toBe(parts.length);
            expect(parts).toContain(rank);
          });
        });
        ringCellsAfter(ring(n), n - 1).forEach((row, rank) => expect(row[rank]).toHaveLength(n));
      }),
    );
  });
});

test('ringCellsAfter computes further steps from given cells, and does not change these cells', () => {
  for (const algorithm of ALL_REDUCE_NAMES) {
    const plan = allReduceSteps(algorithm, 12);
    let known = { plan, completed: 0, cells: ringCellsAfter(plan, 0) };
    for (let completed = 1; completed <= plan.steps.length; completed++) {
      const before = structuredClone(known.cells);
      const cells = ringCellsAfter(plan, completed, known);
      expect(cells).toEqual(ringCellsAfter(plan, completed));
      expect(known.cells).toEqual(before);
      // Rows that receive nothing are the same objects, so a step costs only what it changes.
      const receivers = new Set(plan.steps[completed - 1]!.transfers.map(({ to }) => to));
      cells.forEach((row, rank) => expect(row === known.cells[rank]).toBe(!receivers.has(rank)));
      known = { plan, completed, cells };
    }
    expect(ringCellsAfter(plan, 1, known)).toEqual(ringCellsAfter(plan, 1));
    expect(ringCellsAfter(allReduceSteps('ring', 5), 1, known)).toEqual(ringCellsAfter(allReduceSteps('ring', 5), 1));
  }
});

test('the names of chunks are letters', () => {
  expect([0, 1, 25, 26, 27, 63].map(chunkName)).toEqual(['A', 'B', 'Z', 'AA', 'AB', 'BL']);
});

describe('narrateFrame', () => {
  test('describes what this rank does in a ring step, until the next ring step begins', () => {
    // In ring step 1 of 3 ranks, rank 0 sends chunk B (0 - 1 - 1 = -2, which is 1 modulo 3), and
    // rank 2 sends chunk A to rank 0.
    for (const t of [15, 20.5]) {
      expect(narrateFrame(ringFrameAt(TRACE, 3, t), 0).text).toBe(
        'Reduce-scatter: you send chunk B to rank 1 and add your numbers to chunk A from rank 2.',
      );
    }
  });

  test('describes the beginning and the end of the all-reduce', () => {
    expect(narrateFrame(ringFrameAt(TRACE, 3, 0), 0).text).toContain('cut it into 3 chunks');
    expect(narrateFrame(ringFrameAt(TRACE, 3, 40), 0).title).toBe('all equal');
    expect(narrateFrame(ringFrameAt(TRACE, 3, 25), null)).toMatchObject({ title: 'all-gather 1/2' });
  });
});

describe('the chunk that the user picked', () => {
  test('is shown at its sender until the chunk arrives, then at its receiver', () => {
    const travelling = { chunk: 0, rank: null, sender: null };
    // Chunk A is sent from rank 1 to rank 2, then to rank 0.
    expect(transferOfPickedChunk(ringFrameAt(TRACE, 3, 5), travelling)).toMatchObject({ from: 1, to: 2, first: 0 });
    expect([0, 5, 10.5, 15, 20.5].map((t) => holderOfPickedChunk(ringFrameAt(TRACE, 3, t), travelling))).toEqual([
      1, 1, 2, 2, 0,
    ]);
    expect(transferFromRank(ringFrameAt(TRACE, 3, 15), 2)!.first).toBe(0);
  });

  test('is described with all terms of its sum', () => {
    const numbers = [4, 5, -6].map((own) => [own, 0, 0]);
    const sentences = [
      { t: 5, rank: null },
      { t: 10.5, rank: null },
      { t: 40, rank: 1 },
    ].map(({ t, rank }) => narratePickedChunk(ringFrameAt(TRACE, 3, t), { chunk: 0, rank, sender: null }, numbers));
    expect(sentences[0]).toBe('Chunk A, on the way: the numbers of rank 1 only, 5.');
    expect(sentences[1]).toBe('Rank 2, chunk A: the partial sum of ranks 1 and 2, 5 + (−6) = −1.');
    expect(sentences[2]).toBe('Rank 1, chunk A: the finished sum of all 3 ranks, 5 + (−6) + 4 = 3.');
    const crowd = ringFrameAt(simulatedTrace(16, 'ring'), 16, 4 * 9);
    expect(narratePickedChunk(crowd, { chunk: 3, rank: 12, sender: null }, undefined)).toBe(
      'Rank 12, chunk D: the partial sum of 9 of 16 ranks, from rank 4 round the ring to rank 12.',
    );
  });
});
