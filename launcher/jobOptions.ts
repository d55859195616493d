/** The options that say what to train, shared by `serve` and `run`. */
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  PLANNED_CODECS,
  JOB_NAMES,
  MODEL_NAMES,
  OPTIMIZER_NAMES,
  defaultsOf,
  parseJob,
  SCHEDULE_NAMES,
  STRATEGY_NAMES,
  TRANSPORT_NAMES,
  type JobSpec,
} from '../src/protocol/job.ts';
import { PRESET_NAMES, PRESETS, TOKEN_KINDS, type PresetName, type TokenKind } from '../src/protocol/gpt.ts';
import { LOSS_NAMES, METRIC_NAMES, TASK_NAMES } from '../src/protocol/measures.ts';
import { MAX_WORLD_SIZE, type Nodes } from '../src/protocol/control.ts';
import { readJobFile } from '../src/protocol/jobFile.ts';
import { messageOf, UsageError } from '../src/util/errors.ts';
import { DATA_PATH, IDX_FILE, listDataFiles } from '../signaling/index.ts';

/** Options that say something about the job itself. */
const JOB_OPTIONS = [
  ...(['job', 'model', 'optimizer', 'lr', 'batch', 'epochs', 'steps', 'seed', 'hashEvery'] as const),
  ...([
    'schedule',
    'warmupSteps',
    'clipNorm',
    'weightDecay',
    'patience',
    'preset',
    'tokens',
    'vocabulary',
    'prompt',
  ] as const),
  ...(['hidden', 'strategy', 'syncEvery', 'staleness', 'replicas', 'codec', 'errorFeedback', 'transport'] as const),
  ...(['target', 'task', 'loss', 'metrics', 'side', 'channels'] as const),
];

/** What jobs cannot do without. */
const NEEDED: Readonly<Record<string, string>> = {
  mnist: 'a folder of IDX files',
  images: 'a zip or npz file, or a folder of pictures in a folder for each class',
  table: 'a CSV file',
};

export interface JobOptions {
  /** A job file; other options win over what it says. */
  file?: string;
  job?: string;
  model?: string;
  optimizer?: string;
  lr?: number;
  batch?: number;
  epochs?: number;
  steps?: number;
  patience?: number;
  seed?: number;
  hashEvery?: number;
  strategy?: string;
  syncEvery?: number;
  staleness?: number;
  replicas?: number;
  hidden?: number;
  codec?: string;
  errorFeedback?: 'on' | 'off';
  transport?: string;
  schedule?: string;
  warmupSteps?: number;
  clipNorm?: number;
  weightDecay?: number;
  preset?: PresetName;
  tokens?: TokenKind;
  vocabulary?: number;
  prompt?: string;
  target?: string;
  task?: string;
  loss?: string;
  metrics?: readonly string[];
  side?: number;
  channels?: number;
  /** A folder or file on this machine, or a URL that every tab can read. */
  data?: string;
}

/** How long a run may train, where that can be said. */
export interface LengthOptions {
  minutes?: number;
}

/** Reads a whole number from `min` to `max`. */
export function wholeNumber(min = 0, max = Number.MAX_SAFE_INTEGER) {
  return (text: string): number => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    const bounds = max === Number.MAX_SAFE_INTEGER ? '' : ` from ${min} to ${max}`;
    throw new InvalidArgumentError(`It must be a whole number${bounds}.`);
  };
}

/** Reads torchrun's `--nnodes`: a number, or a range `MIN:MAX`. */
export function nodes(text: string): number | Nodes {
  const one = wholeNumber(1, MAX_WORLD_SIZE);
  if (!text.includes(':')) return one(text);
  const [min, max] = text.split(':').map(one);
  if (max === undefined || text.split(':').length > 2) throw new InvalidArgumentError('It must be n or MIN:MAX.');
  if (min! > max) throw new InvalidArgumentError('MIN must not be above MAX.');
  return { min: min!, max };
}

