/**
 * A model's file contains the meaning of inputs and outputs. A run on data with another meaning
 * does not start from it. CPU backend.
 */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { exportModel } from '../../../src/engine/model/modelFiles.ts';
import { readRunOrigin } from '../../../src/engine/model/origin.ts';
import type { Run } from '../../../src/engine/run/run.ts';
import { loadData } from '../../../src/jobs/index.ts';
import { readSafetensors, writeSafetensors } from '../../../src/formats/weights/safetensors.ts';
import type { WeightsFile } from '../../../src/formats/weights/weightsFile.ts';
import { parseJob, type JobSpec } from '../../../src/spec/job.ts';
import { WEIGHTS_FORMATS, type WeightsFormat } from '../../../src/spec/modelFile.ts';
import { DataError } from '../../../src/util/errors.ts';
import { npyFile } from '../../formats/npyFiles.ts';
import { zipFile } from '../../formats/zipFiles.ts';
import { inGeneration, prepareTraining } from '../trainings.ts';

const upTo = (most: number): number[] => Array.from({ length: most }, (_, i) => i);

const jobOf = (fields: Record<string, unknown>): JobSpec =>
  parseJob({ data: { kind: 'files' }, batchSize: 8, hidden: 4, maxSteps: 2, ...fields });
const TABLE = jobOf({ job: 'table' });
const IMAGES = jobOf({ job: 'images' });

/** Creates a table with these columns. `row` returns the values of each row. */
const table = (columns: string, row: (i: number) => readonly (number | string)[]): File =>
  new File(
    [
      `${columns}\n${upTo(40)
        .map((i) => row(i).join(','))
        .join('\n')}`,
    ],
    'a.csv',
  );
const COLOURS = ['blue', 'red'];
const buyers = table('age,colour,buys', (i) => [i, COLOURS[i % 2]!, ['no', 'yes'][(i >> 1) % 2]!]);
const flats = table('rooms,price', (i) => [i % 7, 100 + 3 * i]);

/** Creates images of 2 x 3 pixels. These labels are repeated in order. */
const images = (labels: readonly number[], type: 'u1' | 'f4' = 'u1'): File => {
  const x = npyFile([40, 2, 3], upTo(240), { type });
  const y = npyFile(
    [40],
    upTo(40).map((i) => labels[i % labels.length]!),
    { type: 'u1' },
  );
  return new File([zipFile({ 'x.npy': x, 'y.npy': y })], 'a.npz');
};

const prepare = (job: JobSpec, file: File, weights: WeightsFile | null = null): Promise<Run> =>
  prepareTraining({ job, worldSize: 1, files: [file], weights });

async function exported(training: Run, format: WeightsFormat): Promise<File> {
  const event = await exportModel({ type: 'export', id: 1, format, which: 'last' }, training.answerer, null);
  if (event.type !== 'exported' || event.file === null) throw new Error(JSON.stringify(event));
  return new File([event.file.content], event.file.name);
}

async function weightsOf(file: File): Promise<WeightsFile> {
  const origin = await readRunOrigin(file);
  if (origin.kind !== 'weights') throw new Error(origin.kind);
  return origin.weights;
}

/** Resolves with the file of a model that was built for this data. */
async function modelOf(job: JobSpec, file: File, format: WeightsFormat = 'safetensors'): Promise<WeightsFile> {
  const training = await prepare(job, file);
  const weights = await weightsOf(await exported(training, format));
  training.dispose();
  return weights;
}

const valuesOf = ({ answerer }: Run): number[][] =>
  answerer!.model.jobModel.variables.map((variable) => Array.from(variable.dataSync()));

