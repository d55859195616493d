/** Options of the job, shared by `serve` and `run`. */
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  picklistValuesOf,
  fieldNotationOf,
  type FieldDeclaration,
  type CommandLineOption,
} from '../../src/spec/fields.ts';
import { GPT_FIELDS, GPT_PRESET_NAMES, GPT_PRESETS, type GptPresetName } from '../../src/spec/gpt.ts';
import { jobDefaultsFor, JOB_FIELD_DECLARATIONS, parseJob, type JobSpec } from '../../src/spec/job.ts';
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';
import type { NodeCountRange } from '../../src/protocol/room.ts';
import { readJobFile } from '../../src/spec/jobFile.ts';
import { errorMessageOf, UsageError } from '../../src/util/errors.ts';
import { fileKindOfName } from '../../src/spec/dataFiles.ts';
import { hasMnistPair } from '../../src/spec/mnistFiles.ts';
import { DATA_PATH, listDataFiles } from '../../signaling/http/data.ts';

/** A job field that an option sets. */
interface OptionField {
  /** The field's name. */
  field: string;
  /** The option's name. */
  name: string;
  schema: FieldDeclaration['schema'];
  option: CommandLineOption;
}

const JOB_OPTIONS = optionsOf(JOB_FIELD_DECLARATIONS).filter(({ field }) => field !== 'maxMinutes');
/** Options for the fields of a job's `gpt`, the size of a language model. */
const GPT_OPTIONS = optionsOf(GPT_FIELDS);
/** Names of all options that define the job itself. */
const JOB_OPTION_NAMES = [
  ...[...JOB_OPTIONS, ...GPT_OPTIONS].map(({ name }) => name),
  'preset',
] as (keyof JobOptions)[];

/** The data that each job needs, in words for errors. */
const NEEDED: Readonly<Record<string, string>> = {
  mnist: 'a folder of IDX files',
  images: 'a zip or npz file, or a folder that has one folder of pictures per class',
  table: 'a CSV file',
};

type OptionName<Fields extends Record<string, FieldDeclaration>, Name extends keyof Fields> = Fields[Name] extends {
  option: infer Declared extends CommandLineOption;
}
  ? Declared extends { name: infer Other extends string }
    ? Other
    : Name
  : never;

type OptionValue<Value> = Value extends null | undefined
  ? never
  : Value extends boolean
    ? 'on' | 'off'
    : Value extends number
      ? number
      : Value extends readonly unknown[]
        ? readonly string[]
        : string;

type OptionsOf<Fields extends Record<string, FieldDeclaration>> = {
  [Name in keyof Fields as OptionName<Fields, Name>]?: OptionValue<Fields[Name]['defaultValue']>;
};

export interface JobOptions
  extends Omit<OptionsOf<typeof JOB_FIELD_DECLARATIONS>, 'minutes'>, OptionsOf<typeof GPT_FIELDS> {
  /** A job file. Other options override the fields of the file. */
  file?: string;
  preset?: GptPresetName;
  /** The job's data: a folder or file on this machine, or a URL that every tab can read. */
  data?: string;
}

/** Options for the length of a run, for commands that end when the run ends. */
export interface LengthOptions {
  minutes?: number;
}

/** Returns a parser for whole numbers from `min` to `max`. */
export function wholeNumber(min = 0, max = Number.MAX_SAFE_INTEGER) {
  return (text: string): number => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    const bounds = max === Number.MAX_SAFE_INTEGER ? '' : ` from ${min} to ${max}`;
    throw new InvalidArgumentError(`The value must be a whole number${bounds}.`);
  };
}

/** Parses torchrun's `--nnodes`: a number, or a range `MIN:MAX`. */
export function nodes(text: string): number | NodeCountRange {
  const one = wholeNumber(1, MAX_WORLD_SIZE);
  if (!text.includes(':')) return one(text);
  const [min, max] = text.split(':').map(one);
  if (max === undefined || text.split(':').length > 2)
    throw new InvalidArgumentError('The value must be n or MIN:MAX.');
  if (min! > max) throw new InvalidArgumentError('MIN must not be above MAX.');
  return { min: min!, max };
}

function decimal(text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value)) return value;
  throw new InvalidArgumentError('The value must be a number.');
}

function optionsOf(fields: Record<string, FieldDeclaration>): OptionField[] {
  return Object.entries(fields).flatMap(([field, { schema, option }]) =>
    option === undefined ? [] : [{ field, name: option.name ?? field, schema, option }],
  );
}

/** Returns the option for a field. It does not check bounds; {@link parseJob} does. */
function optionFor({ name, schema, option }: OptionField): Option {
  const result = new Option(`${flagOf(name)} <${option.value}>`, option.help);
  const { choices } = option;
  if (choices !== undefined) return result.choices(choices);
  switch (fieldNotationOf(schema)) {
    case 'choice':
      return result.choices(picklistValuesOf(schema) as string[]);
    case 'switch':
      return result.choices(['on', 'off']);
    case 'whole':
      return result.argParser(wholeNumber());
    case 'decimal':
      return result.argParser(decimal);
    case 'list':
      return result.argParser((text: string) => text.split(',').map((one) => one.trim()));
    case 'text':
    case null:
  }
  return result;
}

