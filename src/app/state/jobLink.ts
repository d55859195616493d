/**
 * A job as settings behind a link's question mark, by the names that a job's fields have:
 * `#new?job=mnist&seed=7`. Only what differs from the usual job is there, so that links stay short.
 * Pure.
 */
import { deflateSync, inflateSync, strFromU8, strToU8 } from 'fflate';
import { notationOf, type Field, type Notation } from '../../spec/fields.ts';
import { GPT_FIELDS } from '../../spec/gpt.ts';
import { DEFAULT_JOB, defaultsOf, FIELDS, JOB_NAMES, parseJob, readsFiles, type JobSpec } from '../../spec/job.ts';
import { messageOf } from '../../util/errors.ts';

/** Fields that stand in a link as text; the others have their own ways. */
const WRITTEN = writtenOf(FIELDS);
/** Fields of a language model. */
const WRITTEN_GPT = writtenOf(GPT_FIELDS);
/** What a usual job has, and this one has not. */
const NONE = 'none';
/**
 * As a link's `source`: the host hands files on, which it has yet to choose; every tab picks them,
 * of a job that has data without, too.
 */
const HOST = 'host';
const TABS = 'tabs';
/** Every tab has its own. */
const OWN = 'own';

/** In front of layers, deflated. */
const PACKED = 'layers:';
/** Characters: mail programs and chats cut addresses of more than two thousand. */
const MAX_PACKED_LENGTH = 1500;

/**
 * The job that a link asks for; where it asks for what cannot be, the usual one, and what is wrong.
 */
export function jobOfLink(query: URLSearchParams): { job: JobSpec; problem: string | null } {
  const fields = readFrom(query, WRITTEN);
  const model = query.get('model');
  if (model !== null) fields['model'] = model.startsWith(PACKED) ? unpacked(model.slice(PACKED.length)) : model;
  fields['gpt'] = { ...DEFAULT_JOB.gpt, ...readFrom(query, WRITTEN_GPT) };
  const [url, source] = [query.get('data'), query.get('source')];
  if (url !== null) fields['data'] = { kind: 'url', url };
  else if (source === HOST) fields['data'] = { kind: 'shared', files: [] };
  else if (source === OWN) fields['data'] = { kind: 'federated' };
  else if (source === TABS || isOfFiles(fields['job'])) fields['data'] = { kind: 'files' };
  try {
    return { job: parseJob(fields), problem: null };
  } catch (error) {
    return { job: DEFAULT_JOB, problem: messageOf(error) };
  }
}

type Written = Readonly<Record<string, Notation>>;

function writtenOf(fields: Record<string, Field>): Written {
  const notations = Object.entries(fields).map(([name, { schema }]) => [name, notationOf(schema)] as const);
  return Object.fromEntries(notations.filter(([, notation]) => notation !== null));
}

/** By name, the text of each field that is not as in `usual`; `null`: it need not be said. */
function differing<Fields extends object>(written: Written, fields: Fields, usual: Fields) {
  return Object.keys(written).map((name) => {
    const [value, other] = [fields, usual].map((one) => one[name as keyof Fields]);
    return [name, value === other ? null : String(value ?? NONE)] as const;
  });
}

function readFrom(query: URLSearchParams, written: Written): Record<string, unknown> {
  const present = Object.entries(written).filter(([name]) => query.has(name));
  return Object.fromEntries(present.map(([name, notation]) => [name, valueOf(query.get(name)!, notation)]));
}

function valueOf(text: string, notation: Notation): unknown {
  if (notation === 'whole' || notation === 'decimal') return numberOf(text);
  if (notation === 'switch') return switchOf(text);
  return notation === 'list' ? text.split(',') : text;
}

/** Whether a link can say all of `job`: one with many layers cannot. */
export function fitsLink({ model }: JobSpec): boolean {
  return modelInLink(model).length <= MAX_PACKED_LENGTH;
}

/** What to keep in the address of a page that sets up `job`; `null` for what need not be said. */
export function linkOfJob(job: JobSpec): Record<string, string | null> {
  const usual: JobSpec = { ...defaultsOf(job.job, job.strategy, job.schedule), job: DEFAULT_JOB.job };
  const settings = [...differing(WRITTEN, job, usual), ...differing(WRITTEN_GPT, job.gpt, usual.gpt)];
  const { data } = job;
  return {
    ...Object.fromEntries(settings),
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
  if (data.kind === 'shared') return HOST;
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
