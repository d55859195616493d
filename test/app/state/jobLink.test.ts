import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { deflateSync, strToU8 } from 'fflate';
import { expect, test } from 'vitest';
import { DEFAULT_PAGE_JOB, PAGE_JOB_DEFAULTS } from '../../../src/app/state/algorithm.ts';
import { fitsJobLink, parseJobLink, addressSettingsOfJob } from '../../../src/app/state/jobLink.ts';
import { hashWithSettings } from '../../../src/app/state/route.ts';
import { DEFAULT_JOB, parseJob } from '../../../src/spec/job.ts';
import { mixSeed } from '../../../src/util/rng.ts';

const queryOf = (hash: string): URLSearchParams => new URLSearchParams(hash.split('?')[1] ?? '');

const OWN = {
  class_name: 'Sequential',
  config: {
    layers: [
      { class_name: 'Flatten', config: { batch_input_shape: [null, 28, 28, 1] } },
      { class_name: 'Dense', config: { units: 10 } },
    ],
  },
};

test.each([
  {},
  { seed: 7, model: 'cnn', batchSize: 8, learningRate: 0.01 },
  { job: 'mnist', data: { kind: 'files' }, maxSteps: 40 },
  { job: 'images', data: { kind: 'federated' }, side: 64 },
  { job: 'mnist', data: { kind: 'shared', files: [] } },
  { job: 'mnist', data: { kind: 'url', url: 'https://example.org/a?b=c&d' }, epochs: 3 },
  { job: 'table', data: { kind: 'files' }, target: 'price & tax', task: 'regression' },
  { job: 'table', data: { kind: 'files' }, loss: 'huber', metrics: ['mae', 'r2'] },
  { metrics: ['top-3'] },
  { augment: ['colour', 'flip'] },
  { job: 'images', data: { kind: 'url', url: 'pets.zip' }, side: 48, channels: 1, model: 'cnn' },
  { strategy: 'diloco', syncEvery: 4 },
  { transport: 'webrtc' },
  { algorithm: 'ring' },
  { algorithm: 'auto' },
  { algorithm: 'two-level', codec: 'int8' },
  { strategy: 'parameter-server', optimizer: 'sgd' },
  { codec: 'int8', errorFeedback: false, hidden: 256 },
  { model: OWN, seed: 7 },
  { job: 'gpt' },
  { job: 'gpt', maxSteps: null, clipNorm: null, maxMinutes: 15, schedule: 'constant', data: { kind: 'files' } },
  { job: 'gpt', data: { kind: 'shared', files: [] } },
  {
    job: 'gpt',
    data: { kind: 'url', url: '/data/a b.txt' },
    gpt: { ...DEFAULT_JOB.gpt, layers: 3, tokens: 'byte-pairs', prompt: 'O' },
  },
])('a link to a job gives the same job: %o', (fields) => {
  const job = parseJob(fields);
  expect(parseJobLink(queryOf(hashWithSettings('#new', addressSettingsOfJob(job))))).toEqual({
    job,
    problem: null,
    unknown: [],
  });
});

test('a link to the default job has no job settings, even if the address had settings of a different job', () => {
  expect(hashWithSettings('#new', addressSettingsOfJob(DEFAULT_PAGE_JOB))).toBe('#new');
  expect(hashWithSettings('#new?seed=7&job=mnist&lang=zh', addressSettingsOfJob(DEFAULT_PAGE_JOB))).toBe(
    '#new?lang=zh',
  );
});

test('a link without an algorithm gives the ring, the default of rooms that are opened on the page', () => {
  expect(parseJobLink(new URLSearchParams('seed=7')).job).toMatchObject({ algorithm: 'ring', seed: 7 });
  expect(hashWithSettings('#new', addressSettingsOfJob(DEFAULT_JOB))).toBe('#new?algorithm=auto');
});

test('a link with an algorithm that does not support its codec gives the default job and the reason', () => {
  const { job, problem } = parseJobLink(new URLSearchParams('algorithm=doubling&codec=int8'));
  expect(job).toEqual(DEFAULT_PAGE_JOB);
  expect(problem).toMatch(/doubling supports only the codecs fp32 and powersgd/);
});

test.each([
  'model=layers:x',
  'model=layers:',
  'seed=-1',
  'seed=',
  'batchSize=many',
  'job=poker',
  'learningRate=1e9',
  'codec=zip',
  'algorithm=star',
  'errorFeedback=1',
])('a link with an invalid setting gives the default job and an error: %s', (query) => {
  const { job, problem } = parseJobLink(new URLSearchParams(query));
  expect(job).toEqual(DEFAULT_PAGE_JOB);
  expect(problem).toMatch(new RegExp(`^The job is not valid: ${query.split('=')[0]}: `));
});

test('a link names the settings that no part of the page reads', () => {
  const { job, unknown } = parseJobLink(new URLSearchParams('seed=7&batch=8&lang=zh&auto&batch=9&learningrate=1'));
  expect(unknown).toEqual(['batch', 'learningrate']);
  expect(job).toMatchObject({ seed: 7, batchSize: DEFAULT_PAGE_JOB.batchSize });
});

test('layers in a link are rejected if they would be far larger when unpacked than layers usually are', () => {
  const [usual, bomb] = [0, 4_000_000].map((spaces) => {
    const bytes = deflateSync(strToU8(JSON.stringify(OWN) + ' '.repeat(spaces)));
    return `layers:${Buffer.from(bytes).toString('base64url')}`;
  });
  const problems = [usual!, bomb!].map((model) => parseJobLink(new URLSearchParams({ model })).problem);
  expect(problems).toEqual([null, expect.stringContaining('model')]);
});

test('a model with many layers is too large for a link', () => {
  const middle = Array.from({ length: 58 }, (_, i) => ({
    class_name: 'Dense',
    config: { name: [0, 1, 2].map((word) => mixSeed(i, word).toString(36)).join('-'), units: 40 },
  }));
  const [first, last] = OWN.config.layers;
  const job = parseJob({ ...PAGE_JOB_DEFAULTS, model: { ...OWN, config: { layers: [first, ...middle, last] } } });
  expect(fitsJobLink(job)).toBe(false);
  expect(hashWithSettings('#new', addressSettingsOfJob(job))).toBe('#new');
  expect(fitsJobLink(parseJob({ model: OWN }))).toBe(true);
});

test('links in sources and documents name only settings that a link has', () => {
  const root = path.resolve(import.meta.dirname, '../../..');
  const files = ['src', 'docs'].flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => path.join(folder, file)),
  );
  const links = files
    .filter((file) => /\.(tsx?|md)$/.test(file))
    .flatMap((file) =>
      [...readFileSync(path.join(root, file), 'utf8').matchAll(/#new\?[\w=&]+/g)].map(([link]) => link),
    );
  expect(links).toContain('#new?job=lesson');
  expect(links.filter((link) => parseJobLink(queryOf(link)).unknown.length > 0)).toEqual([]);
});
