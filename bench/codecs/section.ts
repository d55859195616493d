/** What `bench codecs` finds, as tables, and its part of docs/BENCHMARKS.md. */
import { table } from '../table.ts';
import type { TrainedRow } from './variants.ts';

export interface TimedRow {
  codec: string;
  /** Median, until the last rank has its sum. */
  ms: number;
  /** Median over the rounds, as many times as fp32 in the same round. */
  faster: number;
  /** Of the busiest rank, framing included. */
  bytesSent: number;
  /** Of the sum, as a share of it. */
  error: number;
}

export interface CodecsResult {
  tabs: number;
  bytes: number;
  /** In one browser on this machine. */
  local: TimedRow[];
  /** What each host receives at most, and the same there; `null` where there were none. */
  rate: string;
  capped: TimedRow[] | null;
  seeds: number;
  /** Else drawn digits. */
  isMnist: boolean;
  trained: TrainedRow[];
}

export function codecTables({ tabs, bytes, local, rate, capped, seeds, isMnist, trained }: CodecsResult): string {
  const timed = (where: string, rows: readonly TimedRow[]): string =>
    table(
      [`${(bytes / 2 ** 20).toFixed(1)} MiB, ${tabs} tabs, ${where}`, 'ms', 'times as fast', 'sent, kB', 'error'],
      rows.map(({ codec, ms, faster, bytesSent, error }) => [
        ...[codec, ms.toFixed(0), faster.toFixed(2), (bytesSent / 1000).toFixed(0), error.toExponential(1)],
      ]),
    );
  const learned = table(
    [
      `${isMnist ? 'MNIST' : 'digits'}, mean of ${seeds}`,
      'bytes a step',
      'MB in all',
      'fewer',
      'accuracy, %',
      'points',
    ],
    trained.map(({ name, bytesPerStep, bytes: sent, fewer, accuracy, points }) => [
      ...[name, bytesPerStep.toFixed(0), (sent / 1e6).toFixed(1), fewer.toFixed(1)],
      ...[(100 * accuracy).toFixed(2), points.toFixed(2)],
    ]),
  );
  const parts = [timed('one machine', local), ...(capped ? [timed(`lines of ${rate}`, capped)] : []), learned];
  return parts.join('\n\n');
}

export function section(result: CodecsResult): string {
  return `## Codecs

\`npm run -s bench -- codecs --data DIR --hosts SCRIPT\`. Times: in real tabs over WebRTC, every codec in turn in every round, the median of
the rounds' ratios; an all-reduce ends when the last rank has its sum, whose bits all ranks must share. *error* is the sum's root mean
square distance from that of fp32. Learning: ${result.tabs} ranks of 32, mlp with 256 hidden units, five passes over ${result.isMnist ? "8000 of MNIST's test images, the other 2000 held out" : 'drawn digits'},
Adam (DiLoCo: AdamW, an exchange every 20 steps). It runs in Node on WebAssembly, all ranks in one process over memory links: the
same code encodes, adds up and applies the same gradients, and bytes are counted as in tabs, but its times would say nothing.

${codecTables(result)}

The wire limits it, not the CPU: to encode or decode a value takes 2 to 5 ns, of the 100 ns that its four bytes take at 40 MB/s. int8's
scales, 4 bytes for every 128 values, keep it from 4 times; per-frame work and the ring's latency from what the bytes allow. PowerSGD takes
two all-reduces, one after the other, and the first two steps are plain; of small models its round trips cost more than its bytes save.
`;
}
