/**
 * Converts a timeline to the trace-event format of Chrome ("Trace Event Format", JSON object form),
 * for https://ui.perfetto.dev. Each rank is a process, with one thread for computation and one for
 * communication. A transfer is an arrow if the times of its sending and its receipt are known.
 * Times are in microseconds. Pure.
 */
import { allReduceSteps, type AllReduceSteps } from '../../collectives/plans/planSteps.ts';
import type { AllReduceTraceRecord } from '../../protocol/stepTrace.ts';
import type { AllReduceName } from '../../spec/algorithms.ts';
import { rowHalfOfSegmentKind, type RanksTimeline } from './timeline.ts';

export interface ChromeTraceEvent {
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
  traceEvents: ChromeTraceEvent[];
  displayTimeUnit: 'ms';
  otherData: Record<string, unknown>;
}

const ALONE = 1;
const TOGETHER = 2;

/** @param traces the known traces of each rank, with times on the clock of the timeline. */
export function createChromeTrace(
  timeline: RanksTimeline,
  traces: ReadonlyMap<number, readonly AllReduceTraceRecord[]> = new Map(),
): ChromeTrace {
  const { rows, errorMs } = timeline;
  const zero = Math.min(...rows.flatMap(({ steps }) => steps.map(({ startedAt }) => startedAt)));
  const us = (at: number): number => Math.round((at - zero) * 1000);
  const names = rows.flatMap(({ rank, name }): ChromeTraceEvent[] => [
    meta('process_name', rank, 0, { name: `rank ${rank} ${name}`.trim() }),
    meta('process_sort_index', rank, 0, { sort_index: rank }),
    meta('thread_name', rank, ALONE, { name: 'compute' }),
    meta('thread_name', rank, TOGETHER, { name: 'communicate' }),
  ]);
  const stretches = rows.flatMap(({ rank, steps }) =>
    steps.flatMap(({ step, startedAt, segments }) =>
      segments.map(({ kind, start, end, pass }): ChromeTraceEvent => ({
        name: pass ? `${kind} ${pass.microBatch}` : kind,
        cat: 'step',
        ph: 'X',
        pid: rank,
        tid: rowHalfOfSegmentKind(kind) === 'alone' ? ALONE : TOGETHER,
        ts: us(startedAt + start),
        dur: us(startedAt + end) - us(startedAt + start),
        args: { step: step + 1, ...pass },
      })),
    ),
  );
  return {
    traceEvents: [...names, ...stretches, ...arrows(traces, rows.length, us)],
    displayTimeUnit: 'ms',
    otherData: { clockErrorMs: errorMs },
  };
}

function meta(name: string, pid: number, tid: number, args: Record<string, unknown>): ChromeTraceEvent {
  return { name, ph: 'M', pid, tid, ts: 0, args };
}

/** Returns the arrows, each from the sending of chunks to their receipt. */
function arrows(
  traces: ReadonlyMap<number, readonly AllReduceTraceRecord[]>,
  n: number,
  us: (at: number) => number,
): ChromeTraceEvent[] {
  const known = new Map<AllReduceName, AllReduceSteps>();
  const stepsOf = (algorithm: AllReduceName): AllReduceSteps => {
    const steps = known.get(algorithm) ?? allReduceSteps(algorithm, n);
    known.set(algorithm, steps);
    return steps;
  };
  return [...traces].flatMap(([rank, own]) =>
    own.flatMap(({ step, bucket, algorithm, hops }) => {
      const times = new Map(hops.map(({ planStep, sentAt }) => [planStep, sentAt]));
      return stepsOf(algorithm).steps.flatMap(({ planStep, transfers }): ChromeTraceEvent[] => {
        const transfer = transfers.find(({ from }) => from === rank);
        const sentAt = times.get(planStep) ?? null;
        if (transfer === undefined || sentAt === null) return [];
        const { to, first, count } = transfer;
        const there = traces.get(to)?.find((one) => one.step === step && one.bucket === bucket);
        const receivedAt = there?.hops.find((one) => one.planStep === planStep)?.receivedAt ?? null;
        if (receivedAt === null) return [];
        const flow = {
          name: count === 1 ? `chunk ${first}` : `chunks ${first} to ${first + count - 1}`,
          cat: 'chunk',
          tid: TOGETHER,
          id: `${step}.${bucket}.${planStep}.${rank}`,
        };
        return [
          { ...flow, ph: 's', pid: rank, ts: us(sentAt) },
          { ...flow, ph: 'f', bp: 'e', pid: to, ts: us(receivedAt) },
        ];
      });
    }),
  );
}
