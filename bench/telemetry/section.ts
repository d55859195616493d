/** Telemetry's part of docs/BENCHMARKS.md, and its table. */
import { table } from '../table.ts';
import type { Comparison, CpuComparison } from './stretches.ts';

export interface TelemetryResult extends Comparison {
  tabs: number;
  steps: number;
  /** `null` where the system does not count. */
  cpu: CpuComparison | null;
}

/**
 * Steps of a stretch: as many as between two exchanges, so that every stretch that tells has one.
 */
export const STRETCH = 20;

export function telemetryTable({ cpu, ...clock }: TelemetryResult): string {
  const { exchangeMs, quickOverhead } = clock;
  const both = (ofOne: (one: CpuComparison) => string): string[] => [ofOne(clock), cpu ? ofOne(cpu) : '-'];
  return table(
    ['a step', 'by the clock', 'of all processors'],
    [
      ['with all telemetry, ms', ...both(({ toldMs }) => toldMs.toFixed(2))],
      ['with none, ms', ...both(({ quietMs }) => quietMs.toFixed(2))],
      [`an exchange, every ${STRETCH} steps, ms`, exchangeMs.toFixed(2), cpu ? 'in it' : '-'],
      ['in all more, %', ...both(({ overhead }) => percent(overhead))],
      ['95 % confidence, %', ...both(({ interval }) => interval.map(percent).join(' .. '))],
      ['pairs of stretches', ...both(({ pairs }) => String(pairs))],
      ['the same by the quickest quarter, %', percent(quickOverhead), '-'],
    ],
  );
}

function percent(share: number): string {
  return (100 * share).toFixed(2);
}

export function section(result: TelemetryResult): string {
  return `## What telemetry costs

\`npm run -s bench -- telemetry\`: one run of ${result.tabs} tabs in which stretches of ${STRETCH} steps with all telemetry alternate
with stretches that tell the steps only. Each stretch is compared with its neighbours; the median of these pairs counts. The clock
also counts what else the machine does. What the browsers' processes have computed does not, pages that draw what they are told
included: of that, what is more beside the model's shaders counts, as a share of all. Where all cores are busy, a step takes as much longer.

${telemetryTable(result)}

The interval is that of the median, by resampling pairs.
`;
}
