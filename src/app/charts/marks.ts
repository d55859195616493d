/** Describes the marks on the curves of a run in words; pure. */
import type { RunView, WorldChange } from '../state/run.ts';
import { uiMessages } from '../locales/index.ts';
import type { XAxisUnit } from './axis.ts';
import type { ChartMark } from './Chart.tsx';

export interface ChartMarkPosition {
  step: number;
  at: number;
}

/**
 * Returns the position of a mark on the x axis: the number of its step, counted from 1, or its time
 * in seconds.
 */
export function xOfChartMark(axis: XAxisUnit, place: ChartMarkPosition): number {
  return axis === 'step' ? place.step + 1 : place.at / 1000;
}

/** If more members than this joined, returned or left, the text shows only their number. */
const MOST_NAMES = 2;

/** Returns the text of a change: `ada joined`, `ben left, ada is back`, `6 joined`. */
export function describeWorldChange({ joined, returned, left, from, to }: WorldChange): string {
  const { charts } = uiMessages.value;
  const parts = [
    { names: joined, describe: charts.joined },
    { names: returned, describe: charts.returned },
    { names: left, describe: charts.left },
  ].flatMap(({ names, describe }) => {
    if (names.length === 0) return [];
    return [describe(names.length <= MOST_NAMES ? charts.list(names) : String(names.length))];
  });
  return parts.length > 0 ? parts.join(', ') : charts.ranks(from, to);
}

/** Returns the marks, sorted by x. */
export function chartMarksOfRun({ changes, saves }: Pick<RunView, 'changes' | 'saves'>, axis: XAxisUnit): ChartMark[] {
  return [
    ...changes.map((one) => ({ x: xOfChartMark(axis, one), label: describeWorldChange(one) })),
    ...saves.map((one) => ({ x: xOfChartMark(axis, one), label: null })),
  ].sort((a, b) => a.x - b.x);
}
