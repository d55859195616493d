import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  AUGMENT_NAMES,
  JOB_NAMES,
  learnsPictures,
  OPTIMIZER_NAMES,
  parseJob,
  RUN_MEASUREMENT_NAMES,
  RATE_SCHEDULE_NAMES,
  STRATEGIES,
  STRATEGY_NAMES,
  type JobSpec,
} from '../../src/spec/job.ts';
import { readJobFile, writeJobFile } from '../../src/spec/jobFile.ts';
import { DataError } from '../../src/util/errors.ts';

/** Returns the message of the error in a file. */
function refusalOf(text: string): string {
  try {
    readJobFile('job.json', text);
  } catch (error) {
    expect(error).toBeInstanceOf(DataError);
    return (error as Error).message;
  }
  throw new Error('The file was accepted.');
}

/** Returns the fields in the job file of a job. */
function writtenOf(fields: Record<string, unknown>): unknown {
  return JSON.parse(writeJobFile(parseJob(fields)));
}

const sources: Record<JobSpec['job'], fc.Arbitrary<JobSpec['data']>> = {
  digits: fc.constant({ kind: 'synthetic' }),
  lesson: fc.constant({ kind: 'none' }),
  mnist: elsewhere(),
  images: elsewhere(),
  table: elsewhere(),
  gpt: fc.oneof(fc.constant({ kind: 'built-in' } as const), elsewhere()),
};

function elsewhere(): fc.Arbitrary<JobSpec['data']> {
  return fc.constantFrom(
    { kind: 'files' },
    { kind: 'url', url: 'https://example.org/a?b=1' },
    { kind: 'shared', files: [] },
  );
}

/** Any job that a form or a command line can create. */
const jobs = fc
  .record({ job: fc.constantFrom(...JOB_NAMES), strategy: fc.constantFrom(...STRATEGY_NAMES) })
  .filter(({ job, strategy }) => job !== 'lesson' || strategy === 'ddp')
  .chain(({ job, strategy }) =>
    fc.record(
      {
        job: fc.constant(job),
        strategy: fc.constant(strategy),
        data: sources[job],
        model: fc.constantFrom(...(job === 'table' ? (['mlp'] as const) : (['mlp', 'cnn'] as const))),
        augment: learnsPictures(job)
          ? fc.option(fc.uniqueArray(fc.constantFrom(...AUGMENT_NAMES), { minLength: 1 }))
          : fc.constant(null),
        codec: fc.constantFrom(...STRATEGIES[strategy].codecs),
        optimizer: fc.constantFrom(...OPTIMIZER_NAMES),
        schedule: fc.constantFrom(...RATE_SCHEDULE_NAMES),
        measure: fc.constantFrom(null, ...RUN_MEASUREMENT_NAMES),
        learningRate: fc.double({ min: 1e-9, max: 10, noNaN: true }),
        maxSteps: fc.oneof(fc.integer({ min: 20, max: 1000 }), fc.option(fc.integer({ min: 1, max: 10_000_000 }))),
        seed: fc.integer({ min: 0, max: 0xffffffff }),
        errorFeedback: fc.boolean(),
        target: fc.option(fc.string({ minLength: 1, maxLength: 20 })),
        gpt: fc.record({ prompt: fc.string({ maxLength: 20 }), dropout: fc.double({ min: 0, max: 0.9, noNaN: true }) }),
      },
      { requiredKeys: ['job', 'strategy', 'data'] },
    ),
  )
  .filter(
    ({ measure, strategy, maxSteps = 20 }) =>
      (measure ?? null) === null || (strategy === 'ddp' && maxSteps !== null && maxSteps >= 20 && maxSteps <= 1000),
  )
  .map(({ gpt, ...fields }) => {
    const usual = parseJob(fields);
    return { ...usual, gpt: { ...usual.gpt, ...gpt } };
  });

test('a job does not change when it is written to a file and read; written again, it gives the same file', () => {
  fc.assert(
    fc.property(jobs, (job) => {
      const text = writeJobFile(job);
      const read = readJobFile('job.json', text).job;
      expect(read).toEqual(job);
      expect(writeJobFile(read)).toBe(text);
    }),
  );
});