describe.each(WEIGHTS_FORMATS)('a model in the format %s', (format) => {
  test('contains columns, scales, values and classes of its table, and a run on similar data can start from it', async () => {
    const training = await prepare(TABLE, buyers);
    await inGeneration([training], 1, TABLE, (one) => one.train());
    const weights = await weightsOf(await exported(training, format));
    expect(weights.facts).toEqual({
      kind: 'table',
      target: 'buys',
      task: 'classification',
      columns: [
        {
          ...{ name: 'age', kind: 'number', mark: null, values: null, isMissing: false },
          moments: { count: 32, mean: expect.closeTo(19.5, -1) as unknown, squares: expect.any(Number) as unknown },
        },
        expect.objectContaining({ name: 'colour', kind: 'category', values: ['blue', 'red'] }),
        expect.objectContaining({ name: 'buys', values: ['no', 'yes'] }),
      ],
    });
    // The later data has other rows with the same meaning. Scales are computed again from the run's
    // own data.
    const later = table('age,colour,buys', (i) => [50 + i, COLOURS[i % 2]!, ['no', 'yes'][(i >> 1) % 2]!]);
    for (const file of [buyers, later]) {
      const next = await prepare({ ...TABLE, seed: 5 }, file, weights);
      expect(valuesOf(next)).toEqual(valuesOf(training));
      next.dispose();
    }
    training.dispose();
  });

  test('contains the unit and the mean of the amount that it predicts', async () => {
    const { facts } = await modelOf(TABLE, flats, format);
    if (facts?.kind !== 'table') throw new Error('This is no table.');
    expect(facts.task).toBe('regression');
    const { train } = await loadData(TABLE, { files: [flats], baseUrl: 'http://localhost/' });
    const { count, mean, squares } = facts.columns[1]!.moments;
    const [inputs, labels] = [new Float32Array(count), new Float32Array(count)];
    await train.read(upTo(count), inputs, labels);
    expect(Math.sqrt(squares / count)).toBe(train.labelUnit);
    const prices = Array.from(labels, (label) => (label * train.labelUnit! + mean - 100) / 3);
    for (const price of prices) expect(price).toBeCloseTo(Math.round(price), 3);
  });

  test('contains the shape, classes and scale of its images', async () => {
    expect((await modelOf(IMAGES, images([3, 7]), format)).facts).toEqual({
      ...{ kind: 'images', shape: [2, 3, 1], isNumbered: true, classes: ['3', '7'], untrained: [], moments: null },
    });
    expect((await modelOf(IMAGES, images([3, 7], 'f4'), format)).facts).toMatchObject({ moments: [{ count: 192 }] });
  });
});

test('a model of federated data contains the facts of all ranks', async () => {
  const job = jobOf({ job: 'table', data: { kind: 'federated' } });
  const cats = table('weight,animal', (i) => [4 + (i % 3), 'cat']);
  const dogs = table('weight,animal', (i) => [20 + (i % 9), 'dog']);
  const trainings = await Promise.all([cats, dogs].map((file) => prepareTraining({ job, files: [file] })));
  await inGeneration(trainings, 1, job, (one) => one.train());
  for (const training of trainings) {
    const { facts } = await weightsOf(await exported(training, 'safetensors'));
    expect(facts).toMatchObject({ columns: [{ moments: { count: 64 } }, { name: 'animal', values: ['cat', 'dog'] }] });
    training.dispose();
  }
});

