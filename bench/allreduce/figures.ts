/** How often what is measured, and what figures come of it; pure. */
import { median } from '../../src/util/statistics.ts';
import { table } from '../table.ts';

/** Of one world size and tensor size. */
export interface AllReduceRow {
  n: number;
  bytes: number;
  isInPlace: boolean;
  /** Of one all-reduce, and of the same bytes round the same ring over bare channels. */
  medianMs: number;
  rawMedianMs: number;
  /** rawMedianMs / medianMs. */
  ratio: number;
  /**
   * nccl-tests' algorithm and bus bandwidth: bytes a second, and those times 2(n-1)/n, which is
   * what each rank's line carries.
   */
  algorithmMBps: number;
  busMBps: number;
  /** Of the rank that sends most, headers included. */
  bytesSentPerRank: number;
  /** Elements that were not the sum, of all ranks. */
  wrong: number;
}

/**
 * All-reduces of `opMs` each that follow one another, and how often ours and the bare ones take
 * turns, to spend about `budgetMs` on each; more where fewer than {@link MIN_ROUNDS} fit in.
 */
export function scheduleOf(opMs: number, budgetMs: number): { ops: number; rounds: number } {
  const fitting = budgetMs / opMs;
  const rounds = Math.max(MIN_ROUNDS, Math.min(MAX_ROUNDS, Math.floor(fitting)));
  return { ops: Math.max(1, Math.min(MAX_OPS, Math.floor(fitting / rounds))), rounds };
}

/** A median of fewer turns is the machine's other work. */
const MIN_ROUNDS = 3;
/** Enough turns for the machine's other work to meet both alike. */
const MAX_ROUNDS = 20;
/** Sums in place, 8^20 times the first, are still float32 numbers. */
const MAX_OPS = 20;

/** Bytes that each rank must send: 2(n-1)/n of the tensor. */
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
    ...{ n, bytes, isInPlace, medianMs, rawMedianMs, ratio: rawMedianMs / medianMs },
    ...{ algorithmMBps, busMBps: theoryBytes(n, algorithmMBps) },
    bytesSentPerRank: Math.max(...ours.map(({ bytesSent }) => bytesSent)),
    wrong: ours.reduce((sum, { wrong }) => sum + wrong, 0),
  };
}

export function tableOf(rows: readonly AllReduceRow[]): string {
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
