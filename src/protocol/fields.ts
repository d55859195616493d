/** Objects that people write by hand: what is wrong with one, and where. */
import * as v from 'valibot';
import { nearestOf } from '../util/nearest.ts';

/** What is wrong, and the way to it from the top: names of fields, and places in lists. */
export interface Problem {
  path: readonly (string | number)[];
  /** Without a full stop. */
  message: string;
}

/** An object of these fields and no others; where it has another, the error says which name is near. */
export function fieldsOf<const Entries extends v.ObjectEntries>(entries: Entries) {
  return v.strictObject(entries, ({ expected, input, message }) => {
    if (expected === 'never' && typeof input === 'string') return unknownField(input, Object.keys(entries));
    return input === undefined && expected !== null ? `the field ${expected} is missing` : message;
  });
}

/** The first problem of those that a schema has found. */
export function problemOf([issue]: readonly [v.BaseIssue<unknown>, ...v.BaseIssue<unknown>[]]): Problem {
  return { path: issue.path?.map(({ key }) => key as string | number) ?? [], message: issue.message };
}

/** A problem's path, as a check of valibot's tells it. */
export function issuePath(path: Problem['path']): [v.IssuePathItem, ...v.IssuePathItem[]] {
  const items = path.map((key): v.IssuePathItem => ({
    type: 'unknown',
    origin: 'value',
    input: null,
    key,
    value: null,
  }));
  return items as [v.IssuePathItem, ...v.IssuePathItem[]];
}

/** `model.config.layers[3].units: what is wrong`. */
export function sentenceOf({ path, message }: Problem): string {
  const said = path.map((step, i) => (typeof step === 'number' ? `[${step}]` : i === 0 ? step : `.${step}`)).join('');
  return said === '' ? message : `${said}: ${message}`;
}

function unknownField(name: string, known: readonly string[]): string {
  const near = nearestOf(name, known);
  return near === null
    ? `there is no such field; there are ${known.join(', ')}`
    : `there is no such field; did you mean ${near}`;
}
