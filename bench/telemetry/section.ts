/** Telemetry's part of docs/BENCHMARKS.md, and its table. */
import { table } from '../table.ts';
import type { Comparison } from './stretches.ts';

export interface TelemetryResult extends Comparison {
  tabs: number;
  steps: number;
}

/** Steps of a stretch: as many as between two exchanges, so that every stretch that tells has one. */
export const STRETCH = 20;

export function telemetryTable(result: TelemetryResult): string {
  const { toldMs, quietMs, exchangeMs, overhead, interval, pairs, quickOverhead } = result;
  return table(
    ['from one step to the next', 'ms'],
    [
      ['with all telemetry', toldMs.toFixed(2)],
      ['with none', quietMs.toFixed(2)],
      [`an exchange, every ${STRETCH} steps`, exchangeMs.toFixed(2)],
      [`in all more, % (${pairs} pairs)`, (100 * overhead).toFixed(2)],
      ['95 % confidence, %', interval.map((share) => (100 * share).toFixed(2)).join(' .. ')],
      ['the same by the quickest quarter, %', (100 * quickOverhead).toFixed(2)],
    ],
  );
}

export function section(result: TelemetryResult): string {
  return `## What telemetry costs

\`npm run -s bench -- telemetry\`: one run of ${result.tabs} tabs in which stretches of ${STRETCH} steps with all telemetry alternate
with stretches that tell the steps only. Each stretch is compared with its neighbours; the median of these pairs counts.

${telemetryTable(result)}

Noise of the machine limits it: the interval is that of the median, by resampling pairs.
`;
}
