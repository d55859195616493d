/**
 * `bench order`: the gain of a ring order that avoids a slow link. One run in real tabs, each on
 * its own host; traffic between two neighbours is slower than the rest, until ranks report it and
 * the room chooses another order.
 */
import { ensureBuilt } from '../launcher/build.ts';
import type { Io } from '../launcher/io.ts';
import { PeergradError } from '../src/util/errors.ts';
import { median } from '../src/util/statistics.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { hostsOption, mnistOption } from './command/options.ts';
import { table } from './report/table.ts';
import { trainOnHosts } from './training/trainOnHosts.ts';
import { slowBetween, withHosts } from './world/hosts.ts';

export interface OrderBenchOptions {
  /** Folder with MNIST's files. */
  data: string;
  /** Command that creates hosts; see `world/hosts.ts`. */
  hosts: string;
  json?: true;
}

/** The smallest ring with another order; ranks 1 and 2 have the slow link. */
const TABS = 4;
const PAIR = [1, 2] as const;
/** Megabits per second: far below the throughput of a machine's tabs, and a fifth of that. */
const RATE = { rest: 20, between: 4 };
const PLAN = { job: 'mnist', model: 'mlp', batchSize: 32, epochs: 100, hashEvery: 5, maxSteps: 120 };
/** Steps in the new order that suffice, and steps left out of each order: links start slowly. */
const ENOUGH = 20;
const WARM_UP = 2;

/** @throws (rejects) PeergradError if a tab fails, or if the order did not change. */
export async function benchOrder({ data, hosts: tool, json }: OrderBenchOptions, io: Io): Promise<void> {
  await ensureBuilt(io);
  const result = await withHosts({ tool, count: TABS }, async (hosts, limit): Promise<OrderResult> => {
    const [a, b] = PAIR;
    await limit(`${RATE.rest}mbit`);
    await slowBetween(a, b, { rest: `${RATE.rest}mbit`, between: `${RATE.between}mbit` });
    io.err(`${TABS} tabs train; ${RATE.between} Mbit/s between ranks ${a} and ${b}, otherwise ${RATE.rest} ...`);
    const before: number[] = [];
    const after: number[] = [];
    let order: string[] | null = null;
    await trainOnHosts({ hosts, data, fields: PLAN, isElastic: true }, io, (event, tab) => {
      if (tab !== 0) return false;
      if (event.type === 'generation' && event.separated !== undefined) order = event.members.map(({ name }) => name);
      if (event.type === 'step') (order === null ? before : after).push(event.ms.total);
      return after.length >= WARM_UP + ENOUGH;
    });
    if (order === null)
      throw new PeergradError('The order of the ring did not change: no rank reported the link as slow.');
    const [beforeMs, afterMs] = [before, after].map((ms) => median(ms.slice(WARM_UP))) as [number, number];
    return { rate: RATE, order, steps: before.length, beforeMs, afterMs, ratio: beforeMs / afterMs };
  });
  io.out(json === undefined ? orderTable(result) : JSON.stringify(result));
}

export interface OrderResult {
  /** Megabits per second: of all lines, and between the two. */
  rate: { rest: number; between: number };
  /** Names, tab-0 to tab-3, in the new order. */
  order: string[];
  /** Steps taken in the first order. */
  steps: number;
  /** Median milliseconds of a step in the first order and in the new one. */
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
      'Mbit/s only. Every fifth step ranks exchange how long chunks take; a rank that finds its link slow twice reports it, and the room parts the ' +
      'two. Medians of the steps in both orders of the same run. (`npm run -s bench -- order --data DIR --hosts SCRIPT`)',
    orderTable(result),
    'Limits: with PowerSGD ranks do not know how long chunks take, and a slow line of one rank is slow in every order.',
  ].join('\n\n');
}

export const order = defineBenchmark({
  name: 'order',
  description: 'measure the gain of a ring order that avoids a slow link; needs root',
  options: [mnistOption(), hostsOption().makeOptionMandatory()],
  run: benchOrder,
  section,
});
