/**
 * Builds a lane, which is a rank's timeline of a step, from the rank's measurements. Lanes are
 * packed into a few dozen float64 numbers each to send them to other ranks. The functions are pure.
 */
import type {
  StepCommandCounts,
  HopEvent,
  StepSegment,
  StepSegmentKind,
  StepLane,
  StepTimes,
} from '../protocol/stepTrace.ts';
import { STEP_SEGMENT_KINDS } from '../spec/names.ts';

/** The trace of a bucket's all-reduce: `AllReduceTrace` of collectives/work.ts. */
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
  /** In a pipeline: the passes of the step. */
  pipeline?: PipelineStepTimes | undefined;
  /** The commands of the step; `null` if the rank does not compute on WebGPU. */
  commands?: StepCommandCounts | null;
}

/** Times of one step of a pipeline on one rank, by the rank's clock. */
export interface PipelineStepTimes {
  passes: readonly { kind: 'forward' | 'backward'; stage: number; microBatch: number; start: number; end: number }[];
  /** The time at which the gradients of the rank's stages had been averaged over replicas. */
  exchangedAt: number;
}

/**
 * Maximum number of segments per step that a rank sends to other ranks. In a world of four ranks
 * with one bucket, this is usually enough for all segments. See {@link pipelineStepSegmentCount}.
 */
export const MAX_SENT_SEGMENTS = 24;

/**
 * Returns the number of segments per step that ranks of a pipeline send: the passes of the busiest
 * rank, the exchange of gradients, and the update. Waits are not sent, because they follow from
 * these segments.
 */
export function pipelineStepSegmentCount(passes: readonly { length: number }[]): number {
  return Math.max(...passes.map(({ length }) => length)) + 2;
}

/**
 * If collectives of a rank overlap, only one of their activities is shown: the one whose kind comes
 * last in this list. The rank's own work comes after waits, so it is shown instead of them.
 */
const PRIORITY = ['exchange', 'wait', 'send', 'reduce'] as const;

/**
 * Returns the lane of a step. The times of activities that the rank does alone are computed from
 * the durations, backwards from the end of the step. The times of activities with other ranks are
 * computed from the hops.
 */
export function stepLaneOf(measured: MeasuredStep): StepLane {
  const { step, startedAt, ms, pipeline, commands = null } = measured;
  const segments = pipeline ? pipelineStep(startedAt, ms, pipeline) : allReduceStep(measured);
  return { step, startedAt, duration: ms.total, segments, ...(commands && { commands }) };
}

function allReduceStep({ startedAt, ms, traces }: MeasuredStep): StepSegment[] {
  const { doneAt, readAt } = milestones(ms);
  const computedAt = Math.max(0, readAt - ms.readback);
  const alone = [
    { kind: 'data', start: 0, end: ms.data },
    { kind: 'compute', start: Math.max(0, computedAt - ms.compute), end: computedAt },
    { kind: 'readback', start: computedAt, end: readAt },
    { kind: 'update', start: doneAt, end: ms.total },
  ] satisfies StepSegment[];
  const traced = traces.filter((trace) => trace !== null && trace.hops.length > 0) as BucketTrace[];
  const together: StepSegment[] =
    traced.length > 0
      ? flatten(traced.map((trace) => hopSegments(trace, startedAt)))
      : [{ kind: 'exchange', start: Math.max(0, doneAt - ms.communicate), end: doneAt }];
  const segments = [...alone, ...together].filter(({ start, end }) => end > start);
  return segments.sort((a, b) => a.start - b.start);
}

function pipelineStep(startedAt: number, ms: StepTimes, { passes, exchangedAt }: PipelineStepTimes): StepSegment[] {
  const timed = passes.map(({ kind, stage, microBatch, start, end }): StepSegment => {
    return { kind, start: start - startedAt, end: end - startedAt, pass: { stage, microBatch } };
  });
  const { doneAt } = milestones(ms);
  const exchange = { start: timed.at(-1)?.end ?? 0, end: exchangedAt - startedAt };
  // A rank without a stage exchanges nothing.
  const isExchanging = timed.length > 0 && exchange.end > exchange.start;
  return withWaits([
    ...timed,
    ...(isExchanging ? [{ kind: 'exchange' as const, ...exchange }] : []),
    { kind: 'update', start: doneAt, end: ms.total },
  ]);
}

/** Fills the time between the sorted segments of a pipeline's step with waits. */
function withWaits(segments: readonly StepSegment[]): StepSegment[] {
  let now = 0;
  return segments.flatMap((segment): StepSegment[] => {
    const wait = { kind: 'wait' as const, start: now, end: segment.start };
    now = segment.end;
    return wait.end > wait.start ? [wait, segment] : [segment];
  });
}

function isPipelineStep(segments: readonly StepSegment[]): boolean {
  return segments.some(({ pass }) => pass);
}

/**
 * Returns the milliseconds that the rank waited for another rank while it had no other work.
 */
