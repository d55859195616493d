/** What `bench optimizer` finds. */
import type { OptimizerName } from '../../src/optim/index.ts';
import { table } from '../table.ts';

export interface OptimizerRow {
  parameters: number;
  work: OptimizerName | 'average' | 'hash';
  ms: number;
  /** Nanoseconds a parameter. */
  ns: number;
  /** Times as long as to copy as many bytes as it reads and writes. */
  ratio: number;
}

export interface OptimizerResult {
  node: string;
  rows: OptimizerRow[];
}

export function optimizerTable({ rows }: OptimizerResult): string {
  return table(
    ['work', 'parameters', 'ms', 'ns each', 'times a copy'],
    rows.map(({ work, parameters, ms, ns, ratio }) => [
      ...[work, String(parameters), ms.toFixed(2), ns.toFixed(2), ratio.toFixed(2)],
    ]),
  );
}
