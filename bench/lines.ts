/**
 * `bench lines`: measures an all-reduce over lines of a known rate, with a browser on each of
 * several test hosts (`world/hosts.ts`).
 */
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import { MAX_TENSOR_BYTES, rowOf, theoryBytes } from './allreduce.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { hostsOption, option, tabsOption } from './command/options.ts';
import { table } from '../tools/report/table.ts';
import { withHosts } from './world/hosts.ts';
import { World } from './world/world.ts';

interface LinesBenchOptions {
  hosts: string;
  tabs: number;
  /** Rate of each line in megabits per second. */
  rate: number;
  bytes: number;
  json?: true;
}

/**
 * Number of measured rounds, and of all-reduces before them, in which SCTP estimates the line's
 * rate.
 */
const ROUNDS = 5;
const WARM_UPS = 2;

/** @throws (rejects) as {@link withHosts}; PeergradError if a tab fails. */
async function benchLines({ hosts, tabs: n, rate, bytes, json }: LinesBenchOptions, io: Io): Promise<void> {
  const result = await withHosts({ tool: hosts, count: n }, async (on, limit): Promise<LinesResult> => {
    const world = await World.open(n, { hosts: on });
    try {
      await limit(`${rate}mbit`);
      await world.run('allReduce', { bytes, ops: WARM_UPS, isInPlace: true });
      await world.run('bareRing', { bytes, ops: WARM_UPS });
      const ours = [];
      const raw = [];
      for (let round = 0; round < ROUNDS; round++) {
        ours.push(...(await world.run('allReduce', { bytes, ops: 1, isInPlace: true })));
        raw.push(...(await world.run('bareRing', { bytes, ops: 1 })));
      }
      const { medianMs, rawMedianMs, wrong, bytesSentPerRank } = rowOf({ n, bytes, isInPlace: true }, ours, raw);
      const lineMs = (theoryBytes(n, bytes) * 8) / (rate * 1000);
      const ratio = medianMs / lineMs;
      return { n, bytes, rateMbit: rate, medianMs, lineMs, ratio, rawMedianMs, bytesSentPerRank, wrong };
    } finally {
      await world.close();
    }
  });
  io.out(json === undefined ? tableOf(result) : JSON.stringify(result));
}

interface LinesResult {
  n: number;
  bytes: number;
  /** Rate of every host's line in megabits per second. */
  rateMbit: number;
  /** Median milliseconds of one all-reduce. */
  medianMs: number;
  /** Milliseconds that the line needs for the bytes of a rank, which are 2(n-1)/n of the tensor. */
  lineMs: number;
  /** medianMs / lineMs. */
  ratio: number;
  /** Median milliseconds in which bare channels send the same bytes. */
  rawMedianMs: number;
  bytesSentPerRank: number;
  wrong: number;
}

function section(result: LinesResult): string {
  return `## An all-reduce over capped lines

\`npm run -s bench -- lines\`: a browser on each of ${result.n} test hosts of one machine, whose lines are capped at ${result.rateMbit} Mbit/s by a token
bucket. *Line alone* is the time of 2(n-1)/n of the tensor's bytes at that rate. *Bare* is the time of the same bytes over bare channels. *ratio*
is peergrad's time divided by *line alone*.

${tableOf(result)}

Every SCTP packet of 1191 bytes has about 90 bytes of headers (SCTP, DTLS, UDP, IP, Ethernet). The lines also carry acknowledgements.
`;
}

function tableOf({ n, bytes, rateMbit, medianMs, lineMs, ratio, rawMedianMs, wrong }: LinesResult): string {
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

export const lines = defineBenchmark({
  name: 'lines',
  description:
    'measure an all-reduce over capped lines, with a browser on each of several test hosts; needs root and iproute2',
  options: [
    hostsOption().makeOptionMandatory(),
    tabsOption(4, 'world size and number of hosts'),
    option('--rate <mbit>', 'rate of each line in Mbit/s', wholeNumber(1, 1000), 20),
    option('--bytes <n>', 'size of the tensor in bytes', wholeNumber(4, MAX_TENSOR_BYTES), 4 * 2 ** 20),
  ],
  run: benchLines,
  section,
});
