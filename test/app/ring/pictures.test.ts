import { describe, expect, test } from 'vitest';
import { chunkCapsuleFor } from '../../../src/app/ring/capsule.ts';
import { ringCellsAfter, ringFrameAt, traceTimelineOf } from '../../../src/app/ring/frameAt.ts';
import {
  boxCentreOnWay,
  layoutRing,
  wayBetweenRanks,
  type RingLayout,
  type RingShapeName,
} from '../../../src/app/ring/geometry.ts';
import { transferOfPickedChunk, narrateFrame, narratePickedChunk } from '../../../src/app/ring/narrate.ts';
import { simulatedTrace } from '../../../src/app/ring/simulatedTrace.ts';
import { allReduceSteps } from '../../../src/collectives/plans/planSteps.ts';
import { ALL_REDUCE_NAMES, whyAlgorithmCannotRun, type AllReduceName } from '../../../src/spec/algorithms.ts';

const WORLDS = [2, 3, 4, 6, 8, 9, 12, 16, 30, 32, 64];
/** Worlds of many groups of two. */
const WORLDS_OF_PAIRS = [38, 46, 58, 62];
const CASES = ALL_REDUCE_NAMES.flatMap((name) =>
  [...WORLDS, ...(name === 'two-level' ? WORLDS_OF_PAIRS : [])]
    .filter((n) => whyAlgorithmCannotRun(name, n) === null)
    .map((n) => [name, n] as const),
);
/** The sizes of the picture on a projector and on a phone. */
const SIZES = [
  { width: 530, height: 440 },
  { width: 328, height: 320 },
];

type Place = RingLayout['places'][number];

const layoutOf = (shape: RingShapeName, n: number, size = SIZES[0]!, focus: number | null = 5 % n): RingLayout =>
  layoutRing({ ...size, n, textSize: 13, named: false, shape, focus });

const areApart = (a: Place, b: Place): boolean => Math.hypot(a.x - b.x, a.y - b.y) >= a.mark + b.mark;

describe.each(CASES)('the picture of %s with %i ranks', (name, n) => {
  test.each(SIZES)('has all marks inside %o, and no two marks overlap', (size) => {
    const { places } = layoutOf(name, n, size);
    expect(places).toHaveLength(n);
    const isInside = ({ x, y, mark }: Place): boolean =>
      mark > 2 && Math.min(x, size.width - x) >= mark && Math.min(y, size.height - y) >= mark;
    expect(places.filter((place) => !isInside(place))).toEqual([]);
    const overlaps = places.flatMap((place, i) =>
      places.slice(0, i).flatMap((other, k) => (areApart(place, other) ? [] : [[k, i]])),
    );
    expect(overlaps).toEqual([]);
  });

  test('moves every chunk from the edge of its sender’s mark to the edge of its receiver’s mark', () => {
    const layout = layoutOf(name, n);
    const wrong: object[] = [];
    for (const { transfers } of allReduceSteps(name, n).steps) {
      for (const { from, to } of transfers) {
        const way = wayBetweenRanks(layout, from, to);
        for (const [progress, rank] of [
          [0, from],
          [1, to],
        ] as const) {
          const { x, y, mark } = layout.places[rank]!;
          const at = boxCentreOnWay(way, progress, { width: 2, height: 2 });
          // The box is half of its size away from the mark, or near the middle of a short way. The
          // ends of a curve are longer than the same share of a straight line.
          const usual = Math.min(1.45 * mark + 2.4, 0.42 * way.length);
          const distance = Math.hypot(at.x - x, at.y - y);
          if (!(distance > 0.85 * usual && distance < 2.3 * usual)) wrong.push({ from, to, rank, distance, usual });
        }
      }
    }
    expect(wrong).toEqual([]);
  });

  test('shows, in each step, the transfers of the plan, and at the end all sums on all ranks', () => {
    const trace = simulatedTrace(n, name);
    const plan = allReduceSteps(name, n);
    const { leaves, arrives } = traceTimelineOf(trace, plan);
    for (const [i, { transfers, phase }] of plan.steps.entries()) {
      const frame = ringFrameAt(trace, n, (leaves[i]! + arrives[i]!) / 2);
      expect(frame).toMatchObject({ completed: i, phase });
      expect(frame.flights.map(({ from, to, first, count, reduces }) => ({ from, to, first, count, reduces }))).toEqual(
        transfers,
      );
    }
    const all = Array.from({ length: n }, (_, rank) => rank).join();
    const isSum = (parts: readonly number[]): boolean => parts.toSorted((a, b) => a - b).join() === all;
    const others = ringCellsAfter(plan, plan.steps.length).flatMap((row, rank) =>
      row.flatMap((parts, chunk) => (isSum(parts) ? [] : [{ rank, chunk, parts }])),
    );
    expect(others).toEqual([]);
  });
});

