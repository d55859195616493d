/**
 * Converts a timeline to the trace-event format of Chrome ("Trace Event Format", JSON object form),
 * for https://ui.perfetto.dev. Each rank is a process, with one thread for computation and one for
 * communication. Each chunk whose sending and receipt are known is an arrow. Times are in
 * microseconds. Pure.
 */
import { rightOf } from '../../collectives/plans/ringPlan.ts';
import type { RecordedTrace } from '../../protocol/stepTrace.ts';
import { rowOf, type Timeline } from './timeline.ts';

export interface TraceEvent {
  name: string;
  /**
   * The type of the event: `X` is a segment, `M` is a name, `s` and `f` are the start and the end
   * of an arrow.
   */
  ph: 'X' | 'M' | 's' | 'f';
  pid: number;
  tid: number;
  ts: number;
  dur?: number;
  cat?: string;
  id?: string;
  bp?: 'e';
  args?: Record<string, unknown>;
}

export interface ChromeTrace {
  traceEvents: TraceEvent[];
  displayTimeUnit: 'ms';
  otherData: Record<string, unknown>;
}

const ALONE = 1;
const TOGETHER = 2;

/** @param traces the known traces of each rank, with times on the clock of the timeline. */
export function chromeTrace(
  timeline: Timeline,
  traces: ReadonlyMap<number, readonly RecordedTrace[]> = new Map(),
): ChromeTrace {
  const { rows, errorMs } = timeline;
  const zero = Math.min(...rows.flatMap(({ steps }) => steps.map(({ startedAt }) => startedAt)));
  const us = (at: number): number => Math.round((at - zero) * 1000);
  const names = rows.flatMap(({ rank, name }): TraceEvent[] => [
    meta('process_name', rank, 0, { name: `rank ${rank} ${name}`.trim() }),
    meta('process_sort_index', rank, 0, { sort_index: rank }),
    meta('thread_name', rank, ALONE, { name: 'compute' }),
    meta('thread_name', rank, TOGETHER, { name: 'communicate' }),
  ]);
  const stretches = rows.flatMap(({ rank, steps }) =>
    steps.flatMap(({ step, startedAt, segments }) =>
      segments.map(({ kind, start, end }): TraceEvent => ({
        name: kind,
        cat: 'step',
        ph: 'X',
        pid: rank,
        tid: rowOf(kind) === 'alone' ? ALONE : TOGETHER,
        ts: us(startedAt + start),
        dur: us(startedAt + end) - us(startedAt + start),
        args: { step: step + 1 },
      })),
    ),
  );
  return {
    traceEvents: [...names, ...stretches, ...arrows(traces, rows.length, us)],
    displayTimeUnit: 'ms',
    otherData: { clockErrorMs: errorMs },
  };
}

function meta(name: string, pid: number, tid: number, args: Record<string, unknown>): TraceEvent {
  return { name, ph: 'M', pid, tid, ts: 0, args };
}

/** Returns the arrows, each from the sending of a chunk to its receipt. */
function arrows(
  traces: ReadonlyMap<number, readonly RecordedTrace[]>,
  n: number,
  us: (at: number) => number,
): TraceEvent[] {
  return [...traces].flatMap(([rank, own]) => {
    const right = rightOf(rank, n);
    return own.flatMap(({ step, bucket, hops }) => {
      const there = traces.get(right)?.find((one) => one.step === step && one.bucket === bucket);
      return hops.flatMap(({ ringStep, sentChunk, sentAt }): TraceEvent[] => {
        const receivedAt = there?.hops.find((one) => one.ringStep === ringStep)?.receivedAt ?? null;
        if (sentAt === null || receivedAt === null || right === rank) return [];
        const flow = {
          name: `chunk ${sentChunk}`,
          cat: 'chunk',
          tid: TOGETHER,
          id: `${step}.${bucket}.${ringStep}.${rank}`,
        };
        return [
          { ...flow, ph: 's', pid: rank, ts: us(sentAt) },
          { ...flow, ph: 'f', bp: 'e', pid: right, ts: us(receivedAt) },
        ];
      });
    });
  });
}