export function exposedWaitMs({ segments }: StepLane, ms: StepTimes): number {
  const { doneAt, readAt } = isPipelineStep(segments) ? { doneAt: ms.total, readAt: 0 } : milestones(ms);
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
function hopSegments({ startedAt, hops }: BucketTrace, since: number): StepSegment[] {
  const segments: StepSegment[] = [];
  let now = startedAt - since;
  const until = (kind: StepSegment['kind'], end: number): void => {
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
    // If the other rank was ahead of this rank, its chunk arrived while this rank was still
    // sending.
    if (sentAt !== null) until('send', sentAt - since);
  }
  return segments;
}

/** Merges the segments of concurrent buckets into one row. */
function flatten(rows: readonly StepSegment[][]): StepSegment[] {
  if (rows.length === 1) return rows[0]!;
  const all = rows.flat();
  const ends = [...new Set(all.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
  const row: StepSegment[] = [];
  const waiting = all.toSorted((a, b) => a.start - b.start);
  let active: StepSegment[] = [];
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
function extend(row: StepSegment[], next: StepSegment): void {
  const last = row.at(-1);
  if (last?.kind === next.kind && last.end === next.start) last.end = next.end;
  else row.push(next);
}

/** Whether a rank does this activity alone. Such activities are in the upper row of its lane. */
function isAlone({ kind }: Pick<StepSegment, 'kind'>): boolean {
  return kind === 'data' || kind === 'compute' || kind === 'readback' || kind === 'update';
}

/**
 * Reduces a lane to at most `most` segments. If it has more, the time of activities with other
 * ranks is divided into equal slots. Each slot shows the kind of activity that takes the longest in
 * it. A pipeline's step loses only its waits, which {@link unpackStepLanes} restores.
 */
export function simplifyLane(lane: StepLane, most: number): StepLane {
  if (isPipelineStep(lane.segments)) return { ...lane, segments: lane.segments.filter(({ kind }) => kind !== 'wait') };
  if (lane.segments.length <= most) return lane;
  const alone = lane.segments.filter(isAlone);
  const together = lane.segments.filter((one) => !isAlone(one));
  const first = together[0]!.start;
  const slots = most - alone.length;
  const width = (together.at(-1)!.end - first) / slots;
  const row: StepSegment[] = [];
  let next = 0;
  for (let slot = 0; slot < slots; slot++) {
    const start = first + slot * width;
    const end = start + width;
    while (next < together.length && together[next]!.end <= start) next++;
    const times = new Map<StepSegment['kind'], number>();
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
 * Returns the count of numbers in a packed lane: step, start, duration, dispatches, submits, and
 * one number per segment.
 */
export function packedLaneLength(segments: number): number {
  return 5 + segments;
}

/**
 * Finest resolution of the times of a packed segment, milliseconds. It is finer than the resolution
 * of browsers' clocks.
 */
const TICK_MS = 0.01;
/**
 * A segment is packed into the 53 bits that a float64 holds exactly. The kind takes 4 bits. In a
 * pass of a pipeline, the stage takes 7 bits, the micro-batch 8, and start and length take 17 each.
 * In other segments, start and length take 22 bits each.
 */
const KINDS = 2 ** 4;
const TICKS = 2 ** 22;
const PASS_TICKS = 2 ** 17;
const STAGES = 2 ** 7;
const NOTHING = -1;

/** Packs the latest `count` lanes, simplified, into {@link packedLaneLength} numbers each. */
export function packStepLanes(lanes: readonly StepLane[], count: number, most: number): number[] {
  const newest = lanes.slice(-count);
  return Array.from({ length: count }, (_, i) => {
    const lane = newest[i];
    if (lane === undefined) return Array.from({ length: packedLaneLength(most) }, () => NOTHING);
    const { step, startedAt, duration, segments, commands } = simplifyLane(lane, most);
    const packed = Array.from({ length: most }, (__, j) => {
      const one = segments[j];
      return one === undefined ? NOTHING : packSegment(one, duration);
    });
    const { dispatches, submits } = commands ?? { dispatches: NOTHING, submits: NOTHING };
    return [step, startedAt, duration, dispatches, submits, ...packed];
  }).flat();
}

export function unpackStepLanes(numbers: Float64Array, most: number): StepLane[] {
  const lanes: StepLane[] = [];
  for (let at = 0; at < numbers.length; at += packedLaneLength(most)) {
    const [step, startedAt, duration, dispatches, submits, ...packed] = numbers.subarray(
      at,
      at + packedLaneLength(most),
    );
    if (step === NOTHING) continue;
    const sent = packed.filter((one) => one !== NOTHING).map((one) => unpackSegment(one, duration!));
    const segments = isPipelineStep(sent) ? withWaits(sent) : sent;
    const commands = dispatches === NOTHING ? null : { dispatches: dispatches!, submits: submits! };
    lanes.push({ step: step!, startedAt: startedAt!, duration: duration!, segments, ...(commands && { commands }) });
  }
  return lanes;
}

function packSegment({ kind, start, end, pass }: StepSegment, duration: number): number {
  const { count, ms } = ticksOf(kind, duration);
  const [from, to] = [start, end].map((time) => Math.min(count - 1, Math.max(0, Math.round(time / ms)))) as [
    number,
    number,
  ];
  const { stage, microBatch } = pass ?? { stage: 0, microBatch: 0 };
  return (
    STEP_SEGMENT_KINDS.indexOf(kind) + KINDS * (from + count * (to - from + count * (stage + STAGES * microBatch)))
  );
}

function unpackSegment(packed: number, duration: number): StepSegment {
  const kind = STEP_SEGMENT_KINDS[packed % KINDS]!;
  const { count, ms } = ticksOf(kind, duration);
  let rest = Math.floor(packed / KINDS);
  const take = (base: number): number => {
    const value = rest % base;
    rest = Math.floor(rest / base);
    return value;
  };
  const start = take(count);
  const end = start + take(count);
  const pass = isPass(kind) && { pass: { stage: take(STAGES), microBatch: rest } };
  return { kind, start: start * ms, end: end * ms, ...pass };
}

/** Returns the ticks of a packed segment: their number, and the length of each. */
function ticksOf(kind: StepSegmentKind, duration: number): { count: number; ms: number } {
  const count = isPass(kind) ? PASS_TICKS : TICKS;
  return { count, ms: Math.max(TICK_MS, duration / (count - 1)) };
}

function isPass(kind: StepSegmentKind): boolean {
  return kind === 'forward' || kind === 'backward';
}