export function addJobOptions(command: Command): Command {
  for (const one of JOB_OPTIONS) {
    command.addOption(optionFor(one));
    // In the help, the options of language models come after the options of other models.
    if (one.field === 'hidden') addGptOptions(command);
  }
  return command.option(
    '--data <path|url>',
    'data: a folder of IDX files (mnist); a CSV, Parquet or xlsx file (table); a zip or npz file, or a folder with one folder per class (images); a text or a folder of texts (gpt)',
  );
}

function addGptOptions(command: Command): void {
  command.addOption(
    new Option('--preset <name>', 'model size of the job gpt (default: tiny)').choices(GPT_PRESET_NAMES),
  );
  for (const one of GPT_OPTIONS) command.addOption(optionFor(one));
}

/** Adds `--minutes`, for commands that end when the run ends. */
export function addLengthOptions(command: Command): Command {
  const { schema, option } = JOB_FIELD_DECLARATIONS.maxMinutes;
  return command.addOption(optionFor({ field: 'maxMinutes', name: option.name, schema, option }));
}

/** Returns whether at least one option defines the job. A data folder alone does not define it. */
export function describesJob(options: JobOptions & LengthOptions): boolean {
  const { minutes, file } = options;
  return minutes !== undefined || file !== undefined || JOB_OPTION_NAMES.some((name) => options[name] !== undefined);
}

/**
 * Returns command-line arguments that pass the options of the job to another process. A job file is
 * not included.
 */
export function jobArguments(options: JobOptions): string[] {
  return [...JOB_OPTION_NAMES, 'data' as const].flatMap((name) => {
    const value = options[name];
    return value === undefined ? [] : [flagOf(name), String(value)];
  });
}

/**
 * Returns the flags of the job and its data that are set, to report the flags that a process
 * ignores.
 */
export function jobFlags(options: JobOptions & LengthOptions): string[] {
  const { file } = options;
  const named = [...JOB_OPTION_NAMES, 'data' as const, 'minutes' as const].filter(
    (name) => options[name] !== undefined,
  );
  return [...(file === undefined ? [] : [file]), ...named.map(flagOf)];
}

function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/**
 * Resolves with the job that the options and the job file define, and with the folder or file to
 * serve for this job, if there is one.
 *
 * @throws (rejects) UsageError if options are invalid or contradict each other; DataError if the
 *   given file is not a job file.
 */
export async function resolveJob(
  options: JobOptions,
  { minutes }: LengthOptions = {},
): Promise<{ job: JobSpec; served: string | null }> {
  const { data, file } = options;
  const fromFile = file === undefined ? {} : await readJobFields(file);
  const name = options.job ?? (fromFile['job'] as string | undefined);
  const isUrl = data !== undefined && /^https?:\/\//.test(data);
  const served = data === undefined || isUrl ? null : await checkData(data, name);
  const needed = name === undefined ? undefined : NEEDED[name];
  if (needed !== undefined && data === undefined && fromFile['data'] === undefined) {
    throw new UsageError(`The job ${name} needs data. Pass --data with ${needed}, or with a URL.`);
  }
  const fields = { ...fieldsFrom(options, JOB_OPTIONS), maxMinutes: minutes, data: await dataOf(name, data, isUrl) };
  const requested = { ...fromFile, ...gptFields(name, options, fromFile, minutes), ...definedOf(fields) };
  return { job: parseJob(requested), served };
}

/**
 * Reads the fields of a job file.
 *
 * @throws (rejects) UsageError if it cannot be read, DataError if it is not a job file.
 */
async function readJobFields(file: string): Promise<Record<string, unknown>> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new UsageError(`${file} cannot be read. Check its path. (${errorMessageOf(error)})`);
  });
  return readJobFile(path.basename(file), text).fields;
}

/** Returns the job's fields that options set. */
function fieldsFrom(options: JobOptions, fields: readonly OptionField[]): Record<string, unknown> {
  const values = fields.map(({ field, name, schema }) => {
    const value: unknown = options[name as keyof JobOptions];
    return [field, fieldNotationOf(schema) === 'switch' && value !== undefined ? value === 'on' : value];
  });
  return definedOf(Object.fromEntries(values) as Record<string, unknown>);
}

