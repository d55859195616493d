/**
 * `bench distribution`: measures how long it takes to distribute a file of rank 0 to all tabs. In
 * the same tabs, bare data channels send as many bytes in two ways: around the ring as in an
 * all-reduce, and along the path of the file.
 */
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import { MAX_SHARED_BYTES } from '../src/spec/fileManifest.ts';
import { PeergradError } from '../src/util/errors.ts';
import { median } from '../src/util/statistics.ts';
import { theoryBytes } from './allreduce.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { option, tabsOption } from './command/options.ts';
import type { DistributionResult } from './distribution/distributeFile.ts';
import { table } from '../tools/report/table.ts';
import { World } from './world/world.ts';

interface DistributionBenchOptions {
  tabs: number;
  bytes: number;
  json?: true;
}

const ROUNDS = 5;

/**
 * @throws (rejects) PeergradError if a tab fails, or if a rank receives a file that differs from
 * that of rank 0.
 */
async function benchDistribution({ tabs, bytes, json }: DistributionBenchOptions, io: Io): Promise<void> {
  const world = await World.open(tabs);
  let row: DistributionRow;
  try {
    row = await measure(world, bytes, io);
  } finally {
    await world.close();
  }
  io.out(json === undefined ? tableOf([row]) : JSON.stringify(row));
  if (row.wrong > 0) throw new PeergradError(`${row.wrong} files that ranks received differ from the file of rank 0.`);
}

/**
 * Measures all three kinds in each round, each time in another order. In a warm-up round, browsers
 * compile code, and SCTP estimates the line's rate.
 */
async function measure(world: World, bytes: number, io: Io): Promise<DistributionRow> {
  const rounds = { ours: [], ring: [], chain: [] } as {
    [Kind in keyof DistributionRounds]: DistributionRounds[Kind][number][];
  };
  const turns = [
    async () => void rounds.ring.push(await world.run('bareRing', { bytes: ringTensor(world.size, bytes), ops: 1 })),
    async () => void rounds.ours.push(await world.run('distributeFile', { bytes })),
    async () => void rounds.chain.push(await world.run('bareChain', { bytes })),
  ];
  for (let round = 0; round <= ROUNDS; round++) {
    io.err(round === 0 ? 'warming up ...' : `round ${round} of ${ROUNDS} ...`);
    for (let i = 0; i < turns.length; i++) await turns[(i + round) % turns.length]!();
    if (round === 0) for (const kind of Object.values(rounds)) kind.length = 0;
  }
  return rowOf({ n: world.size, bytes }, rounds);
}

interface DistributionRow {
  n: number;
  bytes: number;
  /**
   * Median milliseconds: until all ranks had the file (`medianMs`), until every rank had sent as
   * many bytes around the bare ring (`ringMs`), and until bare channels had brought as many bytes
   * to the last rank (`chainMs`).
   */
  medianMs: number;
  ringMs: number;
  chainMs: number;
  /** `ratio` is ringMs / medianMs, and `chainRatio` is chainMs / medianMs. */
  ratio: number;
  chainRatio: number;
  /** Megabytes of the file per second on each link. */
  MBps: number;
  /**
   * Bytes that all ranks sent, headers included, divided by the minimum, which is n-1 times the
   * file.
   */
  sentOverTheory: number;
  /** How often a rank's file differed from that of rank 0, in all rounds. */
  wrong: number;
}

/** Returns the size in bytes of a tensor for which every rank sends `bytes` in an all-reduce. */
export function ringTensor(n: number, bytes: number): number {
  return Math.round(bytes / theoryBytes(n, 1));
}

/** Results of each kind: one list per round, with an element for each rank. */
interface DistributionRounds {
  ours: readonly (readonly DistributionResult[])[];
  ring: readonly (readonly { ms: number[] }[])[];
  chain: readonly (readonly { ms: number }[])[];
}

export function rowOf(
  { n, bytes }: Pick<DistributionRow, 'n' | 'bytes'>,
  { ours, ring, chain }: DistributionRounds,
): DistributionRow {
  const medianMs = median(ours.map(last));
  const ringMs = median(ring.map((round) => Math.max(...round.flatMap(({ ms }) => ms))));
  const chainMs = median(chain.map(last));
  const sent = median(ours.map((round) => round.reduce((sum, { bytesSent }) => sum + bytesSent, 0)));
  return {
    n,
    bytes,
    medianMs,
    ringMs,
    chainMs,
    ratio: ringMs / medianMs,
    chainRatio: chainMs / medianMs,
    MBps: bytes / medianMs / 1000,
    sentOverTheory: sent / ((n - 1) * bytes),
    wrong: ours.flatMap((round) => round.filter(({ hash }) => hash !== round[0]!.hash)).length,
  };
}

/** Returns the time of the slowest rank in a round. */
function last(round: readonly { ms: number }[]): number {
  return Math.max(...round.map(({ ms }) => ms));
}

function tableOf(rows: readonly DistributionRow[]): string {
  return table(
    ['file, bytes', 'n', 'ms', 'bare ring, ms', 'ratio', 'bare chain, ms', 'ratio', 'MB/s', 'sent / theory', 'wrong'],
    rows.map(({ n, bytes, medianMs, ringMs, chainMs, ratio, chainRatio, MBps, sentOverTheory, wrong }) => [
      ...[String(bytes), String(n), medianMs.toFixed(0), ringMs.toFixed(0), ratio.toFixed(2), chainMs.toFixed(0)],
      ...[chainRatio.toFixed(2), MBps.toFixed(2), sentOverTheory.toFixed(4), String(wrong)],
    ]),
  );
}

export function section(row: DistributionRow): string {
  return `## A file for all ranks

\`npm run -s bench -- distribution\`: a file of rank 0 is sent along the ring in slices until all tabs of one browser have it. Each rank checks and
stores a slice before it forwards the slice. In turn with this, bare data channels on the tabs' pages are measured. *Bare ring*: every rank sends as
many bytes as the file has to its right neighbour, as in an all-reduce. *Bare chain*: as many bytes as the file has are sent along the path of the
file, without checks, until the last rank has them. Times are medians of five rounds, on the slowest rank. A ratio is the bare time divided by
peergrad's.

${tableOf([row])}
`;
}

export const distribution = defineBenchmark({
  name: 'distribution',
  description:
    'measure the distribution of a file from rank 0 to all tabs, compared with bare data channels that send as many bytes',
  options: [
    tabsOption(4),
    option('--bytes <n>', 'size of the file in bytes', wholeNumber(1, MAX_SHARED_BYTES), 20_000_000),
  ],
  run: benchDistribution,
  section,
});