test('from 17 ranks on, a ring enlarges the chosen rank and two neighbours on each side, at any picture size', () => {
  for (const n of [17, 30, 64]) {
    for (const size of SIZES) {
      const layout = layoutOf('ring', n, size);
      expect([...layout.near].sort((a, b) => a - b)).toEqual([3, 4, 5, 6, 7]);
      const marks = layout.places.map(({ mark }) => mark);
      expect(marks[5]).toBeGreaterThanOrEqual(10);
      expect(marks[5]).toBeGreaterThan(marks[12]!);
      expect([3, 4, 5, 6, 7].map((rank) => layout.places[rank]!.number)).toEqual(Array(5).fill('inside'));
      // The rank is at the top.
      expect(layout.places[5]!.y).toBe(Math.min(...layout.places.map(({ y }) => y)));
      const capsules = [4, 5, 12].map((rank) =>
        chunkCapsuleFor(wayBetweenRanks(layout, rank, (rank + 1) % n), {
          n,
          textSize: 13,
          letters: 0,
          name: 'AB',
          most: 'name',
          room: Infinity,
        }),
      );
      const [near, far] = size === SIZES[0] ? ['tag', 'name'] : ['name', 'bar'];
      expect(capsules.map(({ kind }) => kind)).toEqual([near, near, n === 17 ? far : 'dot']);
    }
  }
  expect(layoutOf('ring', 30, SIZES[0], null).near.size).toBe(0);
});

test('the two directions between a pair of ranks are drawn as two separate ways', () => {
  const layout = layoutOf('halving-doubling', 8);
  const [there, back] = [wayBetweenRanks(layout, 0, 4).at(0.5), wayBetweenRanks(layout, 4, 0).at(0.5)];
  expect(Math.hypot(there.x - back.x, there.y - back.y)).toBeGreaterThan(20);
});

/** Returns the frame in the middle of a step. */
const during = (algorithm: AllReduceName, n: number, step: number) =>
  ringFrameAt(simulatedTrace(n, algorithm), n, 4 * step + 2);

/** What is picked when a rank is selected in the picture. */
const picked = (sender: number) => ({ chunk: 0, rank: null, sender });

describe('the text of a step', () => {
  test('names this rank’s chunks and partners', () => {
    expect(narrateFrame(during('two-level', 6, 0), 0)).toEqual({
      title: 'add in groups',
      text: 'Add in groups: you send chunks D to F to rank 1 and add your numbers to chunks A to C from rank 1.',
    });
    expect(narrateFrame(during('two-level', 6, 1), 0)).toMatchObject({
      title: 'add across groups 1/2',
      text: 'Add across groups: you send chunk C to rank 2 and add your numbers to chunk B from rank 4.',
    });
    expect(narrateFrame(during('halving-doubling', 8, 0), 0).text).toBe(
      'Halving: you send chunks E to H to rank 4 and add your numbers to chunks A to D from rank 4.',
    );
    expect(narrateFrame(during('halving-doubling', 8, 3), 0)).toMatchObject({
      title: 'doubling 1/3',
      text: 'Doubling: you send finished chunk A to rank 1 and keep a copy of chunk B from rank 1.',
    });
    expect(narrateFrame(during('doubling', 8, 1), 0).text).toBe(
      'Exchange: you send the whole gradient to rank 2 and add your numbers to the whole gradient from rank 2.',
    );
  });

  test('says that a rank waits if it neither sends nor receives', () => {
    expect(narrateFrame(during('doubling', 5, 0), 0).text).toBe('Fold: you send the whole gradient to rank 1.');
    expect(narrateFrame(during('doubling', 5, 1), 0).text).toBe('Exchange: you wait for the others.');
    expect(narrateFrame(during('doubling', 5, 3), 0).text).toBe(
      'Unfold: you keep a copy of the whole gradient from rank 1.',
    );
  });

  test('describes what a selected rank sends, and says so if the rank sends nothing', () => {
    expect(narratePickedChunk(during('halving-doubling', 8, 1), picked(0), undefined)).toBe(
      'Chunks C to D, on the way: the partial sum of ranks 0 and 4.',
    );
    expect(narratePickedChunk(during('doubling', 5, 1), picked(0), undefined)).toBe(
      'Rank 0 sends nothing in this step.',
    );
    expect(transferOfPickedChunk(during('doubling', 5, 1), picked(0))).toBeNull();
  });
});

test.each([
  [2, [0, 1]],
  [5, [1, 3]],
  [30, Array.from({ length: 30 }, (_, rank) => rank)],
])('a ring of %i ranks draws the edges of ranks %j through the server in its centre', (n, served) => {
  for (const size of SIZES) {
    const layout = layoutRing({
      ...{ ...size, n, textSize: 13, named: false, shape: 'ring', focus: 0 },
      served: new Set(served),
    });
    const distances = layout.places.map((_, rank) => {
      const way = wayBetweenRanks(layout, rank, (rank + 1) % n);
      const { x, y } = way.at(0.5);
      return Math.hypot(x - layout.x, y - layout.y) / layout.radius;
    });
    expect(distances.map((distance) => Math.round(distance))).toEqual(
      distances.map((_, rank) => (served.includes(rank) ? 0 : 1)),
    );
    const [out, back] = [wayBetweenRanks(layout, 1, 2 % n).at(0.25), wayBetweenRanks(layout, 0, 1).at(0.75)];
    if (served.includes(0) && served.includes(1)) {
      expect(Math.hypot(out.x - back.x, out.y - back.y)).toBeGreaterThan(5);
    }
  }
});
