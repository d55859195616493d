/**
 * Telemetry of a run: how each rank spent the time of its steps. Times of other ranks come from
 * regular exchanges. The latest steps are stored for the flight recorder. Telemetry does not
 * influence the computation.
 */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import { rightNeighbourOf } from '../../../collectives/plans/ringPlan.ts';
import type { StepReport } from '../../../parallel/strategies/index.ts';
import type { RightLinkReport, EngineEvent, RankTelemetry } from '../../../protocol/events.ts';
import type { RankStatistics } from '../../../protocol/runEvents.ts';
import type { StepCommandCounts, StepLane, StepTimes, AllReduceTraceRecord } from '../../../protocol/stepTrace.ts';
import type { FlightRecording } from '../../../protocol/flightRecording.ts';
import { ClockComparison, type CollectiveSpan } from '../../../telemetry/clocks.ts';
import { median } from '../../../util/statistics.ts';
import { exposedWaitMs, stepLaneOf, MAX_SENT_SEGMENTS, type PipelineStepTimes } from '../../../telemetry/stepLane.ts';
import type { Clock } from '../../../util/clock.ts';
import { exchangeTelemetry, MAX_TELEMETRY_STEPS, type RankTelemetryReport } from './telemetryExchange.ts';

/**
 * The number of traces, and of lanes, that are stored for the flight recorder. This is enough for
 * some steps, and keeps the file small.
 */
const KEPT = 32;

interface Step {
  step: number;
  startedAt: number;
  ms: StepTimes;
  traces: StepReport['traces'];
  pipeline?: PipelineStepTimes | undefined;
  bucketBytes: readonly number[];
  commands: StepCommandCounts | null;
}

export class StepTelemetry {
  readonly #clock: Clock;
  readonly #isHidden: () => boolean;
  #lanes: StepLane[] = [];
  #traces: AllReduceTraceRecord[] = [];
  #clocks: RankTelemetry['clock'][] = [];
  #group: ProcessGroup | null = null;
  #segments = MAX_SENT_SEGMENTS;
  #comparison = new ClockComparison();
  /**
   * When this world's latest exchange began and ended. Before the first exchange, these are the
   * times of a barrier.
   */
  #span: CollectiveSpan | null = null;
  #edge: RankTelemetryReport['right'] = null;
  /** For each step since the latest exchange: how long this rank waited, in milliseconds. */
  #waits: number[] = [];
  #newLanes: StepLane[] = [];
  #chunks = { count: 0, sentAt: 0, receivedAt: 0 };

  constructor(clock: Clock, isHidden: () => boolean) {
    this.#clock = clock;
    this.#isHidden = isHidden;
  }

  /**
   * Enters a world. Clocks and links are measured again, because the ranks have changed. Traces of
   * the previous world are dropped, because they belong to a different world size.
   *
   * @param segments the largest number of time segments of a step that this rank sends.
   */
  enter(group: ProcessGroup, segments: number = MAX_SENT_SEGMENTS): void {
    this.#group = group;
    this.#segments = segments;
    this.#comparison = new ClockComparison();
    this.#clocks = [];
    this.#traces = [];
    this.#span = null;
    this.#edge = null;
    this.#beginInterval();
    void this.#lookAtEdge();
  }

  /** Called when a step is applied. Returns the events of the step. */
  took({ traces, bucketBytes, ...measured }: Step): EngineEvent[] {
    const { step, ms } = measured;
    const recorded = traces.flatMap((trace, bucket) => {
      if (!trace?.hops.length) return [];
      return [{ step, bucket, bytes: bucketBytes[bucket]!, ...trace, hops: [...trace.hops] }];
    });
    const lane = stepLaneOf({ ...measured, traces });
    this.#lanes = [...this.#lanes, lane].slice(-KEPT);
    this.#traces = [...this.#traces, ...recorded].slice(-KEPT);
    this.#newLanes = [...this.#newLanes, lane].slice(-MAX_TELEMETRY_STEPS);
    this.#waits.push(exposedWaitMs(lane, ms));
    for (const { algorithm, hops } of recorded) if (algorithm === 'ring') this.#count(hops);
    return [...recorded.map((trace) => ({ type: 'trace' as const, ...trace })), { type: 'segments', lane }];
  }

