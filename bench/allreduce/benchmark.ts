/**
 * `bench allreduce`: measures all-reduces in real tabs, and compares them with bare data channels
 * that send the same bytes around the same ring. Both are measured alternately in the same tabs.
 */
import { cpus } from 'node:os';
import { Option } from 'commander';
import type { Io } from '../../launcher/io.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { TRANSPORT_NAMES, type TransportName } from '../../src/spec/names.ts';
import { UsageError } from '../../src/util/errors.ts';
import { median } from '../../src/util/statistics.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { listOf, option, worldSizesOption } from '../command/options.ts';
import { table } from '../../tools/report/table.ts';
import { World } from '../world/world.ts';
import type { AllReduceResult } from './allReduce.ts';

interface AllReduceBenchOptions {
  /** World sizes, and sizes of the tensor. */
  tabs: readonly number[];
  bytes: readonly number[];
  transport: TransportName | 'server';
}

interface AllReduceBenchResult extends Pick<AllReduceBenchOptions, 'transport'> {
  rows: AllReduceRow[];
  cores: number;
}

const KIB = 1024;
const BYTES_PER_MB = 1e6;
/** Time budget in milliseconds for each size and kind of measurement. */
const BUDGET_MS = 10_000;
/**
 * All-reduces of each size and kind before the measurement. Meanwhile browsers compile code, and
 * SCTP estimates the line's rate.
 */
const WARM_UP_OPS = 2;

/**
 * @throws (rejects) UsageError for a size that is not a multiple of a float32, PeergradError if a
 *   tab fails.
 */
async function measure(options: AllReduceBenchOptions, io: Io): Promise<AllReduceBenchResult> {
  const { transport, bytes } = options;
  const odd = bytes.find((size) => size % Float32Array.BYTES_PER_ELEMENT !== 0);
  if (odd !== undefined) {
    throw new UsageError(`A float32 tensor cannot have ${odd} bytes. Pass multiples of 4 with --bytes.`);
  }
  return { transport, rows: await measureRings({ ...options, budgetMs: BUDGET_MS }, io), cores: cpus().length };
}

/** @param options `budgetMs`: time budget for each size and kind of measurement. */
export async function measureRings(
  { tabs, bytes, transport, budgetMs }: AllReduceBenchOptions & { budgetMs: number },
  io: Io,
): Promise<AllReduceRow[]> {
  const rows: AllReduceRow[] = [];
  for (const n of tabs) {
    await World.use(n, io, { transport }, async (world) => {
      for (const size of bytes) {
        io.err(`${n} tabs all-reduce ${size} bytes ...`);
        rows.push(await measureSize(world, size, budgetMs));
      }
    });
  }
  return rows;
}

/**
 * Measures all-reduces and bare channels alternately, and reverses their order in every second
 * round. Warm-up rounds determine the number of operations.
 */
async function measureSize(world: World, bytes: number, budgetMs: number): Promise<AllReduceRow> {
  const bare = (ops: number): Promise<{ ms: number[] }[]> => world.run('bareRing', { bytes, ops });
  const ours = (ops: number): Promise<AllReduceResult[]> => world.run('allReduce', { bytes, ops });
  const warm = [...(await bare(WARM_UP_OPS)), ...(await ours(WARM_UP_OPS))];
  const { ops, rounds } = scheduleOf(Math.max(...warm.map(({ ms }) => ms.at(-1)!)), budgetMs);

  const before = await world.serverCpuMs();
  const raw: { ms: number[] }[] = [];
  const results: AllReduceResult[] = [];
  const turns = [async () => raw.push(...(await bare(ops))), async () => results.push(...(await ours(ops)))];
  for (let round = 0; round < rounds; round++) {
    for (const turn of round % 2 === 0 ? turns : turns.toReversed()) await turn();
  }
  const after = await world.serverCpuMs();
  const MB = (rounds * ops * world.size * theoryBytes(world.size, bytes)) / BYTES_PER_MB;
  const serverCpuMsPerMB = before === null ? null : (after! - before) / MB;
  return { ...rowOf({ n: world.size, bytes }, results, raw), serverCpuMsPerMB };
}

