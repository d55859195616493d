/**
 * Reads and writes job files: JSON with the fields of a {@link JobSpec}, and never code. Missing
 * fields have defaults ({@link jobDefaultsFor}). docs/JOBS.md describes every field, with examples.
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
import { fieldProblemSentence, type FieldProblem } from './fields.ts';
import { parseJobOrProblem, jobDefaultsFor, JOB_FIELD_NAMES, jobNeedsFiles, type JobSpec } from './job.ts';

/** The field that identifies a job file, and the version of the format. */
const MARK = 'peergrad';
const VERSION = 1;

/**
 * The longest job file, in characters. The largest supported model takes a hundred thousand
 * characters in Keras's format.
 */
export const MAX_JOB_FILE_LENGTH = 1_000_000;

export interface JobFile {
  readonly job: JobSpec;
  /**
   * The fields that the file contains, without defaults. Callers that override fields need them,
   * because the defaults of a job depend on its fields.
   */
  readonly fields: Record<string, unknown>;
}

/**
 * Reads a job file.
 *
 * @param name the file's name in errors.
 * @throws DataError if the file is not a valid job file. The error names the line, the invalid
 *   field and its valid values.
 */
export function readJobFile(name: string, text: string): JobFile {
  if (text.length > MAX_JOB_FILE_LENGTH) {
    throw new DataError(
      `${name} has more than ${MAX_JOB_FILE_LENGTH} characters, so it is not a job file. Choose another file.`,
    );
  }
  // Some editors write a byte order mark.
  const json = text.replace(/^\uFEFF/, '');
  const root = parse(name, json);
  const { [MARK]: version, ...written } = getNodeValue(root) as Record<string, unknown>;
  if (version === undefined)
    throw new DataError(`${name} is not a job file: the field "${MARK}": ${VERSION} is missing. Choose another file.`);
  if (version !== VERSION) {
    throw new DataError(
      `${name} has ${MARK} version ${JSON.stringify(version)}, but this page supports version ${VERSION}. Reload the page, or update peergrad.`,
    );
  }
  const fields = completed(written);
  const checked = parseJobOrProblem(fields);
  if ('job' in checked) return { job: checked.job, fields };
  throw new DataError(`${name}${lineOf(json, root, checked.problem)}: ${fieldProblemSentence(checked.problem)}.`);
}

/**
 * Returns the text of a job file with the fields that differ from the defaults, in a fixed order.
 * The list of distributed files is left out.
 */
export function writeJobFile(job: JobSpec): string {
  const usual: JobSpec = { ...jobDefaultsFor(job.job, job.strategy, job.measure), ...usualData(job.job) };
  const sizes = Object.entries(job.gpt).filter(([name, size]) => size !== usual.gpt[name as keyof JobSpec['gpt']]);
  const { kind } = job.data;
  const written = {
    ...job,
    gpt: sizes.length === 0 ? usual.gpt : Object.fromEntries(sizes),
    data: kind === 'shared' ? { kind, files: [] } : job.data,
  };
  const differs = (name: keyof JobSpec): boolean => JSON.stringify(written[name]) !== JSON.stringify(usual[name]);
  const names = JOB_FIELD_NAMES.filter((name) => name === 'job' || differs(name));
  const fields = Object.fromEntries(names.map((name) => [name, written[name]]));
  return `${JSON.stringify({ [MARK]: VERSION, ...fields }, null, 2)}\n`;
}

/**
 * Adds fields that a job file may leave out and that {@link parseJob} does not add: the kind of
 * data, and fields within `gpt`.
 */
function completed(fields: Record<string, unknown>): Record<string, unknown> {
  const { job, strategy, gpt } = fields;
  const isObject = typeof gpt === 'object' && gpt !== null;
  return { ...usualData(job), ...fields, ...(isObject && { gpt: { ...jobDefaultsFor(job, strategy).gpt, ...gpt } }) };
}

/** Returns the default data of a job that trains on people's files. */
function usualData(job: unknown): Pick<JobSpec, 'data'> | null {
  return jobNeedsFiles(job as JobSpec['job']) ? { data: { kind: 'files' } } : null;
}

/**
 * Parses a job file's JSON.
 *
 * @throws DataError unless `json` is an object.
 */
function parse(name: string, json: string): Node {
  const errors: ParseError[] = [];
  let root: Node | undefined;
  try {
    root = parseTree(json, errors, { disallowComments: true });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new DataError(`${name} is not a job file: its brackets are nested too deeply. Choose another file.`);
  }
  const [error] = errors;
  if (error !== undefined) {
    const before = json.slice(0, error.offset).split('\n');
    const what = printParseErrorCode(error.error)
      .replaceAll(/(?<=.)([A-Z])/g, ' $1')
      .toLowerCase();
    throw new DataError(
      `${name}, line ${before.length}, column ${before.at(-1)!.length + 1}: this is not valid JSON (${what}). Correct it, or choose another file.`,
    );
  }
  if (root?.type !== 'object')
    throw new DataError(
      `${name} is not a job file: a job file is an object, {"${MARK}": ${VERSION}, ...}. Choose another file.`,
    );
  refuseTwice(name, json, root);
  return root;
}

/**
 * Rejects duplicate keys, because JSON readers disagree about which value they use.
 *
 * @throws DataError
 */
function refuseTwice(name: string, json: string, node: Node): void {
  const keys = new Set<unknown>();
  for (const child of node.children ?? []) {
    if (node.type === 'object') {
      const key: unknown = child.children?.[0]?.value;
      if (keys.has(key)) {
        throw new DataError(`${name}, line ${lineAt(json, child.offset)}: "${String(key)}" occurs twice. Remove one.`);
      }
      keys.add(key);
    }
    refuseTwice(name, json, child);
  }
}

/**
 * Returns the place of a problem, like `, line 7`. If a field is missing, returns the line of the
 * object that lacks it, or an empty text at the top level.
 */
function lineOf(json: string, root: Node, { path }: FieldProblem): string {
  const depths = path.map((_, i) => path.length - i);
  const node = depths.map((depth) => findNodeAtLocation(root, path.slice(0, depth))).find((one) => one !== undefined);
  return node === undefined ? '' : `, line ${lineAt(json, node.offset)}`;
}

function lineAt(json: string, offset: number): number {
  return json.slice(0, offset).split('\n').length;
}