function decimal(text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value)) return value;
  throw new InvalidArgumentError('It must be a number.');
}

export function addJobOptions(command: Command): Command {
  // Bounds are the protocol's: parseJob checks them.
  return command
    .addOption(new Option('--job <name>', 'what to train').choices(JOB_NAMES))
    .addOption(new Option('--model <name>', 'which model').choices(MODEL_NAMES))
    .option('--hidden <n>', "units of the mlp's hidden layer", wholeNumber())
    .addOption(new Option('--preset <name>', 'size of the job gpt (default: tiny)').choices(PRESET_NAMES))
    .addOption(new Option('--tokens <kind>', 'what the job gpt writes in (default: characters)').choices(TOKEN_KINDS))
    .option('--vocabulary <n>', 'how many byte pairs there are', wholeNumber())
    .option('--prompt <text>', 'what the samples of the job gpt begin with')
    .addOption(new Option('--optimizer <name>', 'which optimizer').choices(OPTIMIZER_NAMES))
    .option('--lr <rate>', 'learning rate', decimal)
    .option('--batch <n>', 'samples per tab and step', wholeNumber())
    .option('--epochs <n>', 'passes over the training data', wholeNumber())
    .option('--steps <n>', 'stop after so many steps', wholeNumber())
    .addOption(
      new Option(
        '--schedule <name>',
        'how the learning rate goes (gpt: cosine, else constant); range-test looks for one',
      ).choices(SCHEDULE_NAMES),
    )
    .option('--warmup-steps <n>', 'steps in which the learning rate rises at first', wholeNumber())
    .option('--clip-norm <length>', 'scale longer gradients down to it', decimal)
    .option('--weight-decay <share>', "the optimizer's weight decay", decimal)
    .option(
      '--patience <n>',
      'stop after so many tests on held-out samples without a lower loss, and --out the best model',
      wholeNumber(),
    )
    .option('--seed <n>', 'seed of parameters and shuffles', wholeNumber())
    .option('--hash-every <n>', 'compare the ranks every n steps', wholeNumber())
    .addOption(new Option('--strategy <name>', 'how ranks learn together').choices(STRATEGY_NAMES))
    .option(
      '--sync-every <n>',
      'steps between two exchanges (local-sgd, diloco, async-parameter-server)',
      wholeNumber(),
    )
    .option('--staleness <n>', 'steps a rank may be ahead of the slowest (async-parameter-server)', wholeNumber())
    .option('--replicas <n>', 'workers in the one tab (data-parallel)', wholeNumber())
    .addOption(
      new Option('--codec <name>', 'how gradients travel (ring; diloco: fp16, int8); auto: as links need').choices(
        PLANNED_CODECS,
      ),
    )
    .addOption(
      new Option('--error-feedback <on|off>', 'add what a codec lost to what is sent next').choices(['on', 'off']),
    )
    .addOption(
      new Option('--transport <name>', 'how tabs of one browser are linked; auto: by message ports').choices(
        TRANSPORT_NAMES,
      ),
    )
    .option('--target <column>', 'the column to predict (table); the last by default')
    .addOption(new Option('--task <name>', 'what to learn of it (table); by default as it looks').choices(TASK_NAMES))
    .addOption(
      new Option('--loss <name>', 'what is made small; by default as what is learned has it').choices(LOSS_NAMES),
    )
    .option(
      '--metrics <names>',
      `what is told of held-out samples, with commas between (${METRIC_NAMES.join(', ')})`,
      (text: string) => text.split(',').map((name) => name.trim()),
    )
    .option('--side <pixels>', 'what pictures are brought to (images)', wholeNumber())
    .option('--channels <n>', '1 for grey, 3 for colours (images)', wholeNumber())
    .option(
      '--data <path|url>',
      'IDX files (mnist), a CSV file (table), a zip or npz file or a folder of pictures by class (images), a text or a folder of texts (gpt)',
    );
}

