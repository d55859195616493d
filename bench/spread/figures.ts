/** What figures come of a file that went from rank to rank; pure. */
import { median } from '../../src/util/statistics.ts';
import { theoryBytes } from '../allreduce/figures.ts';
import { table } from '../table.ts';
import type { SpreadResult } from './spreadFile.ts';

export interface SpreadRow {
  n: number;
  bytes: number;
  /**
   * Until all ranks had the file; until every rank had sent as many bytes round a bare ring; until
   * bare channels had it at the last rank.
   */
  medianMs: number;
  ringMs: number;
  chainMs: number;
  /** ringMs / medianMs, chainMs / medianMs. */
  ratio: number;
  chainRatio: number;
  /** Of the file, over each link: a second's bytes. */
  MBps: number;
  /** Of all ranks together, headers included, over what they must: (n-1) times the file. */
  sentOverTheory: number;
  /** Ranks whose file was not rank 0's, over all rounds. */
  wrong: number;
}

/** Bytes of a tensor whose all-reduce has every rank send `bytes`. */
export function ringTensor(n: number, bytes: number): number {
  return Math.round(bytes / theoryBytes(n, 1));
}

/** What rounds gave, each by rank. */
export interface SpreadRounds {
  ours: readonly (readonly SpreadResult[])[];
  ring: readonly (readonly { ms: number[] }[])[];
  chain: readonly (readonly { ms: number }[])[];
}

export function rowOf({ n, bytes }: Pick<SpreadRow, 'n' | 'bytes'>, { ours, ring, chain }: SpreadRounds): SpreadRow {
  const medianMs = median(ours.map(last));
  const ringMs = median(ring.map((round) => Math.max(...round.flatMap(({ ms }) => ms))));
  const chainMs = median(chain.map(last));
  const sent = median(ours.map((round) => round.reduce((sum, { bytesSent }) => sum + bytesSent, 0)));
  return {
    ...{ n, bytes, medianMs, ringMs, chainMs, ratio: ringMs / medianMs, chainRatio: chainMs / medianMs },
    ...{ MBps: bytes / medianMs / 1000, sentOverTheory: sent / ((n - 1) * bytes) },
    wrong: ours.flatMap((round) => round.filter(({ hash }) => hash !== round[0]!.hash)).length,
  };
}

/** Of the slowest rank. */
function last(round: readonly { ms: number }[]): number {
  return Math.max(...round.map(({ ms }) => ms));
}

export function tableOf(rows: readonly SpreadRow[]): string {
  return table(
    ['file, bytes', 'n', 'ms', 'bare ring, ms', 'ratio', 'bare chain, ms', 'ratio', 'MB/s', 'sent / theory', 'wrong'],
    rows.map(({ n, bytes, medianMs, ringMs, chainMs, ratio, chainRatio, MBps, sentOverTheory, wrong }) => [
      ...[String(bytes), String(n), medianMs.toFixed(0), ringMs.toFixed(0), ratio.toFixed(2), chainMs.toFixed(0)],
      ...[chainRatio.toFixed(2), MBps.toFixed(2), sentOverTheory.toFixed(4), String(wrong)],
    ]),
  );
}
