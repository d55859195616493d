/**
 * `bench distribution`: distributes a file of rank 0 to all tabs, alternating in the same tabs with
 * bare data channels that carry as many bytes: around the ring, as an all-reduce does, and along
 * the same path as the file.
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
import { table } from './report/table.ts';
import { World } from './world/world.ts';

export interface DistributionBenchOptions {
  tabs: number;
  bytes: number;
  json?: true;
}

const ROUNDS = 5;

/**
 * @throws (rejects) PeergradError if a tab fails, or a rank ends with another file than rank 0's.
 */
export async function benchDistribution({ tabs, bytes, json }: DistributionBenchOptions, io: Io): Promise<void> {
  const world = await World.open(tabs);
  let row: DistributionRow;
  try {
    row = await measure(world, bytes, io);
  } finally {
    await world.close();
  }
  io.out(json === undefined ? tableOf([row]) : JSON.stringify(row));
  if (row.wrong > 0) throw new PeergradError(`${row.wrong} files differed from rank 0's.`);
}

/**
 * Measures all kinds in each round, starting with another one each time, after a warm-up round:
 * browsers compile, and SCTP estimates the line's rate.
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

export interface DistributionRow {
  n: number;
  bytes: number;
  /**
   * Milliseconds until all ranks had the file; until every rank had sent as many bytes around a
   * bare ring; until bare channels had carried it to the last rank.
   */
  medianMs: number;
  ringMs: number;
  chainMs: number;
  /** ringMs / medianMs, chainMs / medianMs. */
  ratio: number;
  chainRatio: number;
  /** Bytes of the file per second, over each link. */
  MBps: number;
  /** Bytes sent by all ranks, headers included, divided by the minimum: (n-1) times the file. */
  sentOverTheory: number;
  /** Ranks whose file differed from rank 0's, over all rounds. */
  wrong: number;
}

/** Bytes of a tensor in whose all-reduce every rank sends `bytes`. */
export function ringTensor(n: number, bytes: number): number {
  return Math.round(bytes / theoryBytes(n, 1));
}

/** Results of the rounds, each by rank. */
export interface DistributionRounds {
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

/** Time of the slowest rank. */
function last(round: readonly { ms: number }[]): number {
  return Math.max(...round.map(({ ms }) => ms));
}

export function tableOf(rows: readonly DistributionRow[]): string {
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

\`npm run -s bench -- distribution\`: a file of rank 0 travels down the ring in slices, each checked and stored before it is forwarded, until all
tabs of one browser have it; in turn with bare data channels on their pages. *Bare ring*: every rank sends as many bytes to its
right neighbour, as in an all-reduce. *Bare chain*: the file's bytes on the file's way, unchecked, until the last rank has them.
Medians of five rounds of the slowest rank; ratios are bare time over peergrad's.

${tableOf([row])}
`;
}

export const distribution = defineBenchmark({
  name: 'distribution',
  description: 'distribute a file of rank 0 from tab to tab, compared with bare data channels that carry as many bytes',
  options: [
    tabsOption(4),
    option('--bytes <n>', 'size of the file in bytes', wholeNumber(1, MAX_SHARED_BYTES), 20_000_000),
  ],
  run: benchDistribution,
  section,
});
