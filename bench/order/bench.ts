/**
 * `bench order`: what it saves that ranks whose link holds up the ring are parted. One run in real
 * tabs, each on a host of its own; what goes between two neighbours is slower than the rest, until
 * ranks have found that out and the room has chosen another order.
 */
import { ensureBuilt } from '../../launcher/build.ts';
import type { Io } from '../../launcher/io.ts';
import { median } from '../../src/util/statistics.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { trainOnHosts } from '../trainOnHosts.ts';
import { slowBetween, withHosts } from '../world/hosts.ts';
import { orderTable, type OrderResult } from './section.ts';

export interface OrderBenchOptions {
  /** MNIST's files. */
  data: string;
  /** A script as in `world/hosts.ts`. */
  hosts: string;
  json?: true;
}

/** The smallest ring with another order; ranks 1 and 2 have the slow link. */
const TABS = 4;
const PAIR = [1, 2] as const;
/** Megabits a second: far below what a machine's tabs move together, and a fifth of that. */
const RATE = { rest: 20, between: 4 };
const PLAN = { job: 'mnist', model: 'mlp', batchSize: 32, epochs: 100, hashEvery: 5, maxSteps: 120 };
/**
 * Steps in the new order that are enough, and those left out of each order: links get up to speed.
 */
const ENOUGH = 20;
const WARM_UP = 2;

/** @throws (rejects) PeergradError where a tab fails, or nobody was parted. */
export async function benchOrder({ data, hosts: tool, json }: OrderBenchOptions, io: Io): Promise<void> {
  await ensureBuilt(io);
  const result = await withHosts({ tool, count: TABS }, async (hosts, limit): Promise<OrderResult> => {
    const [a, b] = PAIR;
    await limit(`${RATE.rest}mbit`);
    await slowBetween(a, b, { rest: `${RATE.rest}mbit`, between: `${RATE.between}mbit` });
    io.err(`${TABS} tabs train, ${RATE.between} Mbit/s between ranks ${a} and ${b}, else ${RATE.rest} ...`);
    const before: number[] = [];
    const after: number[] = [];
    let order: string[] | null = null;
    await trainOnHosts({ hosts, data, fields: PLAN, isElastic: true }, io, (event, tab) => {
      if (tab !== 0) return false;
      if (event.type === 'generation' && event.parted !== undefined) order = event.members.map(({ name }) => name);
      if (event.type === 'step') (order === null ? before : after).push(event.ms.total);
      return after.length >= WARM_UP + ENOUGH;
    });
    if (order === null) throw new PeergradError('Nobody was parted: the link was not found slow.');
    const [beforeMs, afterMs] = [before, after].map((ms) => median(ms.slice(WARM_UP))) as [number, number];
    return { rate: RATE, order, steps: before.length, beforeMs, afterMs, ratio: beforeMs / afterMs };
  });
  io.out(json === undefined ? orderTable(result) : JSON.stringify(result));
}
