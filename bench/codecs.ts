/**
 * `bench codecs`: measures the speed-up of encoded all-reduces in real tabs, also on capped lines
 * if there are hosts. Also trains models with each codec in Node and measures their accuracy. Fails
 * if a codec is less accurate or sends more bytes than allowed.
 */
import { Option } from 'commander';
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import { PeergradError } from '../src/util/errors.ts';
import { mean, median } from '../src/util/statistics.ts';
import type { EncodedResult } from './codecs/encodedAllReduce.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { digitsOption, hostsOption, option, tabsOption } from './command/options.ts';
import { digitsOrder, runTrials } from './training/trials.ts';
import type { TrialResult } from './training/trial.ts';
import { table } from '../tools/report/table.ts';
import { withHosts } from './world/hosts.ts';
import { type Hosts, World } from './world/world.ts';

interface CodecsBenchOptions {
  tabs: number;
  bytes: number;
  rounds: number;
  /**
   * Path of the tool that creates test hosts (see `world/hosts.ts`), and the maximum rate of their
   * lines.
   */
  hosts?: string;
  rate: string;
  seeds: number;
  epochs: number;
  /** Folder with MNIST's files. */
  data?: string;
  json?: true;
}

/** Codecs of the measured all-reduces. */
const CODECS = ['fp32', 'fp16', 'int8'] as const;
/** Units of the hidden layer. The gradient of its 784 x 256 weights has 0.8 MB. */
const HIDDEN = 256;
/**
 * So large that ranks compare their states only at the end: regular comparisons are not part of the
 * measurement.
 */
const HASH_EVERY = 1_000_000;

/**
 * @throws (rejects) PeergradError if ranks' sums differ, a tab fails, or a codec misses its target.
 */
async function benchCodecs(options: CodecsBenchOptions, io: Io): Promise<void> {
  const { tabs, bytes, hosts, rate, seeds, json } = options;
  io.err(`${tabs} tabs all-reduce ${bytes} bytes ${options.rounds} times with each codec ...`);
  const local = await timed(options);
  const capped =
    hosts === undefined
      ? null
      : await withHosts({ tool: hosts, count: tabs }, (lines, limit) => timed(options, lines, () => limit(rate)));
  const trained = await trainAll(options, io);
  const result: CodecsResult = {
    tabs,
    bytes,
    local,
    rate,
    capped,
    seeds,
    isMnist: options.data !== undefined,
    trained,
  };
  io.out(json === undefined ? codecTables(result) : JSON.stringify(result));
  const wrong = shortfalls(trained);
  if (wrong.length > 0) throw new PeergradError(`Codecs missed their targets: ${wrong.join('; ')}.`);
}

/** @param limit caps the lines of `hosts`. It is called after pages have loaded. */
async function timed(
  { tabs, bytes, rounds }: CodecsBenchOptions,
  hosts: Hosts | null = null,
  limit?: () => Promise<void>,
): Promise<TimedRow[]> {
  const world = await World.open(tabs, { hosts });
  try {
    await limit?.();
    const results = await world.run('encodedAllReduce', { bytes, rounds, codecs: CODECS });
    return CODECS.map((codec, i) =>
      rowOf(
        codec,
        results.map((own) => own[i]!),
        results.map(([plain]) => plain!),
      ),
    );
  } finally {
    await world.close();
  }
}

/** Returns the time of each all-reduce on its slowest rank. */
function slowest(results: readonly EncodedResult[]): number[] {
  return results[0]!.ms.map((_, round) => Math.max(...results.map(({ ms }) => ms[round]!)));
}

function rowOf(codec: string, ranks: readonly EncodedResult[], plain: readonly EncodedResult[]): TimedRow {
  const hashes = new Set(ranks.map(({ hash }) => hash));
  if (hashes.size > 1)
    throw new PeergradError(`The sums with ${codec} differ between ranks. Their hashes: ${[...hashes].join(', ')}.`);
  const [mine, theirs] = [slowest(ranks), slowest(plain)];
  return {
    codec,
    ms: median(mine),
    bytesSent: Math.max(...ranks.map(({ bytesSent }) => bytesSent)),
    faster: median(mine.map((ms, round) => theirs[round]! / ms)),
    error: ranks[0]!.error,
  };
}

