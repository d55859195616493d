/** Losses and metrics of jobs. */
import * as v from 'valibot';
import { field, namesOrNullSchema, type FieldProblem } from './fields.ts';

/** Tasks: predicting a class, or predicting an amount. */
export const TASK_NAMES = ['classification', 'regression'] as const;
export type TaskName = (typeof TASK_NAMES)[number];

/** The losses of each task. The first loss is the default. */
const LOSSES = {
  classification: ['cross-entropy'],
  /** Losses of amounts are computed from standardized amounts. The delta of `huber` is 1. */
  regression: ['mean-squared-error', 'mean-absolute-error', 'huber'],
} as const satisfies Record<TaskName, readonly string[]>;

/**
 * The metrics of each task. `top-3` is the share of samples whose class is among the three most
 * likely. `rmse` and `mae` are the root mean squared and the mean absolute error, in the amount's
 * unit. `r2` is the coefficient of determination: the explained share of the amounts' variance. It
 * is below 0 if predicting the mean would be better.
 */
const METRICS = {
  classification: ['accuracy', 'top-3'],
  regression: ['rmse', 'mae', 'r2'],
} as const satisfies Record<TaskName, readonly string[]>;

export const REGRESSION_LOSS_NAMES = LOSSES.regression;
export type RegressionLossName = (typeof REGRESSION_LOSS_NAMES)[number];
export const LOSS_NAMES = [...LOSSES.classification, ...LOSSES.regression] as const;
export const METRIC_NAMES = [...METRICS.classification, ...METRICS.regression] as const;
export type JobLossName = (typeof LOSS_NAMES)[number];
export type MetricName = (typeof METRIC_NAMES)[number];

/** Values of metrics by name, in display order. */
export const MetricValues = v.record(v.picklist(METRIC_NAMES), v.pipe(v.number(), v.finite()));
export type MetricValues = v.InferOutput<typeof MetricValues>;

/** Returns all metrics of an evaluation, with the accuracy first. */
export function metricsWithAccuracy({
  accuracy,
  metrics,
}: {
  accuracy: number | null;
  metrics?: MetricValues | undefined;
}): MetricValues {
  return { ...(accuracy !== null && { accuracy }), ...metrics };
}

/** Returns the names and values of metrics. */
export function metricEntries(metrics: MetricValues): [MetricName, number][] {
  return Object.entries(metrics) as [MetricName, number][];
}

export const LOSS_AND_METRICS_FIELDS = {
  /** The loss function; `null`: the task's default. */
  loss: field(v.nullable(v.picklist(LOSS_NAMES)), null, {
    value: 'name',
    help: 'loss function (default: depends on the task)',
  }),
  /**
   * Metrics of held-out samples; `null`: accuracy for classes, `rmse` for amounts. Accuracy is
   * always reported for classes.
   */
  metrics: field(namesOrNullSchema(METRIC_NAMES, 'name at least one metric, or use null for the default'), null, {
    value: 'names',
    help: `metrics of held-out samples, separated by commas (${METRIC_NAMES.join(', ')}; default: depends on the task)`,
  }),
};

export type LossAndMetrics = {
  readonly [Name in keyof typeof LOSS_AND_METRICS_FIELDS]: Readonly<
    (typeof LOSS_AND_METRICS_FIELDS)[Name]['defaultValue']
  >;
};

export function lossNameOfJob({ loss }: Pick<LossAndMetrics, 'loss'>, task: TaskName): JobLossName {
  return loss ?? LOSSES[task][0];
}

export function metricNamesOfJob({ metrics }: Pick<LossAndMetrics, 'metrics'>, task: TaskName): readonly MetricName[] {
  return metrics ?? [METRICS[task][0]];
}

/**
 * Returns the problem with the first loss or metric that does not fit the task; `null` if all fit.
 */
export function lossOrMetricProblem({ loss, metrics }: LossAndMetrics, task: TaskName): FieldProblem | null {
  const learned = task === 'classification' ? 'this job predicts classes' : 'this job predicts an amount';
  const problemOf = (path: FieldProblem['path'], name: string, fitting: readonly string[]): FieldProblem => ({
    path,
    message: `${name} is for ${task === 'classification' ? 'amounts' : 'classes'}, but ${learned}: choose ${fitting.join(' or ')}`,
  });
  if (loss !== null && !isOneOf(LOSSES[task], loss)) return problemOf(['loss'], loss, LOSSES[task]);
  const at = metrics?.findIndex((name) => !isOneOf(METRICS[task], name)) ?? -1;
  return at === -1 ? null : problemOf(['metrics', at], metrics![at]!, METRICS[task]);
}

function isOneOf(names: readonly string[], name: string): boolean {
  return names.includes(name);
}
