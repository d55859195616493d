/** What a job makes small as it learns, and what is told of held-out samples beside that. */
import * as v from 'valibot';
import { field, type Problem } from './fields.ts';

/** What is learned of a sample: which class it is, or how large an amount. */
export const TASK_NAMES = ['classification', 'regression'] as const;
export type TaskName = (typeof TASK_NAMES)[number];

/** The first is the usual one. */
const LOSSES = {
  classification: ['cross-entropy'],
  /** Of amounts in their deviations; Huber's with its bend at 1. */
  regression: ['mean-squared-error', 'mean-absolute-error', 'huber'],
} as const satisfies Record<TaskName, readonly string[]>;

/**
 * `top-3`: the share of samples whose class is among the three likeliest. `rmse`, `mae`: root mean
 * squared and mean absolute error, in the amount's unit. `r2`: the share of the amounts' variance
 * that is told, below 0 where their mean would tell more.
 */
const METRICS = {
  classification: ['accuracy', 'top-3'],
  regression: ['rmse', 'mae', 'r2'],
} as const satisfies Record<TaskName, readonly string[]>;

export const AMOUNT_LOSSES = LOSSES.regression;
export type AmountLoss = (typeof AMOUNT_LOSSES)[number];
export const LOSS_NAMES = [...LOSSES.classification, ...LOSSES.regression] as const;
export const METRIC_NAMES = [...METRICS.classification, ...METRICS.regression] as const;
export type LossName = (typeof LOSS_NAMES)[number];
export type MetricName = (typeof METRIC_NAMES)[number];

/** By name, in the order in which they are told. */
export const Metrics = v.record(v.picklist(METRIC_NAMES), v.pipe(v.number(), v.finite()));
export type Metrics = v.InferOutput<typeof Metrics>;

/** All that was told, the accuracy first. */
export function metricsTold({
  accuracy,
  metrics,
}: {
  accuracy: number | null;
  metrics?: Metrics | undefined;
}): Metrics {
  return { ...(accuracy !== null && { accuracy }), ...metrics };
}

/** Names and values of all that was told. */
export function metricEntries(metrics: Metrics): [MetricName, number][] {
  return Object.entries(metrics) as [MetricName, number][];
}

/** The fields of a job that say how it is measured. */
export const MEASURE_FIELDS = {
  /** `null`: as what is learned has it. */
  loss: field(v.nullable(v.picklist(LOSS_NAMES)), null, {
    value: 'name',
    help: 'loss function (default: depends on the task)',
  }),
  /**
   * `null`: the accuracy of classes, the `rmse` of amounts. Accuracy is told of classes in any
   * case.
   */
  metrics: field(
    v.nullable(
      v.pipe(
        v.array(v.picklist(METRIC_NAMES)),
        v.minLength(1, 'name one at least, or take null for the usual'),
        v.checkItems((name, at, all) => all.indexOf(name) === at, 'this is there twice: leave one out'),
      ),
    ),
    null,
    {
      value: 'names',
      help: `metrics of held-out samples, separated by commas (${METRIC_NAMES.join(', ')}; default: depends on the task)`,
    },
  ),
};

export type Measures = {
  readonly [Name in keyof typeof MEASURE_FIELDS]: Readonly<(typeof MEASURE_FIELDS)[Name]['defaultValue']>;
};

/** Of a job that learns `task`, the loss. */
export function lossOf({ loss }: Pick<Measures, 'loss'>, task: TaskName): LossName {
  return loss ?? LOSSES[task][0];
}

/** Of a job that learns `task`, what is told. */
export function metricsOf({ metrics }: Pick<Measures, 'metrics'>, task: TaskName): readonly MetricName[] {
  return metrics ?? [METRICS[task][0]];
}

/** The first of what a job asks for that is not for what it learns. */
export function unfitMeasure({ loss, metrics }: Measures, task: TaskName): Problem | null {
  const learned = task === 'classification' ? 'classes are learned here' : 'an amount is learned here';
  const problemOf = (path: Problem['path'], name: string, fitting: readonly string[]): Problem => ({
    path,
    message: `${name} is for ${task === 'classification' ? 'amounts' : 'classes'}, and ${learned}: take ${fitting.join(' or ')}`,
  });
  if (loss !== null && !isOneOf(LOSSES[task], loss)) return problemOf(['loss'], loss, LOSSES[task]);
  const at = metrics?.findIndex((name) => !isOneOf(METRICS[task], name)) ?? -1;
  return at === -1 ? null : problemOf(['metrics', at], metrics![at]!, METRICS[task]);
}

function isOneOf(names: readonly string[], name: string): boolean {
  return names.includes(name);
}
