/** What `bench order` finds, as a table, and its part of docs/BENCHMARKS.md. */
import { table } from '../table.ts';

export interface OrderResult {
  /** Megabits a second: of lines, and between the two. */
  rate: { rest: number; between: number };
  /** Names, tab-0 to tab-3, in the order that was chosen. */
  order: string[];
  /** Taken in the first order. */
  steps: number;
  /** Of a step, medians, in the first order and in the other. */
  beforeMs: number;
  afterMs: number;
  /** beforeMs / afterMs. */
  ratio: number;
}

export function orderTable({ order, steps, beforeMs, afterMs, ratio }: OrderResult): string {
  const names = order.toSorted();
  return table(
    ['order', 'step, ms', 'times as fast'],
    [
      [`${names.join(', ')}, for ${steps} steps`, beforeMs.toFixed(0), '1.00'],
      [order.join(', '), afterMs.toFixed(0), ratio.toFixed(2)],
    ],
  );
}

export function section(result: OrderResult): string {
  const { rest, between } = result.rate;
  return [
    '## A ring with one slow link',
    `Four tabs, each in a browser on a host of its own, on lines of ${rest} Mbit/s, train the mlp on MNIST; between tab-1 and tab-2 go ${between} ` +
      'Mbit/s only. Every fifth step ranks tell each other what chunks take; who finds its link slow twice says so, and the room parts the ' +
      'two. Medians of the steps in both orders of the same run. (`npm run -s bench -- order --data DIR --hosts SCRIPT`)',
    orderTable(result),
    'What limits it: with PowerSGD ranks do not know what chunks take, and a slow line of one rank is slow in every order.',
  ].join('\n\n');
}
