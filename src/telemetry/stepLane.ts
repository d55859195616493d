/**
 * Builds a lane, which is a rank's timeline of a step, from the rank's measurements. Lanes are
 * packed into a few dozen float64 numbers each to send them to other ranks. The functions are pure.
 */
import type { GpuCommands, HopEvent, Segment, StepLane, StepTimes } from '../protocol/stepTrace.ts';
import { SEGMENT_KINDS } from '../spec/names.ts';

/** The trace of a bucket's all-reduce: `OpTrace` of collectives/work.ts. */
interface BucketTrace {
  startedAt: number;
  hops: readonly HopEvent[];
}

interface MeasuredStep {
  step: number;
  startedAt: number;
  ms: StepTimes;
  /** Traces by bucket; `null` if the bucket has no trace. */
  traces: readonly (BucketTrace | null)[];
  /** `null` if the rank does not compute on WebGPU. */
  commands?: GpuCommands | null;
}

/**
 * Maximum number of segments per step that a rank sends to other ranks. In a world of four ranks
 * with one bucket, this is usually enough for all segments.
 */
export const SENT_SEGMENTS = 24;

/**
 * If collectives of a rank overlap, only one of their activities is shown: the kind that comes last
 * in this list. So what the rank itself does is shown rather than its waits.
 */
const PRIORITY = ['exchange', 'wait', 'send', 'reduce'] as const;

/**
 * Returns the lane of a step. Activities of the rank alone are computed from the durations,
 * backwards from the end of the step. Activities with other ranks are computed from the hops.
 */
export function laneOf({ step, startedAt, ms, traces, commands = null }: MeasuredStep): StepLane {
  const { doneAt, readAt } = milestones(ms);
  const computedAt = Math.max(0, readAt - ms.readback);
  const alone = [
    { kind: 'compute', start: Math.max(0, computedAt - ms.compute), end: computedAt },
    { kind: 'readback', start: computedAt, end: readAt },
    { kind: 'update', start: doneAt, end: ms.total },
  ] satisfies Segment[];
  const traced = traces.filter((trace) => trace !== null && trace.hops.length > 0) as BucketTrace[];
  const together: Segment[] =
    traced.length > 0
      ? flatten(traced.map((trace) => hopSegments(trace, startedAt)))
      : [{ kind: 'exchange', start: Math.max(0, doneAt - ms.communicate), end: doneAt }];
  const segments = [...alone, ...together].filter(({ start, end }) => end > start);
  segments.sort((a, b) => a.start - b.start);
  return { step, startedAt, duration: ms.total, segments, ...(commands && { commands }) };
}

/**
 * Returns the milliseconds that the rank waited for another rank while it had no other work.
 */
export function exposedWait({ segments }: StepLane, ms: StepTimes): number {
  const { doneAt, readAt } = milestones(ms);
  return segments.reduce((sum, { kind, start, end }) => {
    return kind === 'wait' ? sum + Math.max(0, Math.min(end, doneAt) - Math.max(start, readAt)) : sum;
  }, 0);
}

/**
 * Returns two times in milliseconds since the step began: `doneAt`, when the last collective was
 * done, and `readAt`, when the last gradient had been read back from the GPU.
 */
function milestones({ total, update, exposed }: StepTimes): { doneAt: number; readAt: number } {
  const doneAt = Math.max(0, total - update);
  return { doneAt, readAt: Math.max(0, doneAt - exposed) };
}

/**
 * Returns the segments of the plan's steps: send, wait for what another rank sends, reduce it. With
 * the ring, the other rank is the left neighbour.
 */
function hopSegments({ startedAt, hops }: BucketTrace, since: number): Segment[] {
  const segments: Segment[] = [];
  let now = startedAt - since;
  const until = (kind: Segment['kind'], end: number): void => {
    if (end > now) segments.push({ kind, start: now, end });
    now = Math.max(now, end);
  };
  for (const { sentAt, receivedAt, reduceMs = 0 } of hops) {
    const reducesAt = receivedAt === null ? Infinity : receivedAt - reduceMs;
    if (sentAt !== null) until('send', Math.min(sentAt, reducesAt) - since);
    if (receivedAt !== null) {
      until('wait', reducesAt - since);
      until('reduce', receivedAt - since);
    }
    // If the other rank was ahead, its chunk arrived while this rank was still sending.
    if (sentAt !== null) until('send', sentAt - since);
  }
  return segments;
}