async function trainAll({ tabs, seeds, epochs, data }: CodecsBenchOptions, io: Io): Promise<TrainedRow[]> {
  const { fields: digits, files } = digitsOrder(data);
  const all = { ...digits, hidden: HIDDEN, batchSize: 32, epochs, hashEvery: HASH_EVERY };
  const orders = VARIANTS.flatMap(({ name, fields }) =>
    Array.from({ length: seeds }, (_, seed) => ({
      name: `${name}, seed ${seed + 1}`,
      ...{ tabs, files, fields: { ...all, ...fields, seed: seed + 1 } },
    })),
  );
  const trials = await runTrials(orders, io);
  return rowsOf(VARIANTS.map((_, i) => trials.slice(i * seeds, (i + 1) * seeds)));
}

interface Variant {
  name: string;
  /** Fields of the job that make this variant. */
  fields: Readonly<Record<string, unknown>>;
  /**
   * Target: percentage points by which the mean accuracy may be lower than that of fp32; `null`: no
   * target.
   */
  points: number | null;
  /**
   * Target: the bytes of fp32 divided by the bytes of this variant must be at least this number.
   */
  fewer: number;
}

export const VARIANTS: readonly Variant[] = [
  { name: 'fp32', fields: {}, points: null, fewer: 1 },
  { name: 'fp16', fields: { codec: 'fp16' }, points: 0.3, fewer: 1.9 },
  { name: 'int8', fields: { codec: 'int8' }, points: 0.3, fewer: 3.7 },
  { name: 'int8, no feedback', fields: { codec: 'int8', errorFeedback: false }, points: null, fewer: 3.7 },
  { name: 'PowerSGD', fields: { codec: 'powersgd' }, points: 0.5, fewer: 30 },
  { name: 'DiLoCo, int8', fields: { strategy: 'diloco', codec: 'int8' }, points: 1, fewer: 50 },
];

interface TrainedRow {
  name: string;
  /**
   * Bytes that the busiest rank sends for gradients, framing included: per step, and in the whole
   * run.
   */
  bytesPerStep: number;
  bytes: number;
  /** Bytes of fp32 divided by the bytes of this variant. */
  fewer: number;
  /** Mean accuracy over the seeds, and the accuracy with each seed. */
  accuracy: number;
  accuracies: number[];
  /** Difference from fp32's accuracy in percentage points. */
  points: number;
  stepMs: number;
}

const accuracyOf = (trials: readonly TrialResult[]): number => mean(trials.map(({ accuracy }) => accuracy!));
const bytesOf = (trials: readonly TrialResult[]): number => mean(trials.map(({ bytes }) => bytes));

/** @param trials for each variant, its results with each seed. */
export function rowsOf(trials: readonly (readonly TrialResult[])[]): TrainedRow[] {
  const [plain] = trials;
  return VARIANTS.map(({ name }, i) => {
    const own = trials[i]!;
    const bytes = bytesOf(own);
    return {
      name,
      bytes,
      bytesPerStep: bytes / own[0]!.steps,
      fewer: bytesOf(plain!) / bytes,
      accuracy: accuracyOf(own),
      accuracies: own.map(({ accuracy }) => accuracy!),
      points: 100 * (accuracyOf(own) - accuracyOf(plain!)),
      stepMs: mean(own.map(({ stepMs }) => stepMs)),
    };
  });
}

/** Returns a text for each missed target. */
export function shortfalls(rows: readonly TrainedRow[]): string[] {
  return VARIANTS.flatMap(({ points, fewer }, i) => {
    const row = rows[i]!;
    const missed: string[] = [];
    if (points !== null && !(row.points >= -points)) {
      missed.push(
        `${row.name} is ${(-row.points).toFixed(2)} points less accurate than fp32, but at most ${points} are allowed`,
      );
    }
    if (!(row.fewer >= fewer))
      missed.push(
        `${row.name} sends ${row.fewer.toFixed(1)} times fewer bytes than fp32, but ${fewer} times fewer are required`,
      );
    return missed;
  });
}