/** For commands that end with the run. */
export function addLengthOptions(command: Command): Command {
  return command.option('--minutes <n>', 'stop after so many minutes of training', decimal);
}

/** Whether anything was said about the job itself. (A data folder alone is only served.) */
export function saysJob(options: JobOptions & LengthOptions): boolean {
  const { minutes, file } = options;
  return minutes !== undefined || file !== undefined || JOB_OPTIONS.some((name) => options[name] !== undefined);
}

/** The command line that says the same: for another process of ours. */
export function jobArguments(options: JobOptions): string[] {
  return [...JOB_OPTIONS, 'data' as const].flatMap((name) => {
    const value = options[name];
    return value === undefined ? [] : [flagOf(name), String(value)];
  });
}

/** What was said about the job and its data, as it stands in the command line: for a process that nobody asks for it. */
export function saidOfJob(options: JobOptions & LengthOptions): string[] {
  const { file } = options;
  const named = [...JOB_OPTIONS, 'data' as const, 'minutes' as const].filter((name) => options[name] !== undefined);
  return [...(file === undefined ? [] : [file]), ...named.map(flagOf)];
}

function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/**
 * The job that the options and their file describe, and the folder or file to serve for it, if any.
 *
 * @throws UsageError where they cannot work; DataError where the file is no job's.
 */
export async function resolveJob(
  options: JobOptions,
  { minutes }: LengthOptions = {},
): Promise<{ job: JobSpec; served: string | null }> {
  const { data, file } = options;
  const said = file === undefined ? {} : await readSaid(file);
  const name = options.job ?? (said['job'] as string | undefined);
  const isUrl = data !== undefined && /^https?:\/\//.test(data);
  const served = data === undefined || isUrl ? null : await checkData(data, name);
  const needed = name === undefined ? undefined : NEEDED[name];
  if (needed !== undefined && data === undefined && said['data'] === undefined) {
    throw new UsageError(`The job ${name} needs its data: pass --data with ${needed}, or a URL of it.`);
  }
  const fields = {
    job: options.job,
    model: options.model,
    optimizer: options.optimizer,
    learningRate: options.lr,
    batchSize: options.batch,
    epochs: options.epochs,
    maxSteps: options.steps,
    seed: options.seed,
    hashEvery: options.hashEvery,
    strategy: options.strategy,
    syncEvery: options.syncEvery,
    staleness: options.staleness,
    replicas: options.replicas,
    hidden: options.hidden,
    codec: options.codec,
    errorFeedback: options.errorFeedback && options.errorFeedback === 'on',
    transport: options.transport,
    schedule: options.schedule,
    warmupSteps: options.warmupSteps,
    clipNorm: options.clipNorm,
    weightDecay: options.weightDecay,
    patience: options.patience,
    maxMinutes: minutes,
    ...{ target: options.target, task: options.task, loss: options.loss, metrics: options.metrics },
    ...{ side: options.side, channels: options.channels },
    data: await dataOf(name, data, isUrl),
  };
  const asked = { ...said, ...gptFields(name, options, said, minutes), ...definedOf(fields) };
  return { job: parseJob(asked), served };
}

/** What a job file says. @throws (rejects) UsageError where it cannot be read, DataError where it is none. */
async function readSaid(file: string): Promise<Record<string, unknown>> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new UsageError(`${file} cannot be read: check its path. (${messageOf(error)})`);
  });
  return readJobFile(path.basename(file), text).said;
}