/** Merges the segments of concurrent buckets into one row. */
function flatten(rows: readonly Segment[][]): Segment[] {
  if (rows.length === 1) return rows[0]!;
  const all = rows.flat();
  const ends = [...new Set(all.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
  const row: Segment[] = [];
  const waiting = all.toSorted((a, b) => a.start - b.start);
  let active: Segment[] = [];
  for (const [i, start] of ends.slice(0, -1).entries()) {
    const end = ends[i + 1]!;
    active = active.filter((one) => one.end > start);
    while (waiting.length > 0 && waiting[0]!.start <= start) active.push(waiting.shift()!);
    const kind = PRIORITY.findLast((one) => active.some((segment) => segment.kind === one));
    if (kind !== undefined) extend(row, { kind, start, end });
  }
  return row;
}

/**
 * Appends `next`, or extends the last segment if it has the same kind and ends where `next` starts.
 */
function extend(row: Segment[], next: Segment): void {
  const last = row.at(-1);
  if (last?.kind === next.kind && last.end === next.start) last.end = next.end;
  else row.push(next);
}

/** Whether a rank does this activity alone. Such activities are in the upper row of its lane. */
function isAlone({ kind }: Pick<Segment, 'kind'>): boolean {
  return kind === 'compute' || kind === 'readback' || kind === 'update';
}

/**
 * Reduces a lane to at most {@link SENT_SEGMENTS} segments. If it has more, the time of activities
 * with other ranks is divided into equal slots. Each slot shows its longest activity.
 */
export function simplify(lane: StepLane): StepLane {
  if (lane.segments.length <= SENT_SEGMENTS) return lane;
  const alone = lane.segments.filter(isAlone);
  const together = lane.segments.filter((one) => !isAlone(one));
  const first = together[0]!.start;
  const slots = SENT_SEGMENTS - alone.length;
  const width = (together.at(-1)!.end - first) / slots;
  const row: Segment[] = [];
  let next = 0;
  for (let slot = 0; slot < slots; slot++) {
    const start = first + slot * width;
    const end = start + width;
    while (next < together.length && together[next]!.end <= start) next++;
    const times = new Map<Segment['kind'], number>();
    for (let i = next; i < together.length && together[i]!.start < end; i++) {
      const one = together[i]!;
      times.set(one.kind, (times.get(one.kind) ?? 0) + Math.min(end, one.end) - Math.max(start, one.start));
    }
    const longest = [...times].sort((a, b) => b[1] - a[1])[0];
    if (longest !== undefined) extend(row, { kind: longest[0], start, end });
  }
  return { ...lane, segments: [...alone, ...row].sort((a, b) => a.start - b.start) };
}

/**
 * Count of numbers in a packed lane: step, start, duration, dispatches, submits, and one number per
 * segment.
 */
export const LANE_NUMBERS = 5 + SENT_SEGMENTS;

/** Resolution of a packed segment, milliseconds. It is finer than browsers' clocks. */
const TICK_MS = 0.01;
/**
 * Largest start or length of a packed segment in ticks: 22 bits, which are 42 s. A float64 exactly
 * holds a start, a length and three bits for the kind.
 */
const MOST_TICKS = 2 ** 22 - 1;
const KINDS = 8;
const NOTHING = -1;

/** Packs the latest `count` lanes, simplified, into {@link LANE_NUMBERS} numbers each. */
export function packLanes(lanes: readonly StepLane[], count: number): number[] {
  const newest = lanes.slice(-count);
  return Array.from({ length: count }, (_, i) => {
    const lane = newest[i];
    if (lane === undefined) return Array.from({ length: LANE_NUMBERS }, () => NOTHING);
    const { step, startedAt, duration, segments, commands } = simplify(lane);
    const packed = Array.from({ length: SENT_SEGMENTS }, (__, j) => {
      const one = segments[j];
      if (one === undefined) return NOTHING;
      const [start, end] = [ticks(one.start), ticks(one.end)];
      return SEGMENT_KINDS.indexOf(one.kind) + KINDS * (start + (MOST_TICKS + 1) * (end - start));
    });
    const { dispatches, submits } = commands ?? { dispatches: NOTHING, submits: NOTHING };
    return [step, startedAt, duration, dispatches, submits, ...packed];
  }).flat();
}

export function unpackLanes(numbers: Float64Array): StepLane[] {
  const lanes: StepLane[] = [];
  for (let at = 0; at < numbers.length; at += LANE_NUMBERS) {
    const [step, startedAt, duration, dispatches, submits, ...packed] = numbers.subarray(at, at + LANE_NUMBERS);
    if (step === NOTHING) continue;
    const segments = packed
      .filter((one) => one !== NOTHING)
      .map((one) => {
        const rest = Math.floor(one / KINDS);
        const start = rest % (MOST_TICKS + 1);
        const end = start + Math.floor(rest / (MOST_TICKS + 1));
        return { kind: SEGMENT_KINDS[one % KINDS]!, start: start * TICK_MS, end: end * TICK_MS };
      });
    const commands = dispatches === NOTHING ? null : { dispatches: dispatches!, submits: submits! };
    lanes.push({ step: step!, startedAt: startedAt!, duration: duration!, segments, ...(commands && { commands }) });
  }
  return lanes;
}

function ticks(ms: number): number {
  return Math.min(MOST_TICKS, Math.max(0, Math.round(ms / TICK_MS)));
}