function definedOf(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/**
 * Returns the fields that define the size of a language model; none for other jobs.
 *
 * @throws UsageError if one of these options is set, but the job is not a language model.
 */
function gptFields(
  job: string | undefined,
  options: JobOptions,
  file: Record<string, unknown>,
  minutes?: number,
): Record<string, unknown> {
  const { preset, measure } = options;
  const chosen = fieldsFrom(options, GPT_OPTIONS);
  if (job !== 'gpt') {
    const [name] = Object.keys(definedOf({ preset, ...chosen }));
    if (name !== undefined)
      throw new UsageError(`--${name} is only for the job gpt. Pass --job gpt, or remove the option.`);
    return {};
  }
  const { model = {}, pipeline = null, ...plan } = preset === undefined ? {} : GPT_PRESETS[preset];
  const isTest = (measure ?? file['measure']) === 'learning-rate';
  const strategy = options.strategy ?? file['strategy'];
  const before = (file['gpt'] as JobSpec['gpt'] | undefined) ?? jobDefaultsFor(job, undefined).gpt;
  return {
    ...plan,
    // A preset for a large model also sets a pipeline strategy, but not if the user has chosen a
    // different strategy.
    ...((strategy === undefined || strategy === pipeline?.strategy) && pipeline),
    gpt: { ...before, ...model, ...chosen },
    // With --minutes the default limit of steps is removed, unless the job file sets one. A range
    // test always needs a number of steps.
    ...(minutes !== undefined && file['maxSteps'] === undefined && !isTest && { maxSteps: null }),
  };
}

/** Returns the job's `data` field; `undefined` for jobs with built-in data. */
async function dataOf(job: string | undefined, data: string | undefined, isUrl: boolean): Promise<unknown> {
  if (data === undefined) return undefined;
  if (job === 'mnist') return { kind: 'url', url: isUrl ? withSlash(data) : DATA_PATH };
  if (job !== 'gpt' && job !== 'images' && job !== 'table') return undefined;
  if (isUrl) return { kind: 'url', url: data };
  const isFile = (await stat(data)).isFile();
  return { kind: 'url', url: isFile ? DATA_PATH + encodeURIComponent(path.basename(data)) : DATA_PATH };
}

/** Does the same as {@link resolveJob}, and rejects jobs that headless tabs cannot train. */
export async function resolveTraining(options: JobOptions, length: LengthOptions = {}): ReturnType<typeof resolveJob> {
  const resolved = await resolveJob(options, length);
  const { job, data } = resolved.job;
  if (job === 'lesson') {
    throw new UsageError(
      'A lesson is for people and does not train. Open a lesson with `serve --job lesson`, or on the page.',
    );
  }
  if (data.kind !== 'files' && data.kind !== 'shared') return resolved;
  throw new UsageError(
    `On the page, a user chooses the files of this job. Here, pass --data with ${NEEDED[job] ?? 'a text'}, or with a URL.`,
  );
}

function withSlash(url: string): string {
  return url.endsWith('/') ? url : `${url}/`;
}

/**
 * Checks that `data` contains files for `job`, or for at least one job if `job` is not given.
 *
 * @throws (rejects) UsageError if it does not.
 */
export async function checkData(data: string, job?: string): Promise<string> {
  if (job === 'gpt') return checkFiles(data, 'text', 'a text file, or a folder of files ending in .txt');
  if (job === 'images') return checkFiles(data, 'pictures', NEEDED[job]!);
  if (job === 'table') {
    const isFolder = await stat(data).then(
      (found) => found.isDirectory(),
      () => false,
    );
    if (isFolder) throw new UsageError(`${data} is a folder, but a table is one file. Pass ${NEEDED[job]}.`);
    return checkFiles(data, 'CSV file', NEEDED[job]!);
  }
  const names = job === undefined ? await namesIn(data).catch(() => []) : [];
  return names.some((name) => fileKindOfName(name) !== 'idx') ? data : checkDataFolder(data);
}

/** Returns the names of the files that a job may read. */
async function namesIn(data: string): Promise<string[]> {
  return (await listDataFiles(data)).flatMap(({ name, size }) => (size === undefined ? [] : [name]));
}

/** @throws (rejects) UsageError if there are no files of this kind. */
async function checkFiles(data: string, what: string, expected: string): Promise<string> {
  const names = await namesIn(data).catch(() => {
    throw new UsageError(`The data ${data} cannot be read. Pass ${expected}.`);
  });
  if (names.length === 0) throw new UsageError(`The data folder ${data} contains no ${what}. Pass ${expected}.`);
  return data;
}

/**
 * Checks the files in a folder of IDX files.
 *
 * @throws (rejects) UsageError unless `folder` contains at least one pair of images and labels.
 */
async function checkDataFolder(folder: string): Promise<string> {
  const expected =
    'Pass a folder with train-images-idx3-ubyte and train-labels-idx1-ubyte, or with the two files whose names begin with t10k. They may be compressed (.gz)';
  let files: string[];
  try {
    files = await namesIn(folder);
  } catch {
    throw new UsageError(`The data folder ${folder} cannot be read. ${expected}.`);
  }
  if (!hasMnistPair(files))
    throw new UsageError(`The data folder ${folder} contains no pair of images and labels. ${expected}.`);
  return folder;
}
