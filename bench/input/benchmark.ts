/**
 * `bench input`: measures how fast large data reach training in real tabs: the time until the first
 * step, samples per second in the first epoch and later, and the memory of the browser.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { train } from '../../launcher/commands/run.ts';
import type { Io } from '../../launcher/io.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { table } from '../../tools/report/table.ts';
import { memoryOfTree } from '../classroom/processes.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { listOf, oneOf, option, tabsOption } from '../command/options.ts';
import { INPUT_KINDS, type InputKind } from './data.ts';

interface InputOptions {
  tabs: number;
  kinds: readonly string[];
  /** Number of pictures, rows or characters; by default the number of the kind. */
  count?: number;
  steps: number;
}

interface InputRun {
  kind: string;
  unit: InputKind['unit'];
  count: number;
  /** Seconds from the moment at which the last tab has a device to the first step. */
  firstStepS: number;
  /**
   * Samples of all tabs together per second in the first epoch, and in later ones; `null` if the
   * steps end in the first.
   */
  firstEpoch: number;
  lastEpochs: number | null;
  /** Median milliseconds of a step, and the part in which a rank waited for its samples. */
  stepMs: number;
  dataMs: number;
  /** The largest memory of the browser and the server, in MB. */
  memoryMb: number;
}

interface InputResult {
  tabs: number;
  runs: InputRun[];
}

/** Seconds between two looks at the memory of processes. */
const LOOK_MS = 2000;
/** Seconds after which a run fails. */
const TIMEOUT_S = 1200;
const BATCH = 128;
/** Epochs of a second run, which measures the later ones. */
const EPOCHS = 5;

/** @throws (rejects) the errors of `train`. */
async function measure({ tabs, kinds, count, steps }: InputOptions, io: Io): Promise<InputResult> {
  const runs: InputRun[] = [];
  for (const kind of INPUT_KINDS.filter(({ name }) => kinds.includes(name))) {
    const folder = await mkdtemp(path.join(tmpdir(), 'peergrad-input-'));
    try {
      const units = count ?? kind.count;
      io.err(`${kind.name}: writing ${units} ${kind.unit} ...`);
      runs.push(await measureKind(kind, await kind.write(folder, units), { tabs, steps, units }, io));
    } finally {
      await rm(folder, { recursive: true });
    }
  }
  return { tabs, runs };
}

async function measureKind(
  { name, job, unit }: InputKind,
  data: string,
  { tabs, steps, units }: { tabs: number; steps: number; units: number },
  io: Io,
): Promise<InputRun> {
  let readyAt = 0;
  let firstStepAt = 0;
  const logEvent = (event: string): void => {
    if (event === 'device') readyAt = performance.now();
    if (event === 'step') firstStepAt ||= performance.now();
  };
  let memory = 0;
  const look = setInterval(() => {
    memory = Math.max(memory, memoryOfTree(process.pid));
  }, LOOK_MS);
  try {
    const trained = { tabs, data, job, model: 'mlp', batch: BATCH, steps, hashEvery: 50 };
    const launched = { backend: 'wasm', gpu: 'auto', kernels: 'own', timeout: TIMEOUT_S, maxRestarts: 0 } as const;
    const first = await train({ ...trained, ...launched, epochs: 1 }, { ...io, logEvent }, {});
    const firstStepS = (firstStepAt - readyAt) / 1000;
    const all = first.steps < steps ? await train({ ...trained, ...launched, epochs: EPOCHS }, io, {}) : null;
    return {
      kind: name,
      unit,
      count: units,
      firstStepS,
      firstEpoch: (first.steps * tabs * BATCH * 1000) / first.ms,
      lastEpochs: all && ((all.steps - first.steps) * tabs * BATCH * 1000) / (all.ms - first.ms),
      stepMs: (all ?? first).stepMs.median,
      dataMs: (all ?? first).stepMs.data,
      memoryMb: memory / 1e6,
    };
  } finally {
    clearInterval(look);
  }
}

function section({ tabs, runs }: InputResult): string {
  return `## Large data

\`npm run -s bench -- input\`: tabs of one browser train the mlp on pictures of 96 x 96 pixels, on a table and on a text, with 128 samples per tab
and step. The first step is counted from the moment at which the last tab has a device. *later* is the rate of epochs 2 to 5, in
a second run; – if the steps end in the first epoch. *of that reading* is the part of a step in which a rank waits for samples.

${table(
  ['data', 'first step, s', 'samples/s, epoch 1', 'later', 'step, ms', 'of that reading', 'memory, MB'],
  runs.map(({ kind, unit, count, firstStepS, firstEpoch, lastEpochs, stepMs, dataMs, memoryMb }) => [
    ...[`${kind}, ${count} ${unit}, ${tabs} tabs`, firstStepS.toFixed(1), firstEpoch.toFixed(0)],
    ...[lastEpochs?.toFixed(0) ?? '–', stepMs.toFixed(0), dataMs.toFixed(0), memoryMb.toFixed(0)],
  ]),
)}
`;
}

export const input = defineBenchmark({
  name: 'input',
  description: 'measure how fast large data reach training, in tabs on WebAssembly',
  options: [
    tabsOption(2),
    option(
      '--kinds <name,..>',
      'data to measure',
      listOf(oneOf(INPUT_KINDS.map(({ name }) => name))),
      INPUT_KINDS.map(({ name }) => name),
    ),
    option('--count <n>', 'pictures, rows or characters (default: as many as the kind has)', wholeNumber(1, 1e9)),
    option('--steps <n>', 'largest number of steps of a run', wholeNumber(1, 1e6), 300),
  ],
  measure,
  section,
});
