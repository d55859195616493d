/**
 * `bench allreduce`: measures all-reduces in real tabs, and compares them with bare data channels
 * that send the same bytes around the same ring. Both are measured alternately in the same tabs.
 * All-reduces through the server are compared with bare WebSockets over a relay.
 * Sizes and columns are those of nccl-tests.
 */
import { cpus } from 'node:os';
import { Option } from 'commander';
import type { Io } from '../../launcher/io.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { TRANSPORT_NAMES, type TransportName } from '../../src/spec/names.ts';
import { UsageError } from '../../src/util/errors.ts';
import { median } from '../../src/util/statistics.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { option, worldSizesOption } from '../command/options.ts';
import { table } from '../../tools/report/table.ts';
import type { RelayUse } from '../world/relays.ts';
import { World } from '../world/world.ts';

interface AllReduceBenchOptions {
  tabs: readonly number[];
  transport: TransportName | 'server';
  bytes?: number;
  json?: true;
}

interface AllReduceBenchResult {
  rows: AllReduceRow[];
  cores: number;
}

const KIB = 1024;
const BYTES_PER_MB = 1e6;
/** Sizes in bytes, like `-b 1K -e 16M -f 4` of nccl-tests. */
const SWEEP = [1, 4, 16, 64, 256, 1024, 4096, 16_384].map((kib) => kib * KIB);
/**
 * Time budget in milliseconds for each kind of measurement: for each size of the sweep, and for a
 * single requested size.
 */
const SWEEP_MS = 4_000;
const SINGLE_MS = 45_000;
/**
 * All-reduces of each size and kind before the measurement. Meanwhile browsers compile code, and
 * SCTP estimates the line's rate.
 */
const WARM_UP_OPS = 2;

/**
 * @throws (rejects) UsageError for a size that is not a multiple of a float32, PeergradError if a
 *   tab fails.
 */
async function benchAllReduce({ tabs, bytes, transport, json }: AllReduceBenchOptions, io: Io): Promise<void> {
  if (bytes !== undefined && bytes % Float32Array.BYTES_PER_ELEMENT !== 0) {
    throw new UsageError(`A float32 tensor cannot have ${bytes} bytes. Pass a multiple of 4 with --bytes.`);
  }
  const rows: AllReduceRow[] = [];
  for (const n of tabs) {
    const world = await World.open(n, { transport });
    try {
      for (const size of bytes === undefined ? SWEEP : [bytes]) {
        io.err(`${n} tabs all-reduce ${size} bytes ...`);
        const places = bytes === undefined ? [true, false] : [true];
        rows.push(...(await measure(world, size, places, bytes === undefined ? SWEEP_MS : SINGLE_MS)));
      }
    } finally {
      await world.close();
    }
  }
  const result: AllReduceBenchResult = { rows, cores: cpus().length };
  if (json === undefined) io.out(tablesOf(rows));
  else io.out(JSON.stringify(bytes !== undefined && rows.length === 1 ? rows[0] : result));
}

type OursResult = { ms: number[]; wrong: number; bytesSent: number };

/**
 * Measures all-reduces and bare channels alternately, and reverses their order in every second
 * round. Warm-up rounds determine the number of operations.
 */
async function measure(
  world: World,
  bytes: number,
  places: readonly boolean[],
  budgetMs: number,
): Promise<AllReduceRow[]> {
  const bare = (ops: number): Promise<{ ms: number[] }[]> =>
    world.run(world.relays === null ? 'bareRing' : 'relayRing', { bytes, ops });
  const ours = (ops: number, isInPlace: boolean): Promise<OursResult[]> =>
    world.run('allReduce', { bytes, ops, isInPlace });

  const warm = [await bare(WARM_UP_OPS)];
  for (const isInPlace of places) warm.push(await ours(WARM_UP_OPS, isInPlace));
  const { ops, rounds } = scheduleOf(Math.max(...warm.flat().map(({ ms }) => ms.at(-1)!)), budgetMs);

  const before = await world.relays?.use();
  const raw: { ms: number[] }[] = [];
  const results = places.map((isInPlace) => ({ isInPlace, all: [] as OursResult[] }));
  const turns = [
    async () => void raw.push(...(await bare(ops))),
    ...results.map(
      ({ isInPlace, all }) =>
        async () =>
          void all.push(...(await ours(ops, isInPlace))),
    ),
  ];
  for (let round = 0; round < rounds; round++) {
    for (const turn of round % 2 === 0 ? turns : turns.toReversed()) await turn();
  }
  const after = await world.relays?.use();
  const MB = (rounds * ops * world.size * theoryBytes(world.size, bytes)) / BYTES_PER_MB;
  const relays = before &&
    after && {
      server: costOf(before.server, after.server, MB * places.length),
      bare: costOf(before.bare, after.bare, MB),
    };
  return results.map(({ isInPlace, all }) => ({
    ...rowOf({ n: world.size, bytes, isInPlace }, all, raw),
    ...(relays && { relays }),
  }));
}

