/**
 * `bench distance`: measures a link and an all-reduce in tabs that are as far apart as over the
 * internet (world/farApart.ts).
 */
import { setTimeout } from 'node:timers/promises';
import { ensureBuilt } from '../launcher/build.ts';
import type { Io } from '../launcher/io.ts';
import type { IceOptions } from '../signaling/ice.ts';
import { median } from '../src/util/statistics.ts';
import { countOverflows } from '../tools/network/overflows.ts';
import { table } from '../tools/report/table.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { farApart, type FarApart } from './world/farApart.ts';
import { World } from './world/world.ts';

const CONNECTIONS = [1, 2, 4, 'auto'] as const;
type Connections = (typeof CONNECTIONS)[number];

interface DistanceRow {
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

/** @throws (rejects) PeergradError if coturn is not installed, or a tab fails. */
async function benchDistance({ json }: { json?: true }, io: Io): Promise<void> {
  await ensureBuilt(io);
  const rows = await farApart((network) => measureLinks(network, io));
  io.out(json === undefined ? distanceTable(rows) : JSON.stringify({ rows }));
}

async function measureLinks({ relay, ice }: FarApart, io: Io): Promise<DistanceRow[]> {
  const rows: DistanceRow[] = [];
  for (const roundTripMs of ROUND_TRIPS_MS) {
    for (const loss of LOSSES) {
      io.err(`${roundTripMs} ms, loss ${loss} ...`);
      relay.setLines({ upKbit: KBIT, downKbit: KBIT, roundTripMs, jitterMs: 0, loss });
      const links = await measureTransfers(ice);
      for (const [i, connections] of CONNECTIONS.entries()) {
        const { MBps, overflows: link } = links[i]!;
        const { ms: allReduceMs, overflows: allReduce } = await measureAllReduce(connections, ice);
        rows.push({ roundTripMs, loss, connections, MBps, allReduceMs, overflows: { link, allReduce } });
        io.err(JSON.stringify(rows.at(-1)));
      }
    }
  }
  return rows;
}

/**
 * Resolves with the throughput for each of {@link CONNECTIONS}. Their transfers take turns, so a
 * machine that is busy for a while slows down all of them. Lost packets stop some transfers for
 * seconds, therefore the median counts.
 */
async function measureTransfers(ice: IceOptions): Promise<{ MBps: number; overflows: number }[]> {
  const links = CONNECTIONS.map(() => ({ rates: [] as number[], overflows: 0 }));
  await inWorlds(2, CONNECTIONS, ice, async (worlds) => {
    for (let i = 0; i < TRANSFERS; i++) {
      for (const [j, link] of links.entries()) {
        const overflows = countOverflows();
        const [sender] = await worlds[j]!.run('workerLink', LINK);
        link.rates.push(sender!.MBps);
        link.overflows += overflows();
      }
    }
  });
  return links.map(({ rates, overflows }) => ({ MBps: median(rates), overflows }));
}

async function measureAllReduce(connections: Connections, ice: IceOptions): Promise<{ ms: number; overflows: number }> {
  return await inWorlds(TABS, [connections], ice, async ([world]) => {
    const overflows = countOverflows();
    const ranks = await world!.run('allReduce', ALL_REDUCE);
    const slowest = ranks[0]!.ms.map((_, op) => Math.max(...ranks.map(({ ms }) => ms[op]!)));
    return { ms: median(slowest), overflows: overflows() };
  });
}

/**
 * Opens a world for each of `connections`. All connections are new, because congestion control
 * remembers earlier distances.
 */
async function inWorlds<Result>(
  tabs: number,
  connections: readonly Connections[],
  ice: IceOptions,
  use: (worlds: readonly World[]) => Promise<Result>,
): Promise<Result> {
  const worlds: World[] = [];
  try {
    for (const n of connections) worlds.push(await World.open(tabs, { ice, connections: n === 'auto' ? null : n }));
    await setTimeout(OPENING_MS);
    return await use(worlds);
  } finally {
    await Promise.all(worlds.map((world) => world.close()));
  }
}

function distanceTable(rows: readonly DistanceRow[]): string {
  return table(
    ['round trip, ms', 'loss, %', 'connections', 'link, MB/s', 'all-reduce, ms', 'overflows'],
    rows.map(({ roundTripMs, loss, connections, MBps, allReduceMs, overflows }) => [
      ...[String(roundTripMs), (100 * loss).toFixed(1), String(connections), MBps.toFixed(2), allReduceMs.toFixed(0)],
      `${overflows.link} and ${overflows.allReduce}`,
    ]),
  );
}

export const distance = defineBenchmark({
  name: 'distance',
  description:
    'measure links and all-reduces with 1, 2, 4 and automatic connections, in tabs that are far apart; needs coturn',
  options: [],
  run: benchDistance,
});
