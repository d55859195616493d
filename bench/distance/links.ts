/** Throughput of a link, and time of an all-reduce, at several distances. */
import { setTimeout } from 'node:timers/promises';
import type { Io } from '../../launcher/io.ts';
import type { IceOptions } from '../../signaling/ice.ts';
import { median } from '../../src/util/statistics.ts';
import { countOverflows } from '../../tools/network/overflows.ts';
import { table } from '../../tools/report/table.ts';
import { World } from '../world/world.ts';
import type { FarApart } from './farApart.ts';

const CONNECTIONS = [1, 2, 4, 'auto'] as const;
type Connections = (typeof CONNECTIONS)[number];

export interface LinkDistanceRow {
  roundTripMs: number;
  loss: number;
  /** Number of connections of each link; `auto`: the link's own choice. */
  connections: Connections;
  /** Throughput of one direction of a link between two tabs. */
  MBps: number;
  /** Milliseconds of an all-reduce by four tabs. */
  allReduceMs: number;
  /**
   * Packets that were lost because this machine was busy, during the transfers and during the
   * all-reduces.
   */
  overflows: { link: number; allReduce: number };
}

const ROUND_TRIPS_MS = [0, 20, 50, 100];
const LOSSES = [0, 0.001];
/**
 * Rate of all lines. Two cores carry it between two tabs. Over faster lines a busy machine reads
 * its sockets too late, and packets are lost that the line has delivered.
 */
const KBIT = 25_000;
/** Frames of 64 KiB: 8 MiB. */
const LINK = { frames: 128, pings: 1 };
const TRANSFERS = 5;
const ALL_REDUCE = { bytes: 4 * 2 ** 20, ops: 3, isInPlace: false };
const TABS = 4;
/** Milliseconds in which links open further connections. */
const OPENING_MS = 3000;

export async function measureLinks({ relay, ice }: FarApart, io: Io): Promise<LinkDistanceRow[]> {
  const rows: LinkDistanceRow[] = [];
  for (const roundTripMs of ROUND_TRIPS_MS) {
    for (const loss of LOSSES) {
      for (const connections of CONNECTIONS) {
        io.err(`${roundTripMs} ms, loss ${loss}, connections: ${connections} ...`);
        relay.setLines({ upKbit: KBIT, downKbit: KBIT, roundTripMs, jitterMs: 0, loss });
        const linkOverflows = countOverflows();
        const MBps = await inWorld(2, connections, ice, rateOf);
        const link = linkOverflows();
        const allReduceOverflows = countOverflows();
        const ranks = await inWorld(TABS, connections, ice, (world) => world.run('allReduce', ALL_REDUCE));
        const slowest = ranks[0]!.ms.map((_, op) => Math.max(...ranks.map(({ ms }) => ms[op]!)));
        const overflows = { link, allReduce: allReduceOverflows() };
        rows.push({ roundTripMs, loss, connections, MBps, allReduceMs: median(slowest), overflows });
        io.err(JSON.stringify(rows.at(-1)));
      }
    }
  }
  return rows;
}

/** Resolves with the median of several transfers, because lost packets stop some for seconds. */
async function rateOf(world: World): Promise<number> {
  const rates: number[] = [];
  for (let i = 0; i < TRANSFERS; i++) rates.push((await world.run('workerLink', LINK))[0]!.MBps);
  return median(rates);
}

/** Opens new connections, because congestion control remembers earlier distances. */
async function inWorld<Result>(
  tabs: number,
  connections: Connections,
  ice: IceOptions,
  use: (world: World) => Promise<Result>,
): Promise<Result> {
  const world = await World.open(tabs, { ice, connections: connections === 'auto' ? null : connections });
  try {
    await setTimeout(OPENING_MS);
    return await use(world);
  } finally {
    await world.close();
  }
}

export function linksTable(rows: readonly LinkDistanceRow[]): string {
  return table(
    ['round trip, ms', 'loss, %', 'connections', 'link, MB/s', 'all-reduce, ms', 'overflows'],
    rows.map(({ roundTripMs, loss, connections, MBps, allReduceMs, overflows }) => [
      ...[String(roundTripMs), (100 * loss).toFixed(1), String(connections), MBps.toFixed(2), allReduceMs.toFixed(0)],
      `${overflows.link} and ${overflows.allReduce}`,
    ]),
  );
}

export const linksText = `A link between two tabs, 8 MiB in one direction (median of ${TRANSFERS}), and an all-reduce of 4 MiB by ${TABS} tabs. All lines have ${KBIT / 1000} Mbit/s
(${(KBIT / 8000).toFixed(1)} MB/s) in both directions. *Overflows* are packets that were lost because this machine was busy, during the transfers and during the all-reduces.`;
