/**
 * `bench methods`: trains a classifier and a language model with each method for slow networks, in
 * Node, and compares bytes and results with `ddp`.
 */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { Option } from 'commander';
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import { errorMessageOf, UsageError } from '../src/util/errors.ts';
import { mapConcurrently } from '../src/util/mapConcurrently.ts';
import { mean } from '../src/util/statistics.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { digitsOption, option, tabsOption } from './command/options.ts';
import { LoadGenerator } from './signaling/child.ts';
import type { TrialOrder, TrialResult } from './training/trial.ts';
import { table } from '../tools/report/table.ts';

interface MethodsOptions {
  tabs: number;
  seeds: number;
  epochs: number;
  steps: number;
  /** Folder with MNIST's files. */
  data?: string;
  /** Path of the language model's text. */
  text?: string;
}

/** Number of training processes that run at once, for the two cores that the tests assume. */
const PROCESSES = 2;

/** Fields of all jobs. */
const ALL = {
  // So large that ranks compare their states only at the end.
  hashEvery: 1_000_000,
  // Shares by measured speed would differ from run to run, and with them the order of sums. After
  // thousands of steps, losses of equal jobs then differ by hundredths.
  balance: 'equal',
};

export interface Method {
  name: string;
  fields: Readonly<Record<string, unknown>>;
}

export const METHODS: readonly Method[] = [
  { name: 'ddp', fields: {} },
  { name: 'ddp, int8', fields: { codec: 'int8' } },
  { name: 'ddp, PowerSGD', fields: { codec: 'powersgd' } },
  { name: 'DiLoCo, int8', fields: { strategy: 'diloco', codec: 'int8' } },
  { name: 'streaming DiLoCo, int8', fields: { strategy: 'streaming-diloco', codec: 'int8' } },
  { name: 'SparseLoCo', fields: { strategy: 'sparseloco' } },
];

type TaskName = 'mnist' | 'gpt tiny';

interface MethodRow {
  task: TaskName;
  method: string;
  /** Bytes that the busiest rank sends in the whole run, framing included. */
  bytesPerRank: number;
  /** Bytes of ddp divided by the bytes of this method. */
  fewer: number;
  /** Mean over the seeds; only of the classifier. */
  accuracy?: number;
  /** Mean loss of held-out samples, only of the language model; nats per character. */
  valLoss?: number;
  /** Percentage points, or nats, by which the method is worse than ddp. */
  difference: number;
}

type MethodsResult = MethodsOptions & { rows: MethodRow[] };

async function measure(options: MethodsOptions, io: Io): Promise<MethodsResult> {
  return { ...options, rows: [...(await classifiers(options, io)), ...(await languageModels(options, io))] };
}

async function classifiers({ tabs, seeds, epochs, data }: MethodsOptions, io: Io): Promise<MethodRow[]> {
  const files = data === undefined ? [] : filesOf(data);
  const digits = data === undefined ? {} : { job: 'mnist', data: { kind: 'files' } };
  const all = { ...ALL, ...digits, hidden: 256, batchSize: 32, epochs };
  const orders = METHODS.flatMap(({ name, fields }) =>
    Array.from({ length: seeds }, (_, seed) => ({
      name: `digits, ${name}, seed ${seed + 1}`,
      ...{ tabs, files, fields: { ...all, ...fields, seed: seed + 1 } },
    })),
  );
  const trials = await runTrials(orders, io);
  return rowsOf(
    'mnist',
    METHODS.map((_, i) => trials.slice(i * seeds, (i + 1) * seeds)),
  );
}

/** All methods read the same number of tokens. */
async function languageModels({ tabs, steps, text }: MethodsOptions, io: Io): Promise<MethodRow[]> {
  const all = { ...ALL, job: 'gpt', maxSteps: steps, epochs: 1000 };
  const orders = METHODS.map(({ name, fields }) => ({
    name: `gpt tiny, ${name}`,
    ...{ tabs, files: text === undefined ? [] : [text], fields: { ...all, ...fields } },
  }));
  const trials = await runTrials(orders, io);
  return rowsOf(
    'gpt tiny',
    trials.map((trial) => [trial]),
  );
}

