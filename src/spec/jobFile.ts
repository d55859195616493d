/**
 * A job as a file: JSON, data and never code. Its fields are those of a {@link JobSpec}; what a
 * file leaves out is as usual ({@link defaultsOf}). docs/JOBS.md has every field, and examples.
 */
import {
  findNodeAtLocation,
  getNodeValue,
  parseTree,
  printParseErrorCode,
  type Node,
  type ParseError,
} from 'jsonc-parser';
import { DataError } from '../util/errors.ts';
import { sentenceOf, type Problem } from './fields.ts';
import { checkJob, defaultsOf, JOB_FIELDS, readsFiles, type JobSpec } from './job.ts';

/** The field that tells a job file from other JSON, and the version of what is written here. */
const MARK = 'peergrad';
const VERSION = 1;

/** Characters. A model of the most layers takes a hundred thousand as Keras writes it. */
export const MAX_JOB_FILE_LENGTH = 1_000_000;

export interface JobFile {
  readonly job: JobSpec;
  /** What the file itself says of it, for who changes some of that. */
  readonly said: Record<string, unknown>;
}

/**
 * @param name the file's, for errors.
 * @throws DataError naming the line and the field that is wrong, and what it may be.
 */
export function readJobFile(name: string, text: string): JobFile {
  if (text.length > MAX_JOB_FILE_LENGTH) {
    throw new DataError(`${name} has more than ${MAX_JOB_FILE_LENGTH} characters, as no job has: choose another file.`);
  }
  // Some editors put a mark in front.
  const json = text.replace(/^\uFEFF/, '');
  const root = parse(name, json);
  const { [MARK]: version, ...fields } = getNodeValue(root) as Record<string, unknown>;
  if (version === undefined) throw new DataError(`${name} is no job file: those say "${MARK}": ${VERSION}.`);
  if (version !== VERSION) {
    throw new DataError(
      `${name}: ${MARK}: this is version ${VERSION}, and the file says ${JSON.stringify(version)}: reload the page, or update peergrad.`,
    );
  }
  const said = completed(fields);
  const checked = checkJob(said);
  if ('job' in checked) return { job: checked.job, said };
  throw new DataError(`${name}${lineOf(json, root, checked.problem)}: ${sentenceOf(checked.problem)}.`);
}

/**
 * What differs from the usual job, always in one order. Which files are handed on is left to who
 * reads it.
 */
export function writeJobFile(job: JobSpec): string {
  const usual: JobSpec = { ...defaultsOf(job.job, job.strategy, job.schedule), ...usualData(job.job) };
  const sizes = Object.entries(job.gpt).filter(([name, size]) => size !== usual.gpt[name as keyof JobSpec['gpt']]);
  const { kind } = job.data;
  const written = {
    ...job,
    gpt: sizes.length === 0 ? usual.gpt : Object.fromEntries(sizes),
    data: kind === 'shared' ? { kind, files: [] } : job.data,
  };
  const differs = (name: keyof JobSpec): boolean => JSON.stringify(written[name]) !== JSON.stringify(usual[name]);
  const names = JOB_FIELDS.filter((name) => name === 'job' || differs(name));
  const said = Object.fromEntries(names.map((name) => [name, written[name]]));
  return `${JSON.stringify({ [MARK]: VERSION, ...said }, null, 2)}\n`;
}

/**
 * With what files leave out, and a job has no default of: where its files come from, and the rest
 * of a language model.
 */
function completed(fields: Record<string, unknown>): Record<string, unknown> {
  const { job, strategy, gpt } = fields;
  const isObject = typeof gpt === 'object' && gpt !== null;
  return { ...usualData(job), ...fields, ...(isObject && { gpt: { ...defaultsOf(job, strategy).gpt, ...gpt } }) };
}

/** Jobs of people's own files ask for these. */
function usualData(job: unknown): Pick<JobSpec, 'data'> | null {
  return readsFiles(job as JobSpec['job']) ? { data: { kind: 'files' } } : null;
}

/** @throws DataError unless `json` is an object. */
function parse(name: string, json: string): Node {
  const errors: ParseError[] = [];
  let root: Node | undefined;
  try {
    root = parseTree(json, errors, { disallowComments: true });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new DataError(`${name} is no job file: its brackets are nested too deep.`);
  }
  const [error] = errors;
  if (error !== undefined) {
    const before = json.slice(0, error.offset).split('\n');
    const what = printParseErrorCode(error.error)
      .replaceAll(/(?<=.)([A-Z])/g, ' $1')
      .toLowerCase();
    throw new DataError(
      `${name}, line ${before.length}, column ${before.at(-1)!.length + 1}: this is no JSON (${what}): correct it, or choose another file.`,
    );
  }
  if (root?.type !== 'object')
    throw new DataError(`${name} is no job file: those are objects, {"${MARK}": ${VERSION}, ...}.`);
  refuseTwice(name, json, root);
  return root;
}

/** Of a name that an object has twice, readers take the one or the other. @throws DataError */
function refuseTwice(name: string, json: string, node: Node): void {
  const keys = new Set<unknown>();
  for (const child of node.children ?? []) {
    if (node.type === 'object') {
      const key: unknown = child.children?.[0]?.value;
      if (keys.has(key)) {
        throw new DataError(
          `${name}, line ${lineAt(json, child.offset)}: "${String(key)}" is there twice: leave one out.`,
        );
      }
      keys.add(key);
    }
    refuseTwice(name, json, child);
  }
}

/** `, line 7`, where what the problem is about is in the file. */
function lineOf(json: string, root: Node, { path }: Problem): string {
  const depths = path.map((_, i) => path.length - i);
  const node = depths.map((depth) => findNodeAtLocation(root, path.slice(0, depth))).find((one) => one !== undefined);
  return node === undefined ? '' : `, line ${lineAt(json, node.offset)}`;
}

function lineAt(json: string, offset: number): number {
  return json.slice(0, offset).split('\n').length;
}
