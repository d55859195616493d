/**
 * State of the progress of a run: steps, evaluations, samples of text, checkpoints, and the result.
 */
import type { ConfusionMatrix } from '../../protocol/confusion.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { EventOf } from '../../protocol/events.ts';
import { metricsWithAccuracy, type MetricValues } from '../../spec/measures.ts';
import { appendToCurve, emptyCurveSeries, type CurveSeries } from './series.ts';

export type StepView = Omit<EventOf<'step'>, 'type'>;

export type TextSampleView = Omit<EventOf<'sample'>, 'type'>;

export interface EvaluationView {
  step: number;
  at: number;
  loss: number;
  /** Metrics other than the loss. There is at least one. */
  metrics: MetricValues;
  samples: number;
}

export interface RunProgressView {
  losses: CurveSeries;
  /** The first step that this tab took part in. */
  firstStep: number | null;
  last: StepView | null;
  /**
   * The latest steps of this generation, newest last. Steps of other generations are not included,
   * because the times of steps depend on the ranks of a generation.
   */
  recent: readonly StepView[];
  /** Checkpoints that this tab has saved, newest last. */
  saves: readonly { step: number; at: number }[];
  /**
   * The time of the run, in milliseconds, at which the engine began to count from 0. At first, this
   * is 0. When the GPU is lost, the engine counts from 0 again, and this becomes the time of the
   * latest step.
   */
  since: number;
  evaluations: readonly EvaluationView[];
  /** Confusion matrix of the latest evaluation of all held-out samples, which was after `step`. */
  confusion: (ConfusionMatrix & { step: number }) | null;
  /** Texts that a language model wrote, newest last. */
  samples: readonly TextSampleView[];
  result: RunResult | null;
}

export const initialRunProgressView: RunProgressView = {
  losses: emptyCurveSeries,
  firstStep: null,
  last: null,
  recent: [],
  saves: [],
  since: 0,
  evaluations: [],
  confusion: null,
  samples: [],
  result: null,
};

/**
 * The number of steps from which rates are computed. It is large enough for steady rates, and small
 * enough to follow a change.
 */
export const RECENT_STEP_COUNT = 40;
/** The largest number of stored evaluations. If there are more, every second one is dropped. */
const MAX_EVALUATIONS = 1000;
/** The number of checkpoints that are stored as marks of a chart. */
const MAX_SAVES = 50;

export type RunProgressEvent = EventOf<'step' | 'evaluation' | 'confusion' | 'sample' | 'saved' | 'finished'>;

export function reduceRunProgress(progress: RunProgressView, event: RunProgressEvent): Partial<RunProgressView> {
  switch (event.type) {
    case 'step':
      return withStep(progress, event);
    case 'evaluation':
      return withEvaluation(progress, event);
    case 'confusion': {
      const { type: _, ...confusion } = event;
      return { confusion };
    }
    case 'sample': {
      const { type: _, ...sample } = event;
      return { samples: [...progress.samples.filter(({ steps }) => steps < sample.steps), sample] };
    }
    case 'saved': {
      const save = { step: event.step - 1, at: progress.last?.at ?? 0 };
      return { saves: [...progress.saves, save].slice(-MAX_SAVES) };
    }
    case 'finished':
      return { result: event.result };
    default:
      return event satisfies never;
  }
}

function withStep(progress: RunProgressView, event: EventOf<'step'>): Partial<RunProgressView> {
  const { step, epoch, offset, loss, samples, ms } = event;
  const { last, evaluations, confusion } = progress;
  const since = last !== null && progress.since + event.at < last.at ? last.at : progress.since;
  const newest = { step, epoch, offset, loss, samples, ms, at: since + event.at };
  const earlier = progress.recent.filter((one) => one.step < step).slice(1 - RECENT_STEP_COUNT);
  return {
    since,
    firstStep: progress.firstStep ?? step,
    losses: appendToCurve(progress.losses, { step, at: newest.at, value: loss }),
    last: newest,
    recent: [...earlier, newest],
    // If a run restarts from an earlier step, the steps after that step are evaluated again.
    evaluations: evaluations.some((one) => one.step > step)
      ? evaluations.filter((one) => one.step <= step)
      : evaluations,
    confusion: confusion !== null && confusion.step > step ? null : confusion,
  };
}

function withEvaluation(progress: RunProgressView, event: EventOf<'evaluation'>): Partial<RunProgressView> {
  const { step, loss, samples } = event;
  const metrics = metricsWithAccuracy(event);
  if (Object.keys(metrics).length === 0) return {};
  const at = progress.last?.at ?? 0;
  const all = [...progress.evaluations.filter((one) => one.step < step), { step, at, loss, metrics, samples }];
  const evaluations = all.length <= MAX_EVALUATIONS ? all : all.filter((_, i) => i % 2 === 1 || i === all.length - 1);
  return { evaluations };
}