test('a job file contains only fields with values other than the defaults', () => {
  expect(writtenOf({})).toEqual({ peergrad: 1, job: 'digits' });
  expect(writtenOf({ job: 'images', data: { kind: 'files' }, model: 'cnn' })).toEqual({
    peergrad: 1,
    job: 'images',
    model: 'cnn',
  });
  const { gpt } = parseJob({ job: 'gpt' });
  expect(writtenOf({ job: 'gpt', gpt: { ...gpt, layers: 3 } })).toEqual({
    peergrad: 1,
    job: 'gpt',
    gpt: { layers: 3 },
  });
  expect(writtenOf({ job: 'gpt', measure: 'learning-rate' })).toEqual({
    peergrad: 1,
    job: 'gpt',
    measure: 'learning-rate',
  });
  expect(writtenOf({ strategy: 'diloco' })).toEqual({ peergrad: 1, job: 'digits', strategy: 'diloco' });
});

test('a job file does not name the files that a host distributed; whoever opens it chooses files again', () => {
  const files = [{ name: 'cats.zip', size: 3, hash: '0123456789abcdef' }];
  const text = writeJobFile(parseJob({ job: 'images', data: { kind: 'shared', files } }));
  expect(readJobFile('job.json', text).job.data).toEqual({ kind: 'shared', files: [] });
});

test('reading a job file returns the whole job and, separately, the fields in the file', () => {
  const { fields, job } = readJobFile('job.json', '\uFEFF{"peergrad": 1, "strategy": "diloco", "batchSize": 8}');
  expect(fields).toEqual({ strategy: 'diloco', batchSize: 8 });
  expect(job).toMatchObject({ optimizer: 'adamw', batchSize: 8 });
});

test.each([
  ['{"peergrad": 1,\n  "seed": 7,\n}', 'job.json, line 3, column 1: this is not valid JSON (property name expected). '],
  ['{"peergrad": 1, // mine\n}', 'job.json, line 1, column 17: this is not valid JSON (invalid comment token). '],
  ['', 'job.json, line 1, column 1: this is not valid JSON (value expected). '],
  ['[1]', 'job.json is not a job file: '],
  ['{"seed": 7}', 'job.json is not a job file: the field "peergrad": 1 is missing. '],
  ['{"peergrad": 2}', 'job.json has peergrad version 2, but this page supports version 1. '],
  ['{"peergrad": 1,\n "seed": 7,\n "seed": 8}', 'job.json, line 3: "seed" occurs twice. '],
])('a file that is not a job file is rejected with the position: %j', (text, expected) => {
  expect(refusalOf(text).slice(0, expected.length)).toBe(expected);
});

test('a file that is too long or too deeply nested is rejected', () => {
  expect(refusalOf('['.repeat(100_000))).toBe(
    'job.json is not a job file: its brackets are nested too deeply. Choose another file.',
  );
  expect(refusalOf(' '.repeat(1_000_001))).toMatch(/^job\.json has more than 1000000 characters/);
});

test.each([
  ['"learninRate": 0.1', 'job.json, line 2: learninRate: there is no such field; did you mean learningRate.'],
  ['"job": "gpt", "gpt": {"lairs": 2}', 'job.json, line 2: gpt.lairs: there is no such field; did you mean layers.'],
  ['"xyzzy": 0', 'job.json, line 2: xyzzy: there is no such field; the fields are job, model, '],
  ['"learningRate": "fast"', 'job.json, line 2: learningRate: Invalid type: Expected number but received "fast".'],
  ['"batchSize": 0', 'job.json, line 2: batchSize: Invalid value: Expected >=1 but received 0.'],
  ['"job": "poker"', 'job.json, line 2: job: Invalid type: Expected ("digits" | '],
  ['"job": "gpt", "gpt": {"width": 10, "heads": 3}', 'job.json, line 2: gpt: width must be a multiple of heads'],
  ['"augment": []', 'job.json, line 2: augment: name at least one change, or use null for none.'],
  ['"augment": ["flip", "flip"]', 'job.json, line 2: augment[1]: this name occurs twice: remove one.'],
  [
    '"job": "table", "augment": ["flip"]',
    'job.json, line 2: augment: the job table has no pictures to change: remove it, or choose the job digits, mnist or images.',
  ],
  ['"data": {"kind": "files"}', 'job.json: digits has data of kind "synthetic"; '],
])('an invalid field is reported with its line and path: %s', (field, expected) => {
  expect(refusalOf(`{"peergrad": 1,\n${field}}`).slice(0, expected.length)).toBe(expected);
});
