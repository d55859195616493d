/**
 * What a run tells beyond its steps: how each of them was spent on this rank, and, exchanged with
 * all ranks now and then, on the others. Keeps the last few for the flight recorder. Nothing here
 * changes what is computed.
 */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import { rightOf } from '../../../collectives/plans/ringPlan.ts';
import type { StepReport } from '../../../parallel/strategies/index.ts';
import type { EdgeReport, EngineEvent, RankTelemetry } from '../../../protocol/events.ts';
import type { RankStatistics } from '../../../protocol/runEvents.ts';
import type { StepLane, StepTimes, RecordedTrace } from '../../../protocol/stepTrace.ts';
import type { FlightRecording } from '../../../protocol/flightRecording.ts';
import { ClockComparison, type Span } from '../../../telemetry/clocks.ts';
import { median } from '../../../util/statistics.ts';
import { exposedWait, laneOf } from '../../../telemetry/stepLane.ts';
import type { Clock } from '../../../util/clock.ts';
import { exchangeTelemetry, TOLD_STEPS, type Told } from './telemetryExchange.ts';

/**
 * Traces and lanes kept for the flight recorder: some steps back, in a file that a page still reads
 * at once.
 */
const KEPT = 32;

interface Step {
  step: number;
  startedAt: number;
  ms: StepTimes;
  traces: StepReport['traces'];
  bucketBytes: readonly number[];
}

export class StepTelemetry {
  readonly #clock: Clock;
  readonly #isHidden: () => boolean;
  #lanes: StepLane[] = [];
  #traces: RecordedTrace[] = [];
  #clocks: RankTelemetry['clock'][] = [];
  #group: ProcessGroup | null = null;
  #comparison = new ClockComparison();
  /** The barrier of the last exchange in this world. */
  #span: Span | null = null;
  #edge: Told['right'] = null;
  /** Since the last exchange. */
  #waits: number[] = [];
  #untold: StepLane[] = [];
  #chunks = { count: 0, sentAt: 0, receivedAt: 0 };

  constructor(clock: Clock, isHidden: () => boolean) {
    this.#clock = clock;
    this.#isHidden = isHidden;
  }

  /** Enters a world: with other ranks, everything is compared again. */
  enter(group: ProcessGroup): void {
    this.#group = group;
    this.#comparison = new ClockComparison();
    this.#clocks = [];
    this.#span = null;
    this.#edge = null;
    this.#forgetTold();
    void this.#lookAtEdge();
  }

  /** A step was applied; what there is to tell of it. */
  took({ traces, bucketBytes, ...measured }: Step): EngineEvent[] {
    const { step, ms } = measured;
    const recorded = traces.flatMap((trace, bucket) => {
      if (!trace?.hops.length) return [];
      return [{ step, bucket, bytes: bucketBytes[bucket]!, startedAt: trace.startedAt, hops: [...trace.hops] }];
    });
    const lane = laneOf({ ...measured, traces });
    this.#lanes = [...this.#lanes, lane].slice(-KEPT);
    this.#traces = [...this.#traces, ...recorded].slice(-KEPT);
    this.#untold = [...this.#untold, lane].slice(-TOLD_STEPS);
    this.#waits.push(exposedWait(lane, ms));
    for (const { hops } of recorded) this.#count(hops);
    return [...recorded.map((trace) => ({ type: 'trace' as const, ...trace })), { type: 'segments', lane }];
  }

  /**
   * Tells all ranks, and hears from them. Every rank must call it.
   *
   * @param hash of this rank's state, which goes with it.
   * @param steps at most so many since the last exchange.
   */
  async exchange(
    hash: string,
    statistics: Omit<RankStatistics, 'rank'>,
    steps: number,
  ): Promise<{ hashes: string[]; statistics: RankStatistics[]; ranks: RankTelemetry[] }> {
    const group = this.#group!;
    const { count, sentAt, receivedAt } = this.#chunks;
    // Clocks cannot be compared before the first exchange.
    this.#span ??= await this.#barrier();
    const begin = this.#clock.now();
    const told = await exchangeTelemetry(
      group,
      hash,
      statistics,
      {
        ...{ isHidden: this.#isHidden(), waitMs: median(this.#waits), right: this.#edge, lanes: this.#untold },
        chunks: count > 0 ? { sentAt: sentAt / count, receivedAt: receivedAt / count } : null,
        span: this.#span,
      },
      steps,
    );
    this.#span = { begin, end: this.#clock.now() };
    this.#forgetTold();
    void this.#lookAtEdge();
    this.#comparison.add(
      told.map(({ span }) => span),
      group.rank,
    );
    const clocks = this.#comparison.offsets(group.rank);
    this.#clocks = clocks;
    const ranks = told.map(({ isHidden, waitMs, right, lanes }, rank) => {
      const transitMs = transitOf(told, clocks, rank);
      return { rank, isHidden, waitMs, right: right && { ...right, transitMs }, clock: clocks[rank]!, lanes };
    });
    return { hashes: told.map((one) => one.hash), statistics: told.map((one) => one.statistics), ranks };
  }

  /** For the flight recorder. */
  get recorded(): Pick<FlightRecording, 'traces' | 'lanes' | 'clocks'> {
    return { traces: this.#traces, lanes: this.#lanes, clocks: this.#clocks };
  }

  async #barrier(): Promise<Span> {
    const begin = this.#clock.now();
    await this.#group!.barrier();
    return { begin, end: this.#clock.now() };
  }

  #forgetTold(): void {
    this.#waits = [];
    this.#untold = [];
    this.#chunks = { count: 0, sentAt: 0, receivedAt: 0 };
  }

  /**
   * In the second round only: a chunk of the first may lie with a receiver that has not begun, and
   * is no slower for that.
   */
  #count(hops: RecordedTrace['hops']): void {
    for (const { ringStep, sentAt, receivedAt } of hops) {
      if (ringStep < this.#group!.worldSize - 1 || sentAt === null || receivedAt === null) continue;
      this.#chunks.count += 1;
      this.#chunks.sentAt += sentAt;
      this.#chunks.receivedAt += receivedAt;
    }
  }

  /** A browser takes its time to answer: what it says is told with the next exchange. */
  async #lookAtEdge(): Promise<void> {
    const group = this.#group!;
    if (group.worldSize < 2) return;
    const link = await group.describeLink(rightOf(group.rank, group.worldSize)).catch(() => null);
    if (group !== this.#group || link === null) return;
    const { route, roundTripMs, bytesSent, bytesReceived } = link;
    this.#edge = { route, roundTripMs, bytesSent, bytesReceived };
  }
}

/** Mean time of a chunk from `rank` to its right neighbour. */
function transitOf(
  told: readonly Told[],
  clocks: readonly { offsetMs: number }[],
  rank: number,
): EdgeReport['transitMs'] {
  const right = rightOf(rank, told.length);
  const sent = told[rank]!.chunks;
  const received = told[right]!.chunks;
  if (sent === null || received === null) return null;
  const ahead = clocks[right]!.offsetMs - clocks[rank]!.offsetMs;
  return Math.max(0, received.receivedAt - sent.sentAt - ahead);
}
