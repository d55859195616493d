import { describe, expect, test } from 'vitest';
import type { RankStatistics } from '../../src/protocol/runEvents.ts';
import type { RankTelemetry } from '../../src/protocol/events.ts';
import { findStragglers } from '../../src/telemetry/stragglers.ts';

interface Rank {
  compute: number;
  /** Own time of the rank, beside computing. */
  other?: number;
  isHidden?: boolean;
  transit?: number | null;
  error?: number;
}

/** Ranks that all take the step of the slowest, as in a ring. */
function find(ranks: readonly Rank[]) {
  const own = ranks.map(({ compute, other = 5 }) => compute + other);
  const stepMs = Math.max(...own) + 2;
  const statistics = ranks.map(({ compute }, rank): RankStatistics => ({
    rank,
    computeMs: compute,
    communicateMs: 10,
    stepMs,
    gradientBytesSent: 0,
    gradientBytesReceived: 0,
    otherBytesSent: 0,
    memoryBytes: 0,
  }));
  const telemetry = ranks.map(({ isHidden = false, transit = 1, error = 0.2 }, rank): RankTelemetry => ({
    rank,
    isHidden,
    waitMs: stepMs - own[rank]!,
    lanes: [],
    clock: { offsetMs: 0, errorMs: error },
    right: { route: 'direct', roundTripMs: 1, bytesSent: 1, bytesReceived: 1, transitMs: transit },
  }));
  return findStragglers(statistics, telemetry);
}

describe('ranks', () => {
  test('that differ by less than 1.3 are not reported, whatever else differs', () => {
    expect(find([{ compute: 40 }, { compute: 52, isHidden: true }, { compute: 45 }])).toEqual([]);
    expect(find([{ compute: 40 }])).toEqual([]);
    // A millisecond is noise.
    expect(
      find([
        { compute: 0.5, other: 0 },
        { compute: 1.4, other: 0 },
      ]),
    ).toEqual([]);
  });

  test('that compute slowly are found, though every step takes as long, and a hidden tab is named', () => {
    const found = find([{ compute: 40 }, { compute: 44 }, { compute: 84, isHidden: true }, { compute: 40 }]);
    expect(found).toEqual([{ kind: 'rank', rank: 2, ratio: 89 / 45, computing: 2.1, isHidden: true }]);
  });

  test('that only wait for a slow link are not reported', () => {
    const ranks = [{ compute: 40 }, { compute: 40, other: 60, transit: 12 }, { compute: 40 }, { compute: 40 }];
    expect(find(ranks).map(({ kind }) => kind)).toEqual(['link']);
    const alsoSlow = ranks.map((one, rank) => (rank === 1 ? { ...one, compute: 90 } : one));
    expect(find(alsoSlow).map(({ kind }) => kind)).toEqual(['rank', 'link']);
  });

  test('that are slow for another reason are not reported as slow computers; the slowest comes first', () => {
    const found = find([
      { compute: 40 },
      { compute: 41, other: 60 },
      { compute: 90 },
      { compute: 40 },
      { compute: 40 },
    ]);
    expect(found.map((one) => one.kind === 'rank' && [one.rank, one.computing])).toEqual([
      [1, null],
      [2, 2.25],
    ]);
  });

  test('of two, the slower is found', () => {
    expect(find([{ compute: 90 }, { compute: 30 }])).toMatchObject([{ rank: 0, computing: 3 }]);
  });
});

describe('links', () => {
  test('that take twice as long, and cost the step something, are found', () => {
    const found = find([{ compute: 40 }, { compute: 40, transit: 9 }, { compute: 40 }, { compute: 40 }]);
    expect(found).toEqual([{ kind: 'link', from: 1, to: 2, transitMs: 9, ratio: 9, route: 'direct' }]);
  });

  test('are not reported within clock errors, without a cost, or before they are known', () => {
    const slow = { compute: 40, transit: 9 };
    expect(find([{ compute: 40 }, { ...slow, error: 9 }, { compute: 40 }])).toEqual([]);
    expect(find([{ compute: 4000 }, { ...slow, compute: 4000 }, { compute: 4000 }])).toEqual([]);
    expect(find([{ compute: 40 }, slow, { compute: 40, transit: null }])).toEqual([]);
  });
});
