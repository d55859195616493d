/** A run's curves as a table for other programs: CSV by RFC 4180. Pure. */
import type { Point, Series } from '../series.ts';
import type { Run, WorldChange } from '../view.ts';

/**
 * A line per step, or per point of the curve where a long run has fewer (the mean of so many steps, at the last of them), and where
 * something was measured or changed. Measured is the share of right answers, of amounts the root of the mean squared error. Steps count
 * from 1; the world size is that after the step.
 */
export function curvesCsv(
  run: Pick<Run, 'losses' | 'evaluations' | 'changes' | 'saves' | 'worldSize'>,
  say: (change: WorldChange) => string,
): string {
  const rows = new Map<number, { at: number; loss?: number; measured?: number; events: string[] }>();
  const rowAt = ({ step, at }: { step: number; at: number }) => {
    const row = rows.get(step) ?? { at, events: [] };
    rows.set(step, row);
    return row;
  };
  for (const point of wholePoints(run.losses)) rowAt(point).loss = point.value;
  const isAmount = run.evaluations.some((one) => one.accuracy === null);
  for (const one of run.evaluations) rowAt(one).measured = one.accuracy ?? one.error ?? NaN;
  for (const one of run.changes) rowAt(one).events.push(say(one));
  for (const one of run.saves) rowAt(one).events.push('checkpoint');
  const lines = [...rows]
    .sort((a, b) => a[0] - b[0])
    .map(([step, { at, loss, measured, events }]) => [
      ...[String(step + 1), (at / 1000).toFixed(3), numberOf(loss), numberOf(measured)],
      ...[String(worldSizeAfter(run, step)), events.join('; ')],
    ]);
  const header = ['step', 'time_s', 'loss', isAmount ? 'error' : 'accuracy', 'world_size', 'event'];
  return [header, ...lines].map((line) => `${line.map(field).join(',')}\r\n`).join('');
}

/** Those of the curve, and the mean of what is left over. */
function wholePoints({ points, pending }: Series): readonly Point[] {
  const last = pending.at(-1);
  if (last === undefined) return points;
  return [...points, { ...last, value: pending.reduce((sum, { value }) => sum + value, 0) / pending.length }];
}

function worldSizeAfter({ changes, worldSize }: Pick<Run, 'changes' | 'worldSize'>, step: number): number {
  return changes.find((one) => one.step > step)?.from ?? changes.findLast((one) => one.step <= step)?.to ?? worldSize;
}

function numberOf(value: number | undefined): string {
  return value === undefined ? '' : String(value);
}

/** In quotes where a comma, a quote or a line's end is in it. */
function field(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
