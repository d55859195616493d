/**
 * State of the reports of ranks about one generation of a run: links, the trace of an all-reduce,
 * statistics and hashes.
 */
import { planStepNumbersOfRank } from '../../collectives/plans/planSteps.ts';
import type { EventOf, RankTelemetry } from '../../protocol/events.ts';
import type { CodecChoice } from '../../protocol/runResult.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import type { LinkRoute, RankStatistics } from '../../protocol/runEvents.ts';
import type { AllReduceTraceRecord, StepLane } from '../../protocol/stepTrace.ts';
import type { RunAlgorithm } from '../../spec/algorithms.ts';
import { isCollectiveCodec } from '../../spec/codecs.ts';

export interface LinkView {
  up: boolean;
  route: LinkRoute;
  roundTripMs: number | null;
}

export type SharesView = Omit<EventOf<'shares'>, 'type'>;

export type PipelineView = Omit<EventOf<'pipeline'>, 'type'>;

interface Statistics {
  step: number;
  ranks: readonly RankStatistics[];
  /**
   * Whether these statistics are from an earlier generation. If so, their bytes were counted from
   * an earlier start, so no rates can be computed from them.
   */
  isCarried?: true;
}

export interface RunTelemetryView {
  /** The links of this rank, by the rank of the neighbour. */
  links: Readonly<Record<number, LinkView>>;
  /**
   * The distribution of the job's files, or of the run's state: the total number of bytes, and the
   * number of bytes that each rank has.
   */
  distribution: { what: 'files' | 'state'; total: number; bytesPerRank: readonly number[] } | null;
  pipeline: PipelineView | null;
  /**
   * The algorithm that sends the most bytes of the gradients; `null` before the first step of a
   * generation.
   */
  algorithm: RunAlgorithm | null;
  /** The ranks' shares of a step; `null` before speeds are exchanged in a generation. */
  shares: SharesView | null;
  /** The codec that ranks chose in this generation, and why. */
  choice: CodecChoice | null;
  /** The trace of the newest bucket whose steps are all known. */
  trace: AllReduceTraceRecord | null;
  statistics: Statistics | null;
  /** The statistics before `statistics`. Rates are computed from their difference. */
  earlierStatistics: Statistics | null;
  /** Reports of all ranks, exchanged with the statistics. */
  telemetry: { ranks: readonly RankTelemetry[] } | null;
  /** The latest steps of this rank, with exact times. */
  ownLanes: readonly StepLane[];
  /**
   * The latest steps of this generation on each rank, by the clock of that rank. The steps of other
   * ranks come from `telemetry`, and those of this rank from `ownLanes`, which are more exact.
   */
  lanes: readonly (readonly StepLane[])[];
  hashes: { step: number; hashes: readonly string[]; agree: boolean } | null;
}

export const initialRunTelemetryView: RunTelemetryView = {
  links: {},
  distribution: null,
  pipeline: null,
  algorithm: null,
  shares: null,
  choice: null,
  trace: null,
  statistics: null,
  earlierStatistics: null,
  telemetry: null,
  ownLanes: [],
  lanes: [],
  hashes: null,
};

/** The number of steps that the timeline stores. */
export const MAX_TIMELINE_STEPS = 32;

export type RunTelemetryEvent = EventOf<
  | 'link'
  | 'distribution'
  | 'pipeline'
  | 'algorithm'
  | 'shares'
  | 'codec'
  | 'trace'
  | 'segments'
  | 'ranks'
  | 'telemetry'
  | 'hashes'
>;

interface OwnRank {
  generation: number;
  rank: number;
  worldSize: number;
}

export function reduceRunTelemetry(
  run: RunTelemetryView & OwnRank,
  event: RunTelemetryEvent,
): Partial<RunTelemetryView> {
  switch (event.type) {
    case 'link': {
      const { up, route, roundTripMs } = event;
      return { links: { ...run.links, [event.peerRank]: { up, route, roundTripMs } } };
    }
    case 'distribution': {
      const { what, total, bytesPerRank } = event;
      // An event of another generation is ignored, because its ranks have different numbers.
      return event.generation === run.generation ? { distribution: { what, total, bytesPerRank } } : {};
    }
    case 'pipeline': {
      const { type: _, ...pipeline } = event;
      return { pipeline };
    }
    case 'algorithm':
      return { algorithm: event.algorithm };
    case 'shares': {
      const { type: _, ...shares } = event;
      return { shares };
    }
    case 'codec': {
      const { choice } = event;
      // With a codec that replaces whole gradients, ranks do not send the chunks that the trace
      // shows.
      return { choice, trace: isCollectiveCodec(choice.codec) ? run.trace : null };
    }
    case 'trace': {
      const { step, bucket, bytes, algorithm, startedAt, hops } = event;
      const trace = { step, bucket, bytes, algorithm, startedAt, hops };
      // `run.algorithm` is the algorithm that sends the most bytes. Small buckets may use a
      // different one.
      const isMinor = run.algorithm !== null && run.algorithm !== algorithm;
      return isMinor || !isTraceComplete(trace, run) ? {} : { trace };
    }
    case 'segments':
      return { ownLanes: [...run.ownLanes, event.lane].slice(-MAX_TIMELINE_STEPS) };
    case 'ranks':
      return {
        statistics: { step: event.step, ranks: event.ranks },
        earlierStatistics: run.statistics?.isCarried ? null : run.statistics,
      };
    case 'telemetry': {
      const { ranks } = event;
      const lanes = Array.from({ length: run.worldSize }, (_, rank) =>
        rank === run.rank
          ? run.ownLanes
          : [...(run.lanes[rank] ?? []), ...(ranks[rank]?.lanes ?? [])].slice(-MAX_TIMELINE_STEPS),
      );
      return { telemetry: { ranks }, lanes };
    }
    case 'hashes':
      return { hashes: { step: event.step, hashes: event.hashes, agree: event.agree } };
    default:
      return event satisfies never;
  }
}

/**
 * Returns the statistics of the previous generation, but with the members' present ranks. With
 * them, tables stay filled until the first exchange of the new generation.
 */
export function carryOverStatistics(
  { statistics, members: before }: Pick<RunTelemetryView, 'statistics'> & { members: readonly RosterEntry[] },
  members: readonly RosterEntry[],
): Statistics | null {
  if (statistics === null) return null;
  const ranks = statistics.ranks.flatMap((one) => {
    const rank = members.findIndex(({ member }) => member === before[one.rank]?.member);
    return rank < 0 ? [] : [{ ...one, rank }];
  });
  return { step: statistics.step, ranks: ranks.sort((a, b) => a.rank - b.rank), isCarried: true };
}

/**
 * Returns whether the trace has exactly the steps of the rank's plan. A trace of another world size
 * does not have them.
 */
export function isTraceComplete(
  { algorithm, hops }: AllReduceTraceRecord,
  { rank, worldSize }: Pick<OwnRank, 'rank' | 'worldSize'>,
): boolean {
  const steps = worldSize < 2 ? [] : planStepNumbersOfRank(algorithm, worldSize, rank);
  return (
    steps.length > 0 &&
    hops.length === steps.length &&
    hops.every(({ planStep }, i) => planStep === steps[i]) &&
    hops.some((hop) => hop.receivedAt !== null)
  );
}