/** Returns what it costs a process to forward `MB` bytes of tensors. */
function costOf(before: RelayUse, { cpuMs, idleRss, peakRss }: RelayUse, MB: number): RelayCost {
  return { cpuMsPerMB: (cpuMs - before.cpuMs) / MB, idleRss, peakRss };
}

/** The result for one world size and tensor size. */
interface AllReduceRow {
  n: number;
  bytes: number;
  isInPlace: boolean;
  /**
   * Median milliseconds of one all-reduce (`medianMs`), and of sending the same bytes around the
   * same ring over bare channels (`rawMedianMs`).
   */
  medianMs: number;
  rawMedianMs: number;
  /** rawMedianMs / medianMs. */
  ratio: number;
  /**
   * Algorithm and bus bandwidth as in nccl-tests, in MB/s. Algorithm bandwidth is the tensor's
   * bytes divided by the time. Bus bandwidth is algorithm bandwidth times 2(n-1)/n, the rate on
   * each rank's line.
   */
  algorithmMBps: number;
  busMBps: number;
  /** Bytes that the busiest rank sends in one all-reduce, headers included. */
  bytesSentPerRank: number;
  /** Number of wrong elements on all ranks. */
  wrong: number;
  /** Costs of the server and of the bare relay, if tabs are linked through the server. */
  relays?: { server: RelayCost; bare: RelayCost };
}

/** Processor time of a process that forwards tensors, and its resident memory in bytes. */
interface RelayCost extends Pick<RelayUse, 'idleRss' | 'peakRss'> {
  cpuMsPerMB: number;
}

/**
 * Returns the number of rounds, and the number of consecutive all-reduces per round, if one
 * all-reduce takes `opMs`. They take about `budgetMs`, or longer if fewer than {@link MIN_ROUNDS}
 * rounds fit.
 */
export function scheduleOf(opMs: number, budgetMs: number): { ops: number; rounds: number } {
  const fitting = budgetMs / opMs;
  const rounds = Math.max(MIN_ROUNDS, Math.min(MAX_ROUNDS, Math.floor(fitting)));
  return { ops: Math.max(1, Math.min(MAX_OPS, Math.floor(fitting / rounds))), rounds };
}

/** With fewer rounds, the median would depend on the machine's other work. */
const MIN_ROUNDS = 3;
/** With this many rounds, the machine's other work affects both kinds equally. */
const MAX_ROUNDS = 20;
/**
 * In-place sums of 8 ranks grow by a factor of 8 per all-reduce: after 20 they still fit into
 * float32.
 */
const MAX_OPS = 20;

/** Returns the bytes that each rank must send in a ring all-reduce: 2(n-1)/n of the tensor. */
export function theoryBytes(n: number, bytes: number): number {
  return (2 * (n - 1) * bytes) / n;
}

export function rowOf(
  { n, bytes, isInPlace }: Pick<AllReduceRow, 'n' | 'bytes' | 'isInPlace'>,
  ours: readonly { ms: number[]; wrong: number; bytesSent: number }[],
  raw: readonly { ms: number[] }[],
): AllReduceRow {
  const medianMs = median(ours.flatMap(({ ms }) => ms));
  const rawMedianMs = median(raw.flatMap(({ ms }) => ms));
  const algorithmMBps = bytes / medianMs / 1000;
  return {
    n,
    bytes,
    isInPlace,
    medianMs,
    rawMedianMs,
    ratio: rawMedianMs / medianMs,
    algorithmMBps,
    busMBps: theoryBytes(n, algorithmMBps),
    bytesSentPerRank: Math.max(...ours.map(({ bytesSent }) => bytesSent)),
    wrong: ours.reduce((sum, { wrong }) => sum + wrong, 0),
  };
}

