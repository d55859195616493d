/** The lines' part of docs/BENCHMARKS.md. */
import { table } from '../table.ts';

export interface LinesResult {
  n: number;
  bytes: number;
  /** Of every host's line, megabits a second. */
  rateMbit: number;
  /** Of one all-reduce. */
  medianMs: number;
  /** What the line alone takes for the bytes of a rank: 2(n-1)/n of the tensor. */
  lineMs: number;
  /** medianMs / lineMs. */
  ratio: number;
  /** Of the same bytes over bare channels. */
  rawMedianMs: number;
  bytesSentPerRank: number;
  wrong: number;
}

export function section(result: LinesResult): string {
  return `## An all-reduce over capped lines

\`npm run -s bench -- lines\`: a browser on each of ${result.n} test hosts of one machine, whose lines are capped at ${result.rateMbit} Mbit/s by a token
bucket. *Line alone* is 2(n-1)/n of the tensor's bytes at that rate, *bare* the same bytes over bare channels.

${tableOf(result)}

Every packet of SCTP, 1191 bytes, has some 90 bytes of headers (SCTP, DTLS, UDP, IP, Ethernet), and what is acknowledged travels on
the lines too.
`;
}

export function tableOf({ n, bytes, rateMbit, medianMs, lineMs, ratio, rawMedianMs, wrong }: LinesResult): string {
  return table(
    ['tensor, bytes', 'n', 'line, Mbit/s', 'ms', 'line alone, ms', 'ratio', 'bare, ms', 'wrong'],
    [
      [
        ...[String(bytes), String(n), String(rateMbit), medianMs.toFixed(0), lineMs.toFixed(0), ratio.toFixed(2)],
        ...[rawMedianMs.toFixed(0), String(wrong)],
      ],
    ],
  );
}
