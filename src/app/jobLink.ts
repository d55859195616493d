/**
 * A job as settings behind a link's question mark, by the names that a job's fields have: `#new?job=mnist&seed=7`. Only what
 * differs from the usual job is there, so that links stay short. Pure.
 */
import { DEFAULT_JOB, defaultOptimizer, JOB_NAMES, parseJob, readsFiles, type JobSpec } from '../protocol/job.ts';
import { messageOf } from '../util/errors.ts';

const TEXTS = ['job', 'model', 'strategy', 'optimizer', 'codec', 'transport', 'target', 'task'] as const;
const NUMBERS = [
  ...(['learningRate', 'batchSize', 'epochs', 'maxSteps', 'seed', 'hashEvery'] as const),
  ...(['syncEvery', 'staleness', 'replicas', 'hidden', 'side', 'channels'] as const),
];
const SWITCHES = ['errorFeedback'] as const;
/** As a link's `source`: the host hands files on, which it has yet to choose. */
const HOST = 'host';

/** The job that a link asks for; where it asks for what cannot be, the usual one, and what is wrong. */
export function jobOfLink(query: URLSearchParams): { job: JobSpec; problem: string | null } {
  const fields: Record<string, unknown> = {};
  for (const name of TEXTS) if (query.has(name)) fields[name] = query.get(name);
  for (const name of NUMBERS) if (query.has(name)) fields[name] = numberOf(query.get(name)!);
  for (const name of SWITCHES) if (query.has(name)) fields[name] = switchOf(query.get(name)!);
  const url = query.get('data');
  if (url !== null) fields['data'] = { kind: 'url', url };
  else if (query.get('source') === HOST) fields['data'] = { kind: 'spread', files: [] };
  else if (JOB_NAMES.some((name) => name === fields['job'] && readsFiles(name))) fields['data'] = { kind: 'files' };
  try {
    return { job: parseJob(fields), problem: null };
  } catch (error) {
    return { job: DEFAULT_JOB, problem: messageOf(error) };
  }
}

/** What to keep in the address of a page that sets up `job`; `null` for what need not be said. */
export function linkOfJob(job: JobSpec): Record<string, string | null> {
  const usual = { ...DEFAULT_JOB, optimizer: defaultOptimizer(job.strategy) };
  const said = [...TEXTS, ...NUMBERS, ...SWITCHES].map((name) => [
    name,
    job[name] === usual[name] ? null : String(job[name]),
  ]);
  const { data } = job;
  return {
    ...Object.fromEntries(said),
    data: data.kind === 'url' ? data.url : null,
    source: data.kind === 'spread' ? HOST : null,
  };
}

/** A text that is neither is no field's value, either. */
function switchOf(text: string): boolean | string {
  return text === 'true' || (text === 'false' ? false : text);
}

/** NaN for an empty text, which no field takes. */
function numberOf(text: string): number {
  return text.trim() === '' ? Number.NaN : Number(text);
}