/** The result for one world size and tensor size. */
interface AllReduceRow {
  n: number;
  bytes: number;
  /**
   * Median milliseconds of one all-reduce (`medianMs`), and of sending the same bytes around the
   * same ring over bare channels (`rawMedianMs`).
   */
  medianMs: number;
  rawMedianMs: number;
  /** rawMedianMs / medianMs. */
  ratio: number;
  /**
   * Bus bandwidth as in nccl-tests, in MB/s: 2(n-1)/n of the tensor's bytes divided by the time,
   * which is the rate on each rank's line.
   */
  busMBps: number;
  /** Bytes that the busiest rank sends in one all-reduce, headers included. */
  bytesSentPerRank: number;
  /** Number of wrong elements on all ranks. */
  wrong: number;
  /**
   * Processor time of the server for a megabyte of a ring all-reduce; `null` if tabs are not linked
   * through it.
   */
  serverCpuMsPerMB: number | null;
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
  { n, bytes }: Pick<AllReduceRow, 'n' | 'bytes'>,
  ours: readonly AllReduceResult[],
  raw: readonly { ms: number[] }[],
): Omit<AllReduceRow, 'serverCpuMsPerMB'> {
  const medianMs = median(ours.flatMap(({ ms }) => ms));
  const rawMedianMs = median(raw.flatMap(({ ms }) => ms));
  return {
    ...{ n, bytes, medianMs, rawMedianMs, ratio: rawMedianMs / medianMs },
    busMBps: theoryBytes(n, bytes) / medianMs / 1000,
    bytesSentPerRank: Math.max(...ours.map(({ bytesSent }) => bytesSent)),
    wrong: ours.reduce((sum, { wrong }) => sum + wrong, 0),
  };
}

/** Returns a clause for each row with wrong sums. */
function problemsOf({ rows }: AllReduceBenchResult): string[] {
  return rows
    .filter(({ wrong }) => wrong > 0)
    .map(({ n, bytes, wrong }) => `${wrong} elements of a sum of ${bytes} bytes by ${n} tabs`);
}

function tableOf({ rows, transport }: AllReduceBenchResult): string {
  const cpu = transport === 'server' ? ['server CPU, ms/MB'] : [];
  return table(
    ['tensor, bytes', 'n', 'ms', 'bare, ms', 'ratio', 'bus, MB/s', 'sent / theory', ...cpu],
    rows.map((row) => [
      ...[String(row.bytes), String(row.n), row.medianMs.toFixed(1), row.rawMedianMs.toFixed(1), row.ratio.toFixed(2)],
      ...[row.busMBps.toFixed(2), (row.bytesSentPerRank / theoryBytes(row.n, row.bytes)).toFixed(4)],
      ...(row.serverCpuMsPerMB === null ? [] : [row.serverCpuMsPerMB.toFixed(2)]),
    ]),
  );
}

function section(result: AllReduceBenchResult): string {
  const { transport, cores } = result;
  if (transport === 'server') {
    return `## All-reduce through the server

\`npm run -s bench -- allreduce --transport server\`: like \`npm run -s bench -- allreduce\`, on ${cores} cores, but the tabs' workers are linked through a signaling
server only, and the ends of its links encrypt. The server's processor time is divided by the bytes that a ring all-reduce sends in theory.

${tableOf(result)}
`;
  }
  return `## All-reduce

\`npm run -s bench -- allreduce\`: tabs of one browser on ${cores} cores. All-reduces of the process group in the tabs' workers take turns
with bare data channels on their pages, which send the same bytes around the same ring, without sums, headers or worker. Times are medians over all ranks. *ratio* is the bare time divided by peergrad's. The bus bandwidth is defined as in nccl-tests.

${tableOf(result)}
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
    option('--bytes <n,..>', 'sizes of the tensor', listOf(wholeNumber(4, MAX_TENSOR_BYTES)), [
      ...[1, 1024, 16_384].map((kib) => kib * KIB),
    ]),
    new Option('--transport <name>', 'how tabs are linked (auto: by message ports; server: through the server)')
      .choices([...TRANSPORT_NAMES, 'server'])
      .default('webrtc'),
  ],
  measure,
  problemsOf,
  section,
});
