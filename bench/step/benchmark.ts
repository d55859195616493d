/**
 * `bench step`: measures the parts of a step's time on several ranks with different bucket sizes,
 * over capped lines if there are hosts.
 */
import { Option } from 'commander';
import type { Io } from '../../launcher/io.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { FIRST_BUCKET_BYTES } from '../../src/parallel/flat/buckets.ts';
import type { StepTimes } from '../../src/protocol/stepTrace.ts';
import { median } from '../../src/util/statistics.ts';
import { theoryBytes } from '../allreduce/benchmark.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { hostsOption, option, tabsOption } from '../command/options.ts';
import { drawPanels } from '../../tools/report/plot.ts';
import type { BucketTimes, StepKind, StepResult, TakenStep } from './args.ts';
import { table } from '../../tools/report/table.ts';
import { withHosts } from '../world/hosts.ts';
import { type Hosts, World } from '../world/world.ts';

interface StepBenchOptions {
  tabs: number;
  hosts?: string;
  /**
   * Rate of the hosts' lines in megabits per second. By default, the rate is chosen so that
   * communication takes as long as computation.
   */
  rate?: number;
  picture?: string;
  json?: true;
}

/** Batch size of a rank. A step takes at most a second without a GPU. */
const BATCH = 64;
/** Enough steps for medians. Without a GPU they take one or two minutes. */
const TOGETHER = { turns: 3, steps: 2 };
/** Steps on uncapped lines, to measure how long computation takes. */
const UNCAPPED = { turns: 2, steps: 2 };
/**
 * Bytes on the line per byte of frames. Packets of 1191 bytes have headers of SCTP, DTLS, UDP and
 * IP.
 */
const PACKET_OVERHEAD = 1.08;
const KIB = 1024;
/** A bucket size that is larger than every model here. */
const WHOLE_BYTES = 1024 * KIB * KIB;
/**
 * Bucket sizes to compare. The weights of a layer have 256 KiB. `null`: one bucket for everything.
 */
const CAPS = [256 * KIB, 512 * KIB, 1024 * KIB, null];

async function benchStep({ tabs, hosts, rate, picture, json }: StepBenchOptions, io: Io): Promise<void> {
  const result =
    hosts === undefined
      ? await measureTogether(tabs, null, io)
      : await withHosts({ tool: hosts, count: tabs }, (on, limit) =>
          measureTogether(tabs, { on, limit, ...(rate !== undefined && { rate }) }, io),
        );
  if (picture !== undefined) await draw(result, picture);
  io.out(json === undefined ? capsTable(result) : JSON.stringify(result));
}

interface Lines {
  on: Hosts;
  limit: (rate: string) => Promise<void>;
  rate?: number;
}

async function measureTogether(tabs: number, lines: Lines | null, io: Io): Promise<StepBenchResult> {
  const world = await World.open(tabs, { hosts: lines?.on ?? null });
  try {
    const line = lines && (await capped(world, lines));
    io.err(`${tabs} tabs, ${line ? `lines of ${line.rateMbit} Mbit/s, ` : ''}${CAPS.length} sizes of buckets ...`);
    const [taken] = await world.run('takeSteps', { ...TOGETHER, batch: BATCH, kinds: CAPS.map(kindOf) });
    const byCap = resultsByCap(CAPS, taken!, line?.ms ?? null);
    const { adapter, parameters } = taken!;
    return { adapter, together: { tabs, batch: BATCH, parameters, line, byCap } };
  } finally {
    await world.close();
  }
}

/**
 * Limits the rate of the lines: to `rate`, or by default to the rate at which the gradient of a
 * step takes as long as its computation.
 */
async function capped(world: World, { limit, rate }: Lines): Promise<Together['line']> {
  const [taken] = await world.run('takeSteps', { ...UNCAPPED, batch: BATCH, kinds: [kindOf(null)] });
  const { bucketBytes, ms } = resultsByCap([null], taken!, null)[0]!;
  const kilobits = (theoryBytes(world.size, bucketBytes[0]!) * PACKET_OVERHEAD * 8) / 1000;
  const rateMbit = rate ?? Number((kilobits / ms.compute).toFixed(1));
  await limit(`${rateMbit}mbit`);
  return { rateMbit, ms: kilobits / rateMbit };
}

function kindOf(cap: number | null): StepKind {
  const bucketCapBytes = cap ?? WHOLE_BYTES;
  return { firstBucketBytes: cap === null ? WHOLE_BYTES : FIRST_BUCKET_BYTES, bucketCapBytes };
}

function curve(label: string, colour: string, values: number[]) {
  return { label, colour, width: 2.5, dash: [], values };
}

/** Draws a chart of the step time and its parts by bucket size. */
async function draw({ together: { tabs, line, byCap } }: StepBenchResult, file: string): Promise<void> {
  const title = `${tabs} tabs, ${line ? `lines of ${line.rateMbit} Mbit/s` : 'uncapped'}`;
  const curves = [
    curve(
      'step',
      '#2563eb',
      byCap.map(({ ms }) => ms.total),
    ),
    curve(
      'communication',
      '#ea580c',
      byCap.map(({ ms }) => ms.communicate),
    ),
    curve(
      'exposed',
      '#dc2626',
      byCap.map(({ ms }) => ms.exposed),
    ),
  ];
  const names = byCap.map(({ capBytes }) => nameOf(capBytes));
  await drawPanels([{ title, x: 'bucket cap', y: 'ms', names, curves }], file);
}

