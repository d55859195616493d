/**
 * Finds the ranks and links that slow down the ring. In a ring all ranks wait for the slowest, so
 * their steps take equally long. Slow ranks differ in their **own time**, which is the time of a
 * step without the waits for others. The functions are pure.
 */
import type { LinkRoute, RankStatistics } from '../protocol/runEvents.ts';
import type { EventOf, RankTelemetry } from '../protocol/events.ts';
import { median } from '../util/statistics.ts';

/**
 * A rank is slow if its time, divided by the median time of the other ranks, exceeds this ratio.
 * Step times of equal machines differ by less.
 */
const SLOW_RATIO = 1.3;
/**
 * A link is slow if its time, divided by the median time of the other links, exceeds this ratio.
 * The limit is higher than for ranks, because times of single chunks vary more than times of steps.
 */
const SLOW_LINK_RATIO = 2;
/** A slow link is reported only if it costs at least this share of a step. */
const LINK_COST = 0.15;
/**
 * Differences up to this number of milliseconds are treated as noise. Browsers round clocks to
 * 0.1 ms.
 */
const NOISE_MS = 1;

export type StragglerFinding =
  | {
      kind: 'rank';
      rank: number;
      /** The rank's own time relative to the median of the other ranks. */
      ratio: number;
      /**
       * The rank's compute time relative to the median of the other ranks; `null` if computing is
       * not slow.
       */
      computing: number | null;
      isHidden: boolean;
    }
  | {
      kind: 'link';
      from: number;
      to: number;
      /** Transit time of a chunk. */
      transitMs: number;
      ratio: number;
      route: LinkRoute;
    };

/**
 * Returns slow ranks, then slow links. The slowest rank and the slowest link come first. The result
 * is empty if all ranks and links are similar.
 *
 * @param statistics by rank.
 * @param telemetry by rank.
 */
export function findStragglers(
  statistics: readonly RankStatistics[],
  telemetry: readonly RankTelemetry[],
): StragglerFinding[] {
  if (statistics.length < 2 || telemetry.length !== statistics.length) return [];
  const links = slowLinks(statistics, telemetry);
  // A slow link delays the rank that sends over it. If nothing else about that rank is slow, only
  // the link is reported.
  const ranks = slowRanks(statistics, telemetry).filter(
    ({ rank, computing, isHidden }) => computing !== null || isHidden || links.every(({ from }) => from !== rank),
  );
  return [...ranks, ...links];
}

/**
 * Returns the median speed of the other ranks, divided by the speed of this rank; `null` if this
 * rank is not slow. If samples are divided by speed, a slow rank has fewer samples, and its steps
 * take as long as those of the others. So the measured speeds are compared, too.
 *
 * @param shares the ranks' shares of a step; `null` if they are not known.
 */
export function slownessOf(
  rank: number,
  findings: readonly StragglerFinding[],
  shares: Pick<EventOf<'shares'>, 'reason' | 'speeds'> | null,
): number | null {
  const found = findings.find((one) => one.kind === 'rank' && one.rank === rank);
  if (found?.kind === 'rank') return found.ratio;
  if (shares?.reason !== 'speed') return null;
  const { speeds } = shares;
  const own = speeds[rank] ?? null;
  const others = speeds.filter((speed, one) => one !== rank && speed !== null) as number[];
  if (own === null || own <= 0 || others.length === 0) return null;
  const ratio = median(others) / own;
  return ratio > SLOW_RATIO ? ratio : null;
}

function slowRanks(
  statistics: readonly RankStatistics[],
  telemetry: readonly RankTelemetry[],
): Extract<StragglerFinding, { kind: 'rank' }>[] {
  const own = statistics.map(({ stepMs }, rank) => stepMs - telemetry[rank]!.waitMs);
  const computing = statistics.map(({ computeMs }) => computeMs);
  return own
    .flatMap((_, rank) => {
      const ratio = ratioToOthers(own, rank);
      if (ratio === null || ratio <= SLOW_RATIO) return [];
      const slower = ratioToOthers(computing, rank);
      const isSlowGpu = slower !== null && slower > SLOW_RATIO;
      const { isHidden } = telemetry[rank]!;
      return [{ kind: 'rank' as const, rank, ratio, computing: isSlowGpu ? slower : null, isHidden }];
    })
    .sort((a, b) => b.ratio - a.ratio);
}

function slowLinks(
  statistics: readonly RankStatistics[],
  telemetry: readonly RankTelemetry[],
): Extract<StragglerFinding, { kind: 'link' }>[] {
  const n = statistics.length;
  const transits = telemetry.map(({ right }) => right?.transitMs ?? null);
  if (transits.some((one) => one === null)) return [];
  const known = transits as number[];
  const stepMs = median(statistics.map((one) => one.stepMs));
  return known
    .flatMap((transitMs, from) => {
      const to = (from + 1) % n;
      const others = median(known.filter((_, rank) => rank !== from));
      const error = (telemetry[from]!.clock?.errorMs ?? Infinity) + (telemetry[to]!.clock?.errorMs ?? Infinity);
      // Every ring step waits for its slowest link.
      const cost = (transitMs - others) * 2 * (n - 1);
      const isSlow = transitMs > SLOW_LINK_RATIO * others && transitMs - others > error + NOISE_MS;
      if (!isSlow || cost < LINK_COST * stepMs) return [];
      const ratio = transitMs / Math.max(others, NOISE_MS);
      return [{ kind: 'link' as const, from, to, transitMs, ratio, route: telemetry[from]!.right!.route }];
    })
    .sort((a, b) => b.transitMs - a.transitMs);
}

/**
 * Returns the ratio of `values[rank]` to the median of the others; `null` if the difference is
 * noise.
 */
function ratioToOthers(values: readonly number[], rank: number): number | null {
  const others = median(values.filter((_, one) => one !== rank));
  const value = values[rank]!;
  return others > 0 && value - others > NOISE_MS ? value / others : null;
}