interface TimedRow {
  codec: string;
  /** Median milliseconds until all ranks have the sum. */
  ms: number;
  /**
   * In each round, the time of fp32 is divided by the time of this codec. This is the median over
   * the rounds.
   */
  faster: number;
  /** Bytes that the busiest rank sends, framing included. */
  bytesSent: number;
  /** Relative error of the sum. */
  error: number;
}

interface CodecsResult {
  tabs: number;
  bytes: number;
  /** Results in one browser on this machine. */
  local: TimedRow[];
  /**
   * `rate` is the maximum rate of each host's line. `capped` are the results on these lines; `null`
   * if there were no hosts.
   */
  rate: string;
  capped: TimedRow[] | null;
  seeds: number;
  /** Whether the training data is MNIST. Otherwise digits are generated. */
  isMnist: boolean;
  trained: TrainedRow[];
}

export function codecTables({ tabs, bytes, local, rate, capped, seeds, isMnist, trained }: CodecsResult): string {
  const timeTable = (where: string, rows: readonly TimedRow[]): string =>
    table(
      [`${(bytes / 2 ** 20).toFixed(1)} MiB, ${tabs} tabs, ${where}`, 'ms', 'times as fast', 'sent, kB', 'error'],
      rows.map(({ codec, ms, faster, bytesSent, error }) => [
        ...[codec, ms.toFixed(0), faster.toFixed(2), (bytesSent / 1000).toFixed(0), error.toExponential(1)],
      ]),
    );
  const accuracyTable = table(
    [
      `${isMnist ? 'MNIST' : 'digits'}, mean of ${seeds}`,
      'bytes a step',
      'MB in total',
      'fewer',
      'accuracy, %',
      'points',
    ],
    trained.map(({ name, bytesPerStep, bytes: sent, fewer, accuracy, points }) => [
      ...[name, bytesPerStep.toFixed(0), (sent / 1e6).toFixed(1), fewer.toFixed(1)],
      ...[(100 * accuracy).toFixed(2), points.toFixed(2)],
    ]),
  );
  const parts = [
    timeTable('one machine', local),
    ...(capped ? [timeTable(`lines of ${rate}`, capped)] : []),
    accuracyTable,
  ];
  return parts.join('\n\n');
}

export function section(result: CodecsResult): string {
  return `## Codecs

\`npm run -s bench -- codecs --data DIR --hosts SCRIPT\`. Times are measured in real tabs over WebRTC, with every codec in turn in
every round. *Times as fast* is the median of the rounds' ratios. An all-reduce ends when the last rank has the sum, which must be equal on all ranks.
*error* is the root mean square distance from the sum with fp32, relative to that sum. Training: ${result.tabs} ranks with batch 32, an mlp with 256 hidden units,
five epochs over ${result.isMnist ? "8000 of MNIST's test images (the other 2000 are held out)" : 'generated digits'}, optimizer Adam (DiLoCo: AdamW, an exchange every 20 steps).
It runs in Node on WebAssembly, with all ranks in one process over memory links. The same code as in tabs encodes, sums and applies the gradients, and
the bytes are the same as in tabs. Step times are not comparable with tabs.

${codecTables(result)}

The line limits the speed, not the CPU: encoding or decoding a value takes 2 to 5 ns, but its four bytes take 100 ns at 40 MB/s. The int8 codec
sends a scale of 4 bytes for every 128 values, so its factor is below 4. The work for each frame and the ring's latency reduce the factors of all
codecs. PowerSGD needs two all-reduces, one after the other, and its first two steps use fp32. For small models, its second round trip costs more time
than its fewer bytes save.
`;
}

export const codecs = defineBenchmark({
  name: 'codecs',
  description:
    'measure the speed-up of encoded all-reduces, and the accuracy of models trained with them; fails if a target is missed',
  options: [
    tabsOption(4),
    option('--bytes <n>', 'size of the tensor in bytes', wholeNumber(4), 4 * 2 ** 20),
    option('--rounds <n>', 'number of all-reduces with each codec', wholeNumber(1), 5),
    hostsOption(),
    new Option('--rate <rate>', "maximum rate of the hosts' lines").default('20mbit'),
    option('--seeds <n>', 'number of training runs of each variant', wholeNumber(1), 3),
    option('--epochs <n>', 'number of epochs of each training run', wholeNumber(1), 5),
    digitsOption(),
  ],
  run: benchCodecs,
  section,
});
