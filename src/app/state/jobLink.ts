/**
 * Writes a job as settings of a link, and reads it again: `#new?job=mnist&seed=7`. The settings
 * have the names of the job's fields. A link has only values that differ from the page's defaults,
 * so that it stays short. Pure.
 */
import { deflateSync, inflateSync, strFromU8, strToU8 } from 'fflate';
import { fieldNotationOf, type FieldDeclaration, type FieldNotation } from '../../spec/fields.ts';
import { GPT_FIELDS } from '../../spec/gpt.ts';
import {
  DEFAULT_JOB,
  jobDefaultsFor,
  JOB_FIELD_DECLARATIONS,
  JOB_NAMES,
  parseJob,
  jobNeedsFiles,
  type JobSpec,
} from '../../spec/job.ts';
import { fromBase64url, toBase64url } from '../../util/base64url.ts';
import { errorMessageOf } from '../../util/errors.ts';
import { DEFAULT_PAGE_JOB, PAGE_JOB_DEFAULTS } from './algorithm.ts';
import { ADDRESS_SETTINGS_OF_ALL_PAGES } from './route.ts';

/** Fields whose values are written as plain text. Each other field has its own encoding. */
const WRITTEN = writtenOf(JOB_FIELD_DECLARATIONS);
/** Fields of a language model. */
const WRITTEN_GPT = writtenOf(GPT_FIELDS);
/** Names of all settings of a link to the form. */
const SETTINGS = new Set([
  ...Object.keys(WRITTEN),
  ...Object.keys(WRITTEN_GPT),
  ...['model', 'data', 'source'],
  ...ADDRESS_SETTINGS_OF_ALL_PAGES,
]);
/** The text for the value `null` in fields whose default is not `null`. */
const NONE = 'none';
/**
 * Values of the setting `source`. HOST: the host shares files that are still to be chosen. TABS:
 * every tab chooses the same files. TABS is only written for jobs that also have built-in data.
 */
const HOST = 'host';
const TABS = 'tabs';
/** OWN: every tab trains on its own files. */
const OWN = 'own';

/** Prefix of custom layers, which are deflated. */
const PACKED = 'layers:';
/**
 * The largest number of characters of packed layers in a link. Mail programs and chats cut
 * addresses of more than two thousand characters.
 */
const MAX_PACKED_LENGTH = 1500;

interface LinkedJob {
  /** The job of the link, or the page's default job if the job of the link is not valid. */
  job: JobSpec;
  /** Why the job of the link is not valid; `null` if it is valid. */
  problem: string | null;
  /** Names of settings that no part of the page reads, for example misspelled ones. */
  unknown: string[];
}

export function parseJobLink(query: URLSearchParams): LinkedJob {
  const unknown = [...new Set(query.keys())].filter((name) => !SETTINGS.has(name));
  const fields: Record<string, unknown> = { ...PAGE_JOB_DEFAULTS, ...readFrom(query, WRITTEN) };
  const model = query.get('model');
  if (model !== null) fields['model'] = model.startsWith(PACKED) ? unpacked(model.slice(PACKED.length)) : model;
  fields['gpt'] = { ...DEFAULT_JOB.gpt, ...readFrom(query, WRITTEN_GPT) };
  const [url, source] = [query.get('data'), query.get('source')];
  if (url !== null) fields['data'] = { kind: 'url', url };
  else if (source === HOST) fields['data'] = { kind: 'shared', files: [] };
  else if (source === OWN) fields['data'] = { kind: 'federated' };
  else if (source === TABS || isOfFiles(fields['job'])) fields['data'] = { kind: 'files' };
  try {
    return { job: parseJob(fields), problem: null, unknown };
  } catch (error) {
    return { job: DEFAULT_PAGE_JOB, problem: errorMessageOf(error), unknown };
  }
}

type Written = Readonly<Record<string, FieldNotation>>;

function writtenOf(fields: Record<string, FieldDeclaration>): Written {
  const notations = Object.entries(fields).map(([name, { schema }]) => [name, fieldNotationOf(schema)] as const);
  return Object.fromEntries(notations.filter(([, notation]) => notation !== null));
}

/** Returns the text of each field that differs from `usual`, and `null` for each other field. */
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

function valueOf(text: string, notation: FieldNotation): unknown {
  if (notation === 'whole' || notation === 'decimal') return numberOf(text);
  if (notation === 'switch') return switchOf(text);
  return notation === 'list' ? text.split(',') : text;
}

/** Returns whether `job` fits in a link. A job with many layers may be too long. */
export function fitsJobLink({ model }: JobSpec): boolean {
  return modelInLink(model).length <= MAX_PACKED_LENGTH;
}

/**
 * Returns the settings of the address for `job`. A setting is `null` if the job has its default.
 * The model is also `null` if it is too long for a link.
 */
export function addressSettingsOfJob(job: JobSpec): Record<string, string | null> {
  const usual: JobSpec = {
    ...jobDefaultsFor(job.job, job.strategy, job.measure),
    ...PAGE_JOB_DEFAULTS,
    job: DEFAULT_JOB.job,
  };
  const settings = [...differing(WRITTEN, job, usual), ...differing(WRITTEN_GPT, job.gpt, usual.gpt)];
  const { data } = job;
  return {
    ...Object.fromEntries(settings),
    model: job.model === usual.model || !fitsJobLink(job) ? null : modelInLink(job.model),
    data: data.kind === 'url' ? data.url : null,
    source: sourceOf(job),
  };
}

function modelInLink(model: JobSpec['model']): string {
  if (typeof model === 'string') return model;
  const bytes = deflateSync(strToU8(JSON.stringify(model)));
  return PACKED + toBase64url(bytes);
}

/**
 * Returns the unpacked model. A text that was not packed, or is too long for a link, is returned
 * unchanged, and is not a valid model. A longer text could unpack to gigabytes.
 */
function unpacked(text: string): unknown {
  if (text.length > MAX_PACKED_LENGTH) return text;
  try {
    return JSON.parse(strFromU8(inflateSync(fromBase64url(text))));
  } catch {
    return text;
  }
}

function sourceOf({ job, data }: JobSpec): string | null {
  if (data.kind === 'shared') return HOST;
  if (data.kind === 'federated') return OWN;
  return data.kind === 'files' && !jobNeedsFiles(job) ? TABS : null;
}

/** Returns whether `job` always reads files. If so, its link needs no `source`. */
function isOfFiles(job: unknown): boolean {
  return JOB_NAMES.some((name) => name === job && jobNeedsFiles(name));
}

/**
 * Returns the boolean for `true` or `false`. Any other text is returned unchanged, and is not a
 * valid value.
 */
function switchOf(text: string): boolean | string {
  return text === 'true' || (text === 'false' ? false : text);
}

/**
 * Returns a number, or `null` for the text {@link NONE}. An empty text becomes NaN, which no field
 * accepts.
 */
function numberOf(text: string): number | null {
  if (text === NONE) return null;
  return text.trim() === '' ? Number.NaN : Number(text);
}