/** @throws UsageError if the folder cannot be read. */
function filesOf(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => path.join(folder, name));
  } catch (error) {
    throw new UsageError(`${folder} cannot be read: ${errorMessageOf(error)}. Pass a folder with MNIST's IDX files.`);
  }
}

/** Trains in a process for each order. Resolves with the results in the order of `orders`. */
function runTrials(orders: readonly (TrialOrder & { name: string })[], io: Io): Promise<TrialResult[]> {
  return mapConcurrently(orders, PROCESSES, async ({ name, ...order }) => {
    io.err(`${name} ...`);
    const child = new LoadGenerator(new URL('./training/trial.ts', import.meta.url).href, JSON.stringify(order));
    try {
      return await child.next<TrialResult>();
    } finally {
      await child.kill();
    }
  });
}

const bytesOf = (own: readonly TrialResult[]): number => mean(own.map(({ bytes }) => bytes));
const accuracyOf = (own: readonly TrialResult[]): number => mean(own.map(({ accuracy }) => accuracy!));
const valLossOf = (own: readonly TrialResult[]): number => mean(own.map(({ valLoss }) => valLoss));

/** @param trials for each method, its results with each seed. */
export function rowsOf(task: TaskName, trials: readonly (readonly TrialResult[])[]): MethodRow[] {
  const [plain] = trials;
  return METHODS.map(({ name }, i) => {
    const own = trials[i]!;
    const row = { task, method: name, bytesPerRank: bytesOf(own), fewer: bytesOf(plain!) / bytesOf(own) };
    return task === 'mnist'
      ? { ...row, accuracy: accuracyOf(own), difference: 100 * (accuracyOf(plain!) - accuracyOf(own)) }
      : { ...row, valLoss: valLossOf(own), difference: valLossOf(own) - valLossOf(plain!) };
  });
}

export function section(result: MethodsResult): string {
  const { tabs, seeds, epochs, steps } = result;
  return `## Methods for slow networks

\`npm run -s bench -- methods --data DIR --text FILE --steps ${steps}\`: ${tabs} ranks in one Node process, on WebAssembly, over memory links.
*mnist*: an mlp with 256 hidden units, batches of 32 per rank, ${epochs} epochs over
8000 images, mean of ${seeds} seeds, accuracy on 2000 held-out images. *gpt tiny*: the job gpt, ${steps} steps, loss of held-out text per character.
Bytes are those of the busiest rank in the whole run.

${table(
  ['task', 'method', 'MB per rank', 'times fewer', 'result', 'worse than ddp'],
  result.rows.map(({ task, method, bytesPerRank, fewer, accuracy, valLoss, difference }) => [
    ...[task, method, (bytesPerRank / 1e6).toFixed(2), fewer.toFixed(fewer < 10 ? 1 : 0)],
    accuracy === undefined ? `${valLoss!.toFixed(3)} nats` : `${(100 * accuracy).toFixed(2)} %`,
    accuracy === undefined ? difference.toFixed(3) : `${difference.toFixed(2)} points`,
  ]),
)}
`;
}

export const methods = defineBenchmark({
  name: 'methods',
  description: 'compare bytes and results of the methods for slow networks',
  options: [
    tabsOption(4),
    option('--seeds <n>', 'number of training runs of each classifier', wholeNumber(1), 3),
    option('--epochs <n>', 'number of epochs of each classifier', wholeNumber(1), 5),
    option('--steps <n>', 'number of steps of each language model', wholeNumber(1), 10_000),
    digitsOption(),
    new Option('--text <file>', 'text file for the language model (default: built-in fables)'),
  ],
  measure,
  section,
});
