/**
 * Exchanges state hashes, statistics and telemetry between ranks, in one all-gather. Integers below
 * 2^53 are exact in float64.
 */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { EdgeReport } from '../../../protocol/events.ts';
import type { LinkRoute, RankStatistics } from '../../../protocol/runEvents.ts';
import type { StepLane } from '../../../protocol/stepTrace.ts';
import type { Span } from '../../../telemetry/clocks.ts';
import { packLanes, unpackLanes } from '../../../telemetry/stepLane.ts';

const FIELDS = [
  'computeMs',
  'communicateMs',
  'stepMs',
  'gradientBytesSent',
  'gradientBytesReceived',
  'otherBytesSent',
  'memoryBytes',
] as const satisfies readonly (keyof RankStatistics)[];

const ROUTES = ['unknown', 'direct', 'relayed', 'memory'] as const satisfies readonly LinkRoute[];

/** Most steps of which a rank sends times: the newest. */
export const EXCHANGED_STEPS = 16;

/** What a rank sends. Times are on its own clock. */
export interface OwnTelemetry {
  isHidden: boolean;
  waitMs: number;
  right: Omit<EdgeReport, 'transitMs'> | null;
  /**
   * Means over the chunks of second rounds since the last exchange, of which every rank has the
   * same number; `null` without chunks.
   */
  chunks: { sentAt: number; receivedAt: number } | null;
  /** A collective that all ranks have ended, to compare clocks. */
  span: Span;
  lanes: readonly StepLane[];
}

export interface RankReport extends OwnTelemetry {
  hash: string;
  statistics: RankStatistics;
}

/**
 * Resolves with the telemetry of every rank, in rank order.
 *
 * @param hash hash of the state, 16 hexadecimal digits.
 * @param steps most steps that are sent, the same on all ranks.
 */
export async function exchangeTelemetry(
  group: ProcessGroup,
  hash: string,
  statistics: Omit<RankStatistics, 'rank'>,
  own: OwnTelemetry,
  steps: number,
): Promise<RankReport[]> {
  const count = Math.min(steps, EXCHANGED_STEPS);
  const { isHidden, waitMs, right, chunks, span, lanes } = own;
  const mine = Float64Array.from([
    ...[hash.slice(0, HALF), hash.slice(HALF)].map((half) => parseInt(half, 16)),
    ...FIELDS.map((field) => statistics[field]),
    ...[Number(isHidden), waitMs, span.begin, span.end],
    ...[chunks?.sentAt ?? NaN, chunks?.receivedAt ?? NaN],
    ...[right ? ROUTES.indexOf(right.route) : NaN, right?.roundTripMs ?? NaN],
    ...[right?.bytesSent ?? NaN, right?.bytesReceived ?? NaN],
    ...packLanes(lanes, count),
  ]);
  const rows = await group.allGather(mine);
  return rows.map((all, rank) => {
    const halves = all.subarray(0, HALVES);
    const row = all.subarray(HALVES);
    const numbers = [...row.subarray(0, FIELDS.length)] as [number, number, number, number, number, number, number];
    const [computeMs, communicateMs, stepMs, ...bytes] = numbers;
    const [gradientBytesSent, gradientBytesReceived, otherBytesSent, memoryBytes] = bytes;
    const [hidden, wait, begin, end, sentAt, receivedAt, route, roundTripMs, bytesSent, bytesReceived] = [
      ...row.subarray(FIELDS.length, FIELDS.length + OWN_NUMBERS),
    ] as [number, number, number, number, number, number, number, number, number, number];
    return {
      hash: Array.from(halves, (half) => half.toString(16).padStart(HALF, '0')).join(''),
      statistics: {
        rank,
        computeMs,
        communicateMs,
        stepMs,
        gradientBytesSent,
        gradientBytesReceived,
        otherBytesSent,
        memoryBytes,
      },
      isHidden: hidden === 1,
      waitMs: wait,
      right: Number.isNaN(route)
        ? null
        : { route: ROUTES[route]!, roundTripMs: orNull(roundTripMs), bytesSent, bytesReceived },
      chunks: Number.isNaN(sentAt) ? null : { sentAt, receivedAt },
      span: { begin, end },
      lanes: unpackLanes(row.subarray(FIELDS.length + OWN_NUMBERS)),
    };
  });
}

/** Numbers of a hash: two, with half of the hexadecimal digits each. */
const HALVES = 2;
const HALF = 8;
/** Numbers between the statistics and the lanes. */
const OWN_NUMBERS = 10;

function orNull(value: number): number | null {
  return Number.isNaN(value) ? null : value;
}
