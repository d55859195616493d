/** The options that say what to train, shared by `serve` and `run`. */
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { choicesOf, notationOf, type Field, type FieldOption } from '../../src/spec/fields.ts';
import { GPT_FIELDS, PRESET_NAMES, PRESETS, type PresetName } from '../../src/spec/gpt.ts';
import { defaultsOf, FIELDS, parseJob, type JobSpec } from '../../src/spec/job.ts';
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';
import type { Nodes } from '../../src/protocol/room.ts';
import { readJobFile } from '../../src/spec/jobFile.ts';
import { messageOf, UsageError } from '../../src/util/errors.ts';
import { DATA_PATH, IDX_FILE, listDataFiles } from '../../signaling/index.ts';

/** A field that an option sets. */
interface OptionField {
  /** The field's name. */
  field: string;
  /** The option's name. */
  name: string;
  schema: Field['schema'];
  option: FieldOption;
}

const JOB_OPTIONS = optionsOf(FIELDS).filter(({ field }) => field !== 'maxMinutes');
/** Options of the fields of `gpt`. */
const GPT_OPTIONS = optionsOf(GPT_FIELDS);
/** Names of all options that describe the job itself. */
const JOB_OPTION_NAMES = [
  ...[...JOB_OPTIONS, ...GPT_OPTIONS].map(({ name }) => name),
  'preset',
] as (keyof JobOptions)[];

/** What jobs cannot do without. */
const NEEDED: Readonly<Record<string, string>> = {
  mnist: 'a folder of IDX files',
  images: 'a zip or npz file, or a folder of pictures in a folder for each class',
  table: 'a CSV file',
};

type OptionName<Fields extends Record<string, Field>, Name extends keyof Fields> = Fields[Name] extends {
  option: infer Declared extends FieldOption;
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

type OptionsOf<Fields extends Record<string, Field>> = {
  [Name in keyof Fields as OptionName<Fields, Name>]?: OptionValue<Fields[Name]['defaultValue']>;
};

export interface JobOptions extends Omit<OptionsOf<typeof FIELDS>, 'minutes'>, OptionsOf<typeof GPT_FIELDS> {
  /** A job file; other options win over what it says. */
  file?: string;
  preset?: PresetName;
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

function optionsOf(fields: Record<string, Field>): OptionField[] {
  return Object.entries(fields).flatMap(([field, { schema, option }]) =>
    option === undefined ? [] : [{ field, name: option.name ?? field, schema, option }],
  );
}

/** The option for a field. Bounds are the protocol's: {@link parseJob} checks them. */
function optionFor({ name, schema, option }: OptionField): Option {
  const made = new Option(`${flagOf(name)} <${option.value}>`, option.help);
  const { choices } = option;
  if (choices !== undefined) return made.choices(choices);
  switch (notationOf(schema)) {
    case 'choice':
      return made.choices(choicesOf(schema) as string[]);
    case 'switch':
      return made.choices(['on', 'off']);
    case 'whole':
      return made.argParser(wholeNumber());
    case 'decimal':
      return made.argParser(decimal);
    case 'list':
      return made.argParser((text: string) => text.split(',').map((one) => one.trim()));
    case 'text':
    case null:
  }
  return made;
}

export function addJobOptions(command: Command): Command {
  for (const one of JOB_OPTIONS) {
    command.addOption(optionFor(one));
    // A language model's options follow the models of the other jobs.
    if (one.field === 'hidden') addGptOptions(command);
  }
  return command.option(
    '--data <path|url>',
    'IDX files (mnist), a CSV file (table), a zip or npz file or a folder of pictures by class (images), a text or a folder of texts (gpt)',
  );
}

function addGptOptions(command: Command): void {
  command.addOption(new Option('--preset <name>', 'size of the job gpt (default: tiny)').choices(PRESET_NAMES));
  for (const one of GPT_OPTIONS) command.addOption(optionFor(one));
}

/** For commands that end with the run. */
export function addLengthOptions(command: Command): Command {
  const { schema, option } = FIELDS.maxMinutes;
  return command.addOption(optionFor({ field: 'maxMinutes', name: option.name, schema, option }));
}

/** Whether anything was said about the job itself. (A data folder alone is only served.) */
export function saysJob(options: JobOptions & LengthOptions): boolean {
  const { minutes, file } = options;
  return minutes !== undefined || file !== undefined || JOB_OPTION_NAMES.some((name) => options[name] !== undefined);
}

/** The command line that says the same: for another process of ours. */
export function jobArguments(options: JobOptions): string[] {
  return [...JOB_OPTION_NAMES, 'data' as const].flatMap((name) => {
    const value = options[name];
    return value === undefined ? [] : [flagOf(name), String(value)];
  });
}

/**
 * What was said about the job and its data, as it stands in the command line: for a process that
 * nobody asks for it.
 */
export function saidOfJob(options: JobOptions & LengthOptions): string[] {
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
  const fields = { ...saidIn(options, JOB_OPTIONS), maxMinutes: minutes, data: await dataOf(name, data, isUrl) };
  const asked = { ...said, ...gptFields(name, options, said, minutes), ...definedOf(fields) };
  return { job: parseJob(asked), served };
}

/**
 * What a job file says. @throws (rejects) UsageError where it cannot be read, DataError where it is
 * none.
 */
async function readSaid(file: string): Promise<Record<string, unknown>> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new UsageError(`${file} cannot be read: check its path. (${messageOf(error)})`);
  });
  return readJobFile(path.basename(file), text).said;
}

/** The fields that options set, by name. */
function saidIn(options: JobOptions, fields: readonly OptionField[]): Record<string, unknown> {
  const values = fields.map(({ field, name, schema }) => {
    const value: unknown = options[name as keyof JobOptions];
    return [field, notationOf(schema) === 'switch' && value !== undefined ? value === 'on' : value];
  });
  return definedOf(Object.fromEntries(values) as Record<string, unknown>);
}

function definedOf(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/**
 * What the size of a language model says, as numbers; nothing for other jobs. @throws UsageError
 * where it is said of these.
 */
function gptFields(
  job: string | undefined,
  options: JobOptions,
  file: Record<string, unknown>,
  minutes?: number,
): Record<string, unknown> {
  const { preset, schedule } = options;
  const said = saidIn(options, GPT_OPTIONS);
  if (job !== 'gpt') {
    const [name] = Object.keys(definedOf({ preset, ...said }));
    if (name !== undefined) throw new UsageError(`--${name} is for the job gpt: pass --job gpt, or leave it out.`);
    return {};
  }
  const { model, ...plan } = preset === undefined ? { model: {} } : PRESETS[preset];
  const isTest = (schedule ?? file['schedule']) === 'range-test';
  const before = (file['gpt'] as JobSpec['gpt'] | undefined) ?? defaultsOf(job, undefined).gpt;
  return {
    ...{ ...plan, gpt: { ...before, ...model, ...said } },
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
  if (data.kind !== 'files' && data.kind !== 'shared') return resolved;
  throw new UsageError(
    `The job's files are chosen by people, and there are none here: pass --data with ${NEEDED[job] ?? 'a text'}, or a URL of it.`,
  );
}

function withSlash(url: string): string {
  return url.endsWith('/') ? url : `${url}/`;
}

/**
 * @throws UsageError unless `data` is what `job` needs, or, where no job is said, what some job
 *   does.
 */
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
