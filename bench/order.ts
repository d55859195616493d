/**
 * `bench order`: measures the gain of a ring order that avoids a slow link. One run trains in real
 * tabs, each on its own host. The link between two ring neighbours is slower than all others, until
 * a rank reports it and the room chooses another order.
 */
import { ensureBuilt } from '../launcher/build.ts';
import type { Io } from '../launcher/io.ts';
import { PeergradError } from '../src/util/errors.ts';
import { median } from '../src/util/statistics.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { hostsOption, mnistOption } from './command/options.ts';
import { table } from '../tools/report/table.ts';
import { trainOnHosts } from './training/trainOnHosts.ts';
import { slowBetween, withHosts } from './world/hosts.ts';

interface OrderBenchOptions {
  /** Folder with MNIST's files. */
  data: string;
  /** Path of the tool that creates test hosts; see `world/hosts.ts`. */
  hosts: string;
  json?: true;
}

/**
 * Four ranks are the smallest ring that can have another order. The slow link is between ranks 1
 * and 2.
 */
const TABS = 4;
const PAIR = [1, 2] as const;
/**
 * Megabits per second. `rest` is far below what tabs of one machine can send, and `between` is a
 * fifth of `rest`.
 */
const RATE = { rest: 20, between: 4 };
const PLAN = { job: 'mnist', model: 'mlp', batchSize: 32, epochs: 100, hashEvery: 5, maxSteps: 120 };
/**
 * Number of measured steps in the new order, and number of first steps of each order that are not
 * measured, because links start slowly.
 */
const ENOUGH = 20;
const WARM_UP = 2;

/** @throws (rejects) PeergradError if a tab fails, or if the order did not change. */
async function benchOrder({ data, hosts: tool, json }: OrderBenchOptions, io: Io): Promise<void> {
  await ensureBuilt(io);
  const result = await withHosts({ tool, count: TABS }, async (hosts, limit): Promise<OrderResult> => {
    const [a, b] = PAIR;
    await limit(`${RATE.rest}mbit`);
    await slowBetween(a, b, { rest: `${RATE.rest}mbit`, between: `${RATE.between}mbit` });
    io.err(
      `${TABS} tabs train with ${RATE.between} Mbit/s between ranks ${a} and ${b}, and ${RATE.rest} Mbit/s elsewhere ...`,
    );
    const before: number[] = [];
    const after: number[] = [];
    let order: string[] | null = null;
    await trainOnHosts({ hosts, data, fields: PLAN, isElastic: true }, io, (event, tab) => {
      if (tab !== 0) return false;
      if (event.type === 'generation' && event.separated !== undefined) order = event.members.map(({ name }) => name);
      if (event.type === 'step') (order === null ? before : after).push(event.ms.total);
      return event.type === 'finished' || after.length >= WARM_UP + ENOUGH;
    });
    if (order === null)
      throw new PeergradError(
        'The order of the ring did not change, because no rank reported the slow link. Run the benchmark again.',
      );
    const [beforeMs, afterMs] = [before, after].map((ms) => median(ms.slice(WARM_UP))) as [number, number];
    return { rate: RATE, order, steps: before.length, beforeMs, afterMs, ratio: beforeMs / afterMs };
  });
  io.out(json === undefined ? orderTable(result) : JSON.stringify(result));
}

interface OrderResult {
  /** Megabits per second: of all lines (`rest`), and between the two neighbours (`between`). */
  rate: { rest: number; between: number };
  /** Names of the tabs (tab-0 to tab-3) in the new order. */
  order: string[];
  /** Number of steps in the first order. */
  steps: number;
  /**
   * Median milliseconds of a step: in the first order (`beforeMs`), and in the new order
   * (`afterMs`).
   */
  beforeMs: number;
  afterMs: number;
  /** beforeMs / afterMs. */
  ratio: number;
}

function orderTable({ order, steps, beforeMs, afterMs, ratio }: OrderResult): string {
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
    `Four tabs train the mlp on MNIST. Each has a browser on its own host, with a line of ${rest} Mbit/s, but between tab-1 and tab-2 the rate is ${between} ` +
      'Mbit/s. Every fifth step, ranks exchange how long chunks take. A rank whose link is slow twice reports the link, and the room then chooses an order in which these two are not ' +
      'neighbours. Times are medians of the steps in each order, in the same run. (`npm run -s bench -- order --data DIR --hosts SCRIPT`)',
    orderTable(result),
    'Another order does not help if the line of one rank is slow to all ranks. With PowerSGD, ranks do not measure how long chunks take, so the order does not change.',
  ].join('\n\n');
}

export const order = defineBenchmark({
  name: 'order',
  description: 'measure the gain of a ring order that avoids a slow link (needs root)',
  options: [mnistOption(), hostsOption().makeOptionMandatory()],
  run: benchOrder,
  section,
});
