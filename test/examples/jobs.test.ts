import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { JOB_FIELD_NAMES, JobSpec } from '../../src/spec/job.ts';
import { readJobFile, writeJobFile } from '../../src/spec/jobFile.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const FOLDER = path.join(ROOT, 'examples/jobs');
const FILES = readdirSync(FOLDER);

test.each(FILES)('the example %s is a valid job file, and contains no field with its default value', (file) => {
  const text = readFileSync(path.join(FOLDER, file), 'utf8');
  const fields = Object.keys(JSON.parse(text) as object);
  const written = Object.keys(JSON.parse(writeJobFile(readJobFile(file, text).job)) as object);
  expect(fields.filter((field) => !written.includes(field))).toEqual([]);
});

const TEXT = readFileSync(path.join(ROOT, 'docs/JOBS.md'), 'utf8');
const ROWS = (() => {
  const lines = TEXT.split('\n');
  const rows = lines.slice(lines.findIndex((line) => line.startsWith('| field |')) + 2);
  return rows.slice(0, rows.indexOf(''));
})();
const quotedIn = (text: string): string[] => [...text.matchAll(/`([\w-]+)`/g)].map(([, name]) => name!);
const fieldsOf = (row: string): string[] => quotedIn(row.split('|')[1]!);

test('the table of docs/JOBS.md has exactly the fields of a job', () => {
  expect(ROWS.flatMap(fieldsOf).toSorted()).toEqual(JOB_FIELD_NAMES.toSorted());
});

test('docs/JOBS.md names every value of a field that has a list of values', () => {
  const valuesOf = (schema: object): unknown[] => {
    if ('type' in schema && schema.type === 'picklist' && 'options' in schema) return schema.options as unknown[];
    const inner = 'wrapped' in schema ? schema.wrapped : 'pipe' in schema ? (schema.pipe as unknown[])[0] : null;
    return inner === null || inner === schema ? [] : valuesOf(inner as object);
  };
  const fields = Object.entries(JobSpec.pipe[0].entries).map(([name, schema]) => ({ name, values: valuesOf(schema) }));
  const missing = fields.flatMap(({ name, values }) => {
    const row = ROWS.find((each) => fieldsOf(each).includes(name))!;
    // Some rows refer to a section below.
    const written = quotedIn(row.includes('see below') ? TEXT : row);
    return values.filter((value) => !written.includes(String(value))).map((value) => `${name}: ${String(value)}`);
  });
  expect(missing).toEqual([]);
  expect(fields.filter(({ values }) => values.length > 0).length).toBeGreaterThan(5);
});
