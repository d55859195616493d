/**
 * A job as settings behind a link's question mark, by the names that a job's fields have: `#new?job=mnist&seed=7`. Only what
 * differs from the usual job is there, so that links stay short. Pure.
 */
import { deflateSync, inflateSync, strFromU8, strToU8 } from 'fflate';
import { DEFAULT_JOB, defaultsOf, JOB_NAMES, parseJob, readsFiles, type JobSpec } from '../protocol/job.ts';
import { messageOf } from '../util/errors.ts';

const TEXTS = [
  ...(['job', 'strategy', 'optimizer', 'codec', 'transport', 'schedule'] as const),
  ...(['target', 'task', 'loss'] as const),
];
const NUMBERS = [
  ...(['learningRate', 'batchSize', 'epochs', 'maxSteps', 'seed', 'hashEvery'] as const),
  ...(['syncEvery', 'staleness', 'replicas', 'hidden', 'side', 'channels'] as const),
  ...(['maxMinutes', 'patience', 'warmupSteps', 'clipNorm', 'weightDecay'] as const),
];
/** Of a language model. */
const GPT_NUMBERS = ['layers', 'heads', 'width', 'context', 'dropout', 'vocabulary'] as const;
const GPT_TEXTS = ['tokens', 'prompt'] as const;
/** Names with commas between. */
const LISTS = ['metrics'] as const;
/** What a usual job has, and this one has not. */
const NONE = 'none';
const SWITCHES = ['errorFeedback'] as const;
/** As a link's `source`: the host hands files on, which it has yet to choose; every tab picks them, of a job that has data without, too. */
const HOST = 'host';
const TABS = 'tabs';
/** Every tab has its own. */
const OWN = 'own';

/** In front of layers, deflated. */
const PACKED = 'layers:';
/** Characters: mail programs and chats cut addresses of more than two thousand. */
const MAX_PACKED_LENGTH = 1500;

/** The job that a link asks for; where it asks for what cannot be, the usual one, and what is wrong. */
export function jobOfLink(query: URLSearchParams): { job: JobSpec; problem: string | null } {
  const fields: Record<string, unknown> = {};
  for (const name of TEXTS) if (query.has(name)) fields[name] = query.get(name);
  for (const name of NUMBERS) if (query.has(name)) fields[name] = numberOf(query.get(name)!);
  for (const name of LISTS) if (query.has(name)) fields[name] = query.get(name)!.split(',');
  const model = query.get('model');
  if (model !== null) fields['model'] = model.startsWith(PACKED) ? unpacked(model.slice(PACKED.length)) : model;
  const gpt: Record<string, unknown> = { ...DEFAULT_JOB.gpt };
  for (const name of GPT_TEXTS) if (query.has(name)) gpt[name] = query.get(name);
  for (const name of GPT_NUMBERS) if (query.has(name)) gpt[name] = numberOf(query.get(name)!);
  fields['gpt'] = gpt;
  for (const name of SWITCHES) if (query.has(name)) fields[name] = switchOf(query.get(name)!);
  const [url, source] = [query.get('data'), query.get('source')];
  if (url !== null) fields['data'] = { kind: 'url', url };
  else if (source === HOST) fields['data'] = { kind: 'spread', files: [] };
  else if (source === OWN) fields['data'] = { kind: 'federated' };
  else if (source === TABS || isOfFiles(fields['job'])) fields['data'] = { kind: 'files' };
  try {
    return { job: parseJob(fields), problem: null };
  } catch (error) {
    return { job: DEFAULT_JOB, problem: messageOf(error) };
  }
}

/** Whether a link can say all of `job`: one with many layers cannot. */
export function fitsLink({ model }: JobSpec): boolean {
  return modelInLink(model).length <= MAX_PACKED_LENGTH;
}

/** What to keep in the address of a page that sets up `job`; `null` for what need not be said. */
export function linkOfJob(job: JobSpec): Record<string, string | null> {
  const usual: JobSpec = { ...defaultsOf(job.job, job.strategy, job.schedule), job: DEFAULT_JOB.job };
  const said = [...TEXTS, ...NUMBERS, ...LISTS, ...SWITCHES].map((name) => [
    name,
    job[name] === usual[name] ? null : String(job[name] ?? NONE),
  ]);
  const sizes = [...GPT_TEXTS, ...GPT_NUMBERS].map((name) => [
    name,
    job.gpt[name] === usual.gpt[name] ? null : String(job.gpt[name]),
  ]);
  const { data } = job;
  return {
    ...Object.fromEntries([...said, ...sizes]),
    model: job.model === usual.model || !fitsLink(job) ? null : modelInLink(job.model),
    data: data.kind === 'url' ? data.url : null,
    source: sourceOf(job),
  };
}

function modelInLink(model: JobSpec['model']): string {
  if (typeof model === 'string') return model;
  const bytes = deflateSync(strToU8(JSON.stringify(model)));
  // As of base64url: characters that an address leaves as they are.
  return (
    PACKED +
    btoa(String.fromCharCode(...bytes))
      .replaceAll('+', '-')
      .replaceAll('/', '_')
      .replaceAll('=', '')
  );
}

/** What was packed; a text that was not is no model, either. */
function unpacked(text: string): unknown {
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (one) => one.charCodeAt(0));
    return JSON.parse(strFromU8(inflateSync(bytes)));
  } catch {
    return text;
  }
}

function sourceOf({ job, data }: JobSpec): string | null {
  if (data.kind === 'spread') return HOST;
  if (data.kind === 'federated') return OWN;
  return data.kind === 'files' && !readsFiles(job) ? TABS : null;
}

/** Whether `job` is one that files need not be said of. */
function isOfFiles(job: unknown): boolean {
  return JOB_NAMES.some((name) => name === job && readsFiles(name));
}

/** A text that is neither is no field's value, either. */
function switchOf(text: string): boolean | string {
  return text === 'true' || (text === 'false' ? false : text);
}

/** NaN for an empty text, which no field takes. */
function numberOf(text: string): number | null {
  if (text === NONE) return null;
  return text.trim() === '' ? Number.NaN : Number(text);
}
