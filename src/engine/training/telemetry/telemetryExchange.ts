/**
 * Exchanges state hashes, statistics and telemetry between ranks, in one all-gather of float64
 * numbers. Float64 represents integers below 2^53 exactly.
 */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { RightLinkReport } from '../../../protocol/events.ts';
import { LINK_ROUTES, type RankStatistics } from '../../../protocol/runEvents.ts';
import type { StepLane } from '../../../protocol/stepTrace.ts';
import type { CollectiveSpan } from '../../../telemetry/clocks.ts';
import { packStepLanes, unpackStepLanes } from '../../../telemetry/stepLane.ts';

const FIELDS = [
  'dataMs',
  'computeMs',
  'communicateMs',
  'stepMs',
  'gradientBytesSent',
  'gradientBytesReceived',
  'otherBytesSent',
  'memoryBytes',
] as const satisfies readonly (keyof RankStatistics)[];
type Fields = Record<(typeof FIELDS)[number], number>;

/** The largest number of steps whose times a rank sends. If there are more, the latest are sent. */
export const MAX_TELEMETRY_STEPS = 16;
/**
 * The largest number of time segments of steps that a rank sends, unless one step alone has more.
 * It is enough for 16 steps in a pipeline of four stages.
 */
const EXCHANGED_SEGMENTS = 1024;

/** Limits of what is sent. They must be the same on all ranks. */
interface SentLanes {
  /** The largest number of steps whose times are sent. */
  steps: number;
  /** The largest number of time segments of each step. */
  segments: number;
}

/** The telemetry that a rank sends. Times are measured by that rank's clock. */
export interface OwnTelemetry {
  isHidden: boolean;
  waitMs: number;
  right: Omit<RightLinkReport, 'transitMs'> | null;
  /**
   * The mean time at which this rank sent a chunk, and the mean time at which it received a chunk.
   * The means are over the chunks of all-gather phases since the previous exchange. Every rank has
   * the same number of these chunks. `null` if there are none.
   */
  chunks: { sentAt: number; receivedAt: number } | null;
  /** Begin and end of a collective that all ranks have completed, to compare clocks. */
  span: CollectiveSpan;
  lanes: readonly StepLane[];
}

export interface RankTelemetryReport extends OwnTelemetry {
  hash: string;
  statistics: RankStatistics;
}

/**
 * Sends this rank's telemetry, and resolves with the telemetry of every rank, in rank order.
 *
 * @param hash the hash of the state, with 16 hexadecimal digits.
 */
export async function exchangeTelemetry(
  group: ProcessGroup,
  hash: string,
  statistics: Omit<RankStatistics, 'rank'>,
  own: OwnTelemetry,
  { steps, segments }: SentLanes,
): Promise<RankTelemetryReport[]> {
  const count = Math.min(steps, MAX_TELEMETRY_STEPS, Math.max(1, Math.floor(EXCHANGED_SEGMENTS / segments)));
  const { isHidden, waitMs, right, chunks, span, lanes } = own;
  const mine = Float64Array.from([
    ...[hash.slice(0, HALF), hash.slice(HALF)].map((half) => parseInt(half, 16)),
    ...FIELDS.map((field) => statistics[field]),
    ...[statistics.commands?.dispatches ?? NaN, statistics.commands?.submits ?? NaN],
    ...[Number(isHidden), waitMs, span.begin, span.end],
    ...[chunks?.sentAt ?? NaN, chunks?.receivedAt ?? NaN],
    ...[right ? LINK_ROUTES.indexOf(right.route) : NaN, right?.roundTripMs ?? NaN, right?.connections ?? NaN],
    ...[right?.bytesSent ?? NaN, right?.bytesReceived ?? NaN],
    ...packStepLanes(lanes, count, segments),
  ]);
  const rows = await group.allGather(mine);
  return rows.map((all, rank) => {
    const halves = all.subarray(0, HALVES);
    const fields = Object.fromEntries(FIELDS.map((field, i) => [field, all[HALVES + i]!])) as Fields;
    const [dispatches, submits, ...row] = all.subarray(HALVES + FIELDS.length);
    const [hidden, wait, begin, end, sentAt, receivedAt, route, roundTripMs, connections, bytesSent, bytesReceived] =
      row as OwnNumbers;
    return {
      hash: Array.from(halves, (half) => half.toString(16).padStart(HALF, '0')).join(''),
      statistics: {
        rank,
        ...fields,
        ...(!Number.isNaN(dispatches) && { commands: { dispatches: dispatches!, submits: submits! } }),
      },
      isHidden: hidden === 1,
      waitMs: wait,
      right: Number.isNaN(route)
        ? null
        : { route: LINK_ROUTES[route]!, roundTripMs: orNull(roundTripMs), connections, bytesSent, bytesReceived },
      chunks: Number.isNaN(sentAt) ? null : { sentAt, receivedAt },
      span: { begin, end },
      lanes: unpackStepLanes(Float64Array.from(row.slice(OWN_NUMBERS)), segments),
    };
  });
}

/** A hash is sent as two numbers. Each contains half of the hexadecimal digits. */
const HALVES = 2;
const HALF = 8;
/** The count of numbers in a rank's message after the commands and before the lanes. */
const OWN_NUMBERS = 11;
type OwnNumbers = [number, number, number, number, number, number, number, number, number, number, number, ...number[]];

function orNull(value: number): number | null {
  return Number.isNaN(value) ? null : value;
}