function definedOf(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** What the size of a language model says, as numbers; nothing for other jobs. @throws UsageError where it is said of these. */
function gptFields(
  job: string | undefined,
  { preset, prompt, tokens, vocabulary, schedule }: JobOptions,
  file: Record<string, unknown>,
  minutes?: number,
): Record<string, unknown> {
  const said = { tokens, vocabulary, prompt };
  if (job !== 'gpt') {
    const [name] = Object.keys(definedOf({ preset, ...said }));
    if (name !== undefined) throw new UsageError(`--${name} is for the job gpt: pass --job gpt, or leave it out.`);
    return {};
  }
  const { model, ...plan } = preset === undefined ? { model: {} } : PRESETS[preset];
  const isTest = (schedule ?? file['schedule']) === 'range-test';
  const before = (file['gpt'] as JobSpec['gpt'] | undefined) ?? defaultsOf(job, undefined).gpt;
  return {
    ...{ ...plan, gpt: { ...before, ...model, ...definedOf(said) } },
    // Time is the bound then, unless the steps say how rates rise.
    ...(minutes !== undefined && file['maxSteps'] === undefined && !isTest && { maxSteps: null }),
  };
}

/** The job's data; `undefined` for jobs that have their own. */
async function dataOf(job: string | undefined, data: string | undefined, isUrl: boolean): Promise<unknown> {
  if (data === undefined) return undefined;
  if (job === 'mnist') return { kind: 'url', url: isUrl ? withSlash(data) : DATA_PATH };
  if (job !== 'gpt' && job !== 'images' && job !== 'table') return undefined;
  if (isUrl) return { kind: 'url', url: data };
  const isFile = (await stat(data)).isFile();
  return { kind: 'url', url: isFile ? DATA_PATH + encodeURIComponent(path.basename(data)) : DATA_PATH };
}

/** {@link resolveJob}, of a job that trains, in tabs without people. */
export async function resolveTraining(options: JobOptions, length: LengthOptions = {}): ReturnType<typeof resolveJob> {
  const resolved = await resolveJob(options, length);
  const { job, data } = resolved.job;
  if (job === 'lesson') {
    throw new UsageError(
      'A lesson is for people and trains nothing: open one with `serve --job lesson`, or on the page.',
    );
  }
  if (data.kind !== 'files' && data.kind !== 'spread') return resolved;
  throw new UsageError(
    `The job's files are chosen by people, and there are none here: pass --data with ${NEEDED[job] ?? 'a text'}, or a URL of it.`,
  );
}

function withSlash(url: string): string {
  return url.endsWith('/') ? url : `${url}/`;
}

/** @throws UsageError unless `data` is what `job` needs, or, where no job is said, what some job does. */
export async function checkData(data: string, job?: string): Promise<string> {
  if (job === 'gpt') return checkFiles(data, 'text', 'a text file, or a folder of files ending in .txt');
  if (job === 'images' || job === 'table') {
    return checkFiles(data, 'pictures', 'a file, or a folder of pictures in a folder for each class');
  }
  const names = job === undefined ? await listDataFiles(data).catch(() => []) : [];
  return names.some((name) => !IDX_FILE.test(name)) ? data : checkDataFolder(data);
}

/** Files of one's own. @throws UsageError where there are none. */
async function checkFiles(data: string, what: string, expected: string): Promise<string> {
  const names = await listDataFiles(data).catch(() => {
    throw new UsageError(`The data ${data} cannot be read: expected ${expected}.`);
  });
  if (names.length === 0) throw new UsageError(`The data folder ${data} holds no ${what}: expected ${expected}.`);
  return data;
}

/** @throws UsageError unless `folder` holds at least one pair of images and labels. */
export async function checkDataFolder(folder: string): Promise<string> {
  const expected =
    'expected train-images-idx3-ubyte and train-labels-idx1-ubyte, or the same two named t10k-..., each plain or .gz';
  let files: string[];
  try {
    files = await listDataFiles(folder);
  } catch {
    throw new UsageError(`The data folder ${folder} cannot be read: ${expected}.`);
  }
  const has = (name: string) => files.includes(name) || files.includes(`${name}.gz`);
  const hasPair = ['train', 't10k'].some((set) => has(`${set}-images-idx3-ubyte`) && has(`${set}-labels-idx1-ubyte`));
  if (!hasPair) throw new UsageError(`The data folder ${folder} holds no pair of images and labels: ${expected}.`);
  return folder;
}