test.each<[string, JobSpec, File, File, string]>([
  [
    'columns',
    TABLE,
    buyers,
    table('height,colour,buys', (i) => [i, COLOURS[i % 2]!, ['no', 'yes'][(i >> 1) % 2]!]),
    'its columns are age, colour, buys, but here they are height, colour, buys',
  ],
  [
    'targets',
    TABLE,
    buyers,
    table('height,shape,animal', (i) => [i, ['round', 'square'][i % 2]!, ['cat', 'dog'][(i >> 1) % 2]!]),
    'it predicts "buys", but this job predicts "animal"',
  ],
  [
    'words in a column',
    TABLE,
    buyers,
    table('age,colour,buys', (i) => [i, ['green', 'red'][i % 2]!, ['no', 'yes'][(i >> 1) % 2]!]),
    'its column "colour" has other values (missing here: blue; new: green)',
  ],
  [
    'classes in a table',
    TABLE,
    buyers,
    table('age,colour,buys', (i) => [i, COLOURS[i % 2]!, ['maybe', 'yes'][(i >> 1) % 2]!]),
    'its column "buys" has other values (missing here: no; new: maybe)',
  ],
  [
    'missing values',
    TABLE,
    buyers,
    table('age,colour,buys', (i) => [i % 5 ? i : '', COLOURS[i % 2]!, ['no', 'yes'][(i >> 1) % 2]!]),
    'its column "age" is numbers without missing values, but here it is numbers with missing values',
  ],
  [
    'tasks (regression, classification)',
    TABLE,
    flats,
    table('rooms,price', (i) => [i % 7, i % 2]),
    'it predicts "price" by regression, but this job predicts it by classification',
  ],
  ['classes of images', IMAGES, images([3, 7]), images([3, 8]), 'it has other classes (missing here: 7; new: 8)'],
  [
    'scales',
    IMAGES,
    images([3, 7]),
    images([3, 7], 'f4'),
    'its samples are 2 x 3 x 1 bytes, but here they are 2 x 3 x 1 numbers that are not bytes',
  ],
])('a model cannot start a run if the data have other %s', async (_, job, learned, own, sentence) => {
  const weights = await modelOf(job, learned);
  const before = tf.memory().numTensors;
  const preparing = prepare(job, own, weights);
  await expect(preparing).rejects.toThrow(DataError);
  await expect(preparing).rejects.toThrow(
    `${weights.file} contains a model that was trained on other data: ${sentence}. Choose a model for`,
  );
  expect(tf.memory().numTensors).toBe(before);
});

test('a checkpoint can be resumed on its own data, and is rejected on other data', async () => {
  const training = await prepare(TABLE, buyers);
  await inGeneration([training], 1, TABLE, (one) => one.train());
  const about = { room: 'K7F3QX', job: TABLE, savedAt: 1, worldSize: 1 };
  const run = { snapshot: () => training.snapshot(), about, member: 'm' };
  const event = await exportModel({ type: 'export', id: 1, format: 'checkpoint', which: 'last' }, null, run);
  if (event.type !== 'exported' || event.file === null) throw new Error(JSON.stringify(event));
  const origin = await readRunOrigin(new File([event.file.content], event.file.name));
  if (origin.kind !== 'checkpoint') throw new Error(origin.kind);
  const goOn = (file: File) => prepareTraining({ job: TABLE, worldSize: 1, files: [file], from: origin.state });
  const next = await goOn(buyers);
  await inGeneration([next], 1, TABLE, () => {});
  expect(valuesOf(next)).toEqual(valuesOf(training));
  for (const one of [next, training]) one.dispose();
  await expect(
    goOn(table('height,colour,buys', (i) => [i, COLOURS[i % 2]!, ['no', 'yes'][(i >> 1) % 2]!])),
  ).rejects.toThrow(
    'The checkpoint contains a model that was trained on other data: its columns are age, colour, buys, but here they are height, colour, buys.',
  );
});

test('a weights file without facts is accepted, and one with invalid facts is rejected as damaged', async () => {
  const training = await prepare(TABLE, buyers);
  const file = await exported(training, 'safetensors');
  training.dispose();
  const { tensors, about } = readSafetensors(file.name, new Uint8Array(await file.arrayBuffer()));
  const { 'peergrad.facts': facts, ...others } = about;
  expect(facts).toContain('"colour"');
  const silent = await weightsOf(new File([writeSafetensors(tensors, others)], 'theirs.safetensors'));
  expect(silent.facts).toBeNull();
  (await prepare(TABLE, buyers, silent)).dispose();
  const spoilt = writeSafetensors(tensors, { ...others, 'peergrad.facts': '{"kind": "table"}' });
  await expect(readRunOrigin(new File([spoilt], 'spoilt.safetensors'))).rejects.toThrow(
    /^spoilt\.safetensors is damaged: its peergrad\.facts is invalid \(columns: /,
  );
});