/** Returns the table of all-reduces, and that of the relays if tabs were linked through them. */
function tablesOf(rows: readonly AllReduceRow[]): string {
  const costs = rows.flatMap(({ n, bytes, isInPlace, relays }) => {
    if (relays === undefined || !isInPlace) return [];
    const { server, bare } = relays;
    return Object.entries({ server, 'bare relay': bare }).map(([name, { cpuMsPerMB, idleRss, peakRss }]) => [
      ...[String(bytes), String(n), name, cpuMsPerMB.toFixed(2)],
      ...[idleRss, peakRss].map((rss) => (rss / BYTES_PER_MB).toFixed(0)),
    ]);
  });
  if (costs.length === 0) return tableOf(rows);
  const header = ['tensor, bytes', 'n', 'process', 'CPU, ms/MB', 'memory without tabs, MB', 'most memory, MB'];
  return `${tableOf(rows)}\n\n${table(header, costs)}`;
}

function tableOf(rows: readonly AllReduceRow[]): string {
  return table(
    [
      'tensor, bytes',
      'n',
      'in place',
      'ms',
      'bare, ms',
      'ratio',
      'algorithm, MB/s',
      'bus, MB/s',
      'sent / theory',
      'wrong',
    ],
    rows.map(
      ({ n, bytes, isInPlace, medianMs, rawMedianMs, ratio, algorithmMBps, busMBps, bytesSentPerRank, wrong }) => [
        ...[
          String(bytes),
          String(n),
          isInPlace ? 'yes' : 'no',
          medianMs.toFixed(1),
          rawMedianMs.toFixed(1),
          ratio.toFixed(2),
        ],
        ...[
          algorithmMBps.toFixed(2),
          busMBps.toFixed(2),
          (bytesSentPerRank / theoryBytes(n, bytes)).toFixed(4),
          String(wrong),
        ],
      ],
    ),
  );
}

/** Sizes in the document, bytes. */
const SHOWN = [1, 1024, 16_384].map((kib) => kib * KIB);

function section({ rows, cores }: AllReduceBenchResult): string {
  if (rows.some(({ relays }) => relays !== undefined)) return servedSection(rows, cores);
  const shown = rows.filter(({ bytes, isInPlace }) => isInPlace && SHOWN.includes(bytes));
  return `## All-reduce

\`npm run -s bench -- allreduce\`: tabs of one browser on ${cores} cores. Two kinds are measured in turn: all-reduces of the process group in the
tabs' workers, and bare data channels on their pages. The bare channels send the same bytes around the same ring, without sums,
headers or worker. Times are medians over all ranks. *ratio* is the bare time divided by peergrad's. Algorithm and bus bandwidth are defined as in nccl-tests.

${tableOf(shown)}
`;
}

function servedSection(rows: readonly AllReduceRow[], cores: number): string {
  return `## All-reduce through the server

\`npm run -s bench -- allreduce --transport server\`: as before, on ${cores} cores, but the tabs' workers are linked through a signaling
server only, and the reference is a bare relay. Its ends are WebSockets in the same workers. It forwards their messages and does
nothing else. The ends of the server's links encrypt. Server and relay are processes of their own. Their processor
time is divided by the bytes that a ring all-reduce sends in theory.

${tablesOf(rows)}
`;
}

/**
 * Maximum size of the tensor in bytes. 8 tabs with larger tensors could fill a machine's memory.
 */
const MAX_TENSOR_BYTES = 2 ** 28;

export const allReduce = defineBenchmark({
  name: 'allreduce',
  description: 'compare all-reduces with bare data channels that send the same bytes around the same ring',
  options: [
    worldSizesOption(),
    option('--bytes <n>', 'size of the tensor in bytes (default: 1 KiB to 16 MiB)', wholeNumber(4, MAX_TENSOR_BYTES)),
    new Option('--transport <name>', 'how tabs are linked (auto: by message ports; server: through the server)')
      .choices([...TRANSPORT_NAMES, 'server'])
      .default('webrtc'),
  ],
  run: benchAllReduce,
  section,
});
