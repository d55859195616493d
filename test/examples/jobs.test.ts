import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { JOB_FIELDS } from '../../src/spec/job.ts';
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

test('the table of docs/JOBS.md has exactly the fields of a job', () => {
  const text = readFileSync(path.join(ROOT, 'docs/JOBS.md'), 'utf8');
  const lines = text.split('\n');
  const rows = lines.slice(lines.findIndex((line) => line.startsWith('| field |')) + 2);
  const table = rows.slice(0, rows.indexOf(''));
  const named = table.flatMap((row) => [...row.split('|')[1]!.matchAll(/`(\w+)`/g)].map(([, name]) => name!));
  expect(named.toSorted()).toEqual(JOB_FIELDS.toSorted());
});
