/** Converts the curves of a run to CSV (RFC 4180); pure. */
import { METRIC_NAMES, type MetricValues } from '../../spec/measures.ts';
import type { CurvePoint, CurveSeries } from '../state/series.ts';
import type { RunView, WorldChange } from '../state/run.ts';

/**
 * Returns a table with a column for each metric. There is one line for each step with at least one
 * of these: a loss, an evaluation, a checkpoint, a change of the world. In a long run, a loss is
 * the mean of several steps, and is in the line of the last of these steps. Steps are counted from
 * 1. The world size is the size after the step.
 */
export function writeCurvesCsv(
  run: Pick<RunView, 'losses' | 'evaluations' | 'changes' | 'saves' | 'worldSize'>,
  describe: (change: WorldChange) => string,
): string {
  const rows = new Map<number, { at: number; loss?: number; metrics?: MetricValues; events: string[] }>();
  const rowAt = ({ step, at }: { step: number; at: number }) => {
    const row = rows.get(step) ?? { at, events: [] };
    rows.set(step, row);
    return row;
  };
  for (const point of wholePoints(run.losses)) rowAt(point).loss = point.value;
  for (const one of run.evaluations) rowAt(one).metrics = one.metrics;
  const names = METRIC_NAMES.filter((name) => run.evaluations.some(({ metrics }) => metrics[name] !== undefined));
  // Without measured metrics, the table still has a column for one metric: accuracy.
  if (names.length === 0) names.push('accuracy');
  for (const one of run.changes) rowAt(one).events.push(describe(one));
  for (const one of run.saves) rowAt(one).events.push('checkpoint');
  const lines = [...rows]
    .sort((a, b) => a[0] - b[0])
    .map(([step, { at, loss, metrics, events }]) => [
      ...[String(step + 1), (at / 1000).toFixed(3), numberOf(loss), ...names.map((name) => numberOf(metrics?.[name]))],
      ...[String(worldSizeAfter(run, step)), events.join('; ')],
    ]);
  const header = ['step', 'time_s', 'loss', ...names, 'world_size', 'event'];
  return [header, ...lines].map((line) => `${line.map(field).join(',')}\r\n`).join('');
}

/**
 * Returns the points of the curve. If the latest samples are not in a point yet, their mean is one
 * more point.
 */
function wholePoints({ points, pending }: CurveSeries): readonly CurvePoint[] {
  const last = pending.at(-1);
  if (last === undefined) return points;
  return [...points, { ...last, value: pending.reduce((sum, { value }) => sum + value, 0) / pending.length }];
}

function worldSizeAfter({ changes, worldSize }: Pick<RunView, 'changes' | 'worldSize'>, step: number): number {
  return changes.find((one) => one.step > step)?.from ?? changes.findLast((one) => one.step <= step)?.to ?? worldSize;
}

function numberOf(value: number | undefined): string {
  return value === undefined ? '' : String(value);
}

/** Quotes a text if it contains a comma, a quote or a line break. */
function field(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