  /**
   * Exchanges telemetry with all ranks. Every rank must call it.
   *
   * @param hash the hash of this rank's state. It is sent in the same exchange.
   * @param steps the largest possible number of steps since the previous exchange.
   */
  async exchange(
    hash: string,
    statistics: Omit<RankStatistics, 'rank'>,
    steps: number,
  ): Promise<{ hashes: string[]; statistics: RankStatistics[]; ranks: RankTelemetry[] }> {
    const group = this.#group!;
    const { count, sentAt, receivedAt } = this.#chunks;
    // To compare clocks, each rank sends the times at which an earlier collective began and ended:
    // the previous exchange or, before the first exchange in a world, an additional barrier.
    this.#span ??= await this.#barrier();
    const begin = this.#clock.now();
    const reports = await exchangeTelemetry(
      group,
      hash,
      statistics,
      {
        isHidden: this.#isHidden(),
        waitMs: median(this.#waits),
        right: this.#edge,
        lanes: this.#newLanes,
        chunks: count > 0 ? { sentAt: sentAt / count, receivedAt: receivedAt / count } : null,
        span: this.#span,
      },
      { steps, segments: this.#segments },
    );
    this.#span = { begin, end: this.#clock.now() };
    this.#beginInterval();
    void this.#lookAtEdge();
    this.#comparison.add(
      reports.map(({ span }) => span),
      group.rank,
    );
    const clocks = this.#comparison.offsets(group.rank);
    this.#clocks = clocks;
    const ranks = reports.map(({ isHidden, waitMs, right, lanes }, rank) => {
      const transitMs = transitOf(reports, clocks, rank);
      return { rank, isHidden, waitMs, right: right && { ...right, transitMs }, clock: clocks[rank]!, lanes };
    });
    return {
      hashes: reports.map((report) => report.hash),
      statistics: reports.map((report) => report.statistics),
      ranks,
    };
  }

  /** The data for the flight recorder. */
  get recorded(): Pick<FlightRecording, 'traces' | 'lanes' | 'clocks'> {
    return { traces: this.#traces, lanes: this.#lanes, clocks: this.#clocks };
  }

  async #barrier(): Promise<CollectiveSpan> {
    const begin = this.#clock.now();
    await this.#group!.barrier();
    return { begin, end: this.#clock.now() };
  }

  #beginInterval(): void {
    this.#waits = [];
    this.#newLanes = [];
    this.#chunks = { count: 0, sentAt: 0, receivedAt: 0 };
  }

  /**
   * Adds up the times at which chunks of an all-gather were sent and received. Chunks of the
   * reduce-scatter are left out: a chunk may wait for a receiver that has not started yet, even if
   * the link is fast.
   */
  #count(hops: AllReduceTraceRecord['hops']): void {
    for (const { planStep, sentAt, receivedAt } of hops) {
      if (planStep < this.#group!.worldSize - 1 || sentAt === null || receivedAt === null) continue;
      this.#chunks.count += 1;
      this.#chunks.sentAt += sentAt;
      this.#chunks.receivedAt += receivedAt;
    }
  }

  /**
   * Measures the link to the right neighbour. Browsers return statistics late, so only the next
   * exchange contains them.
   */
  async #lookAtEdge(): Promise<void> {
    const group = this.#group!;
    if (group.worldSize < 2) return;
    const link = await group.describeLink(rightNeighbourOf(group.rank, group.worldSize)).catch(() => null);
    if (group !== this.#group || link === null) return;
    const { route, roundTripMs, connections, bytesSent, bytesReceived } = link;
    this.#edge = { route, roundTripMs, connections, bytesSent, bytesReceived };
  }
}

/**
 * Returns how long a chunk travels from `rank` to its right neighbour, on average; `null` if that
 * is not known.
 */
function transitOf(
  reports: readonly RankTelemetryReport[],
  clocks: readonly { offsetMs: number }[],
  rank: number,
): RightLinkReport['transitMs'] {
  const right = rightNeighbourOf(rank, reports.length);
  const sent = reports[rank]!.chunks;
  const received = reports[right]!.chunks;
  if (sent === null || received === null) return null;
  const ahead = clocks[right]!.offsetMs - clocks[rank]!.offsetMs;
  return Math.max(0, received.receivedAt - sent.sentAt - ahead);
}
