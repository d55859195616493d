import { describe, expect, test } from 'vitest';
import type { RankStatistics } from '../../src/protocol/runEvents.ts';
import type { RankTelemetry } from '../../src/protocol/events.ts';
import { findStragglers, slownessOf } from '../../src/telemetry/stragglers.ts';

interface Rank {
  compute: number;
  /** Own time of the rank in addition to computing. */
  other?: number;
  isHidden?: boolean;
  transit?: number | null;
  error?: number;
}

/**
 * Finds stragglers among ranks whose steps all take as long as that of the slowest rank, as in a
 * ring.
 */
function find(ranks: readonly Rank[]) {
  const own = ranks.map(({ compute, other = 5 }) => compute + other);
  const stepMs = Math.max(...own) + 2;
  const statistics = ranks.map(({ compute }, rank): RankStatistics => ({
    rank,
    dataMs: 0,
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
    right: { route: 'direct', roundTripMs: 1, connections: 1, bytesSent: 1, bytesReceived: 1, transitMs: transit },
  }));
  return findStragglers(statistics, telemetry);
}

describe('slow ranks', () => {
  test('are not reported if times differ by less than a factor of 1.3, or only by noise', () => {
    expect(find([{ compute: 40 }, { compute: 52, isHidden: true }, { compute: 45 }])).toEqual([]);
    expect(find([{ compute: 40 }])).toEqual([]);
    // A difference of a millisecond is noise.
    expect(
      find([
        { compute: 0.5, other: 0 },
        { compute: 1.4, other: 0 },
      ]),
    ).toEqual([]);
  });

  test('are recognized by their computing time, even if steps take equally long everywhere; hidden tabs are marked', () => {
    const found = find([{ compute: 40 }, { compute: 44 }, { compute: 84, isHidden: true }, { compute: 40 }]);
    expect(found).toEqual([{ kind: 'rank', rank: 2, ratio: 89 / 45, computing: 2.1, isHidden: true }]);
  });

  test('are not reported if they only wait for a slow link', () => {
    const ranks = [{ compute: 40 }, { compute: 40, other: 60, transit: 12 }, { compute: 40 }, { compute: 40 }];
    expect(find(ranks).map(({ kind }) => kind)).toEqual(['link']);
    const alsoSlow = ranks.map((one, rank) => (rank === 1 ? { ...one, compute: 90 } : one));
    expect(find(alsoSlow).map(({ kind }) => kind)).toEqual(['rank', 'link']);
  });

  test('are reported in order, the slowest first, and as slow in computing only if computing is the cause', () => {
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

  test('are also reported in a world of two ranks', () => {
    expect(find([{ compute: 90 }, { compute: 30 }])).toMatchObject([{ rank: 0, computing: 3 }]);
  });
});

describe('slow links', () => {
  test('are reported if they take at least twice as long as other links and make the step longer', () => {
    const found = find([{ compute: 40 }, { compute: 40, transit: 9 }, { compute: 40 }, { compute: 40 }]);
    expect(found).toEqual([{ kind: 'link', from: 1, to: 2, transitMs: 9, ratio: 9, route: 'direct' }]);
  });

  test('are not reported if the difference is within clock errors, costs little, or is unknown', () => {
    const slow = { compute: 40, transit: 9 };
    expect(find([{ compute: 40 }, { ...slow, error: 9 }, { compute: 40 }])).toEqual([]);
    expect(find([{ compute: 4000 }, { ...slow, compute: 4000 }, { compute: 4000 }])).toEqual([]);
    expect(find([{ compute: 40 }, slow, { compute: 40, transit: null }])).toEqual([]);
  });
});

function slownessAt(rank: number, speeds: (number | null)[]): number | null {
  return slownessOf(rank, [], { reason: 'speed', speeds });
}

describe('the slowness of a rank', () => {
  const finding = { kind: 'rank', rank: 1, ratio: 2.5, computing: 2.5, isHidden: false } as const;

  test('is the value that was reported for this rank', () => {
    expect(slownessOf(1, [finding], null)).toBe(2.5);
    expect(slownessOf(0, [finding], null)).toBeNull();
  });

  test('follows from its speed if it has a smaller share of the work', () => {
    const speeds = [400, 100, 380, null];
    expect(slownessAt(1, speeds)).toBe(3.8);
    expect(slownessAt(0, speeds)).toBeNull();
    expect(slownessAt(3, speeds)).toBeNull();
    expect(slownessAt(0, [100, 120])).toBeNull();
    expect(slownessAt(0, [100, null])).toBeNull();
  });

  test('does not follow from speeds while shares are equal, because step times then show the slowness', () => {
    for (const reason of ['equal', 'unknown', 'similar', 'overhead'] as const) {
      expect(slownessOf(1, [], { reason, speeds: [400, 100, 380] })).toBeNull();
    }
  });
});