interface CapResult {
  /** Maximum size of a bucket in bytes; `null`: one bucket for everything. */
  capBytes: number | null;
  bucketBytes: number[];
  ms: StepTimes;
  /** Median times of each bucket. */
  buckets: BucketTimes[];
  /** Fraction of the communication that does not overlap with computation. */
  exposedShare: number;
  /**
   * Lower bound of `exposedShare`, given the times at which buckets are ready; see {@link
   * leastExposed}.
   */
  leastShare: number;
}

interface Together {
  tabs: number;
  parameters: number;
  batch: number;
  /**
   * Rate of the lines in megabits per second, and the milliseconds that a line needs for the bytes
   * of a step; `null` if the lines are not capped.
   */
  line: { rateMbit: number; ms: number } | null;
  byCap: CapResult[];
}

interface StepBenchResult {
  adapter: string;
  together: Together;
}

/**
 * Returns the fraction of communication that would be exposed on an ideal line. The line sends the
 * buckets one after the other without gaps, each after its ready time, and needs `lineMs` for all
 * of them.
 */
export function leastExposed(readyMs: readonly number[], bytes: readonly number[], lineMs: number): number {
  const total = bytes.reduce((sum, own) => sum + own, 0);
  const end = readyMs.reduce((free, ready, i) => Math.max(free, ready) + (lineMs * bytes[i]!) / total, 0);
  return (end - readyMs.at(-1)!) / (end - readyMs[0]!);
}

/**
 * @param caps maximum bucket size of each kind. The last kind has everything in one bucket.
 * @param lineMs milliseconds that a line needs for all bytes; `null`: use the time that was
 * measured with one bucket.
 */
export function resultsByCap(
  caps: readonly (number | null)[],
  { kinds }: StepResult,
  lineMs: number | null,
): CapResult[] {
  const wholeMs = mediansOf(kinds.at(-1)!.steps).communicate;
  return kinds.map(({ steps, bucketBytes }, i) => {
    const ms = mediansOf(steps);
    const buckets = bucketBytes.map((_, bucket) => ({
      readyMs: median(steps.map((step) => step.buckets[bucket]!.readyMs)),
      doneMs: median(steps.map((step) => step.buckets[bucket]!.doneMs)),
    }));
    const ready = buckets.map(({ readyMs }) => readyMs);
    const leastShare = leastExposed(ready, bucketBytes, lineMs ?? wholeMs);
    return { capBytes: caps[i]!, bucketBytes, ms, buckets, exposedShare: ms.exposed / ms.communicate, leastShare };
  });
}

function mediansOf(steps: readonly TakenStep[]): StepTimes {
  const medianOf = (part: keyof StepTimes): number => median(steps.map(({ ms }) => ms[part]));
  return {
    total: medianOf('total'),
    data: medianOf('data'),
    compute: medianOf('compute'),
    readback: medianOf('readback'),
    communicate: medianOf('communicate'),
    exposed: medianOf('exposed'),
    update: medianOf('update'),
  };
}

const PARTS = ['compute', 'readback', 'communicate', 'exposed', 'update'] as const satisfies (keyof StepTimes)[];

function capsTable({ together }: StepBenchResult): string {
  return table(
    ['bucket cap', 'buckets', 'step ms', ...PARTS, 'exposed, %', 'least, %'],
    together.byCap.map(({ capBytes, bucketBytes, ms, exposedShare, leastShare }) => [
      ...[nameOf(capBytes), String(bucketBytes.length), ms.total.toFixed(0)],
      ...PARTS.map((part) => ms[part].toFixed(0)),
      ...[exposedShare, leastShare].map((share) => (100 * share).toFixed(0)),
    ]),
  );
}

export function section(result: StepBenchResult): string {
  const { adapter, together } = result;
  const { tabs, line, parameters, batch } = together;
  const whole = together.byCap.at(-1)!.ms;
  return `## What a step costs

\`npm run -s bench -- step\`, on ${adapter}: ${tabs} tabs ${line ? `over lines of ${line.rateMbit} Mbit/s` : 'of one browser'} train an mlp of equal layers with ${parameters} parameters, ${batch} samples per
rank, and buckets of several sizes, which are measured in turn. Times are medians. \`compute\` ends when the first bucket has been read from the GPU,
\`readback\` when the last has been read. \`communicate\` is the time of all all-reduces, \`exposed\` the part of it after the last bucket
has been read. \`least\` is the percentage that would be exposed on an ideal line, without gaps.

${capsTable(result)}

With one bucket for everything, communication takes ${(whole.communicate / whole.compute).toFixed(2)} times as long as compute${line ? `. The line alone needs ${(line.ms / whole.compute).toFixed(2)} times as long as compute` : ''}.

![Step time over the size of buckets](buckets.png)
`;
}

function nameOf(capBytes: number | null): string {
  return capBytes === null ? 'whole' : `${capBytes / KIB} KiB`;
}

export const step = defineBenchmark({
  name: 'step',
  description: 'measure the parts of the step time on several ranks with different bucket sizes',
  options: [
    tabsOption(2, 'world size of the measurements with several ranks'),
    hostsOption(),
    option(
      '--rate <mbit>',
      "rate of the hosts' lines in Mbit/s (default: communication takes as long as computation)",
      wholeNumber(1, 1000),
    ),
    new Option('--picture <file>', 'PNG file for a chart of step time by bucket size'),
  ],
  run: benchStep,
  section,
});
