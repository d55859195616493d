/** Tests of jobs whose data is in files that the user picked or in files on a server. */
import type * as tf from '@tensorflow/tfjs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { createJobTask } from '../../src/engine/tasks/jobTask.ts';
import { previewFiles, loadData } from '../../src/jobs/index.ts';
import type { LoadProgress } from '../../src/protocol/events.ts';
import { parseJob } from '../../src/spec/job.ts';
import { npyFile } from '../formats/npyFiles.ts';
import { zipFile } from '../formats/zipFiles.ts';
import { labelsFile, imagesFile } from '../formats/idxFiles.ts';

const baseUrl = 'http://localhost/';
const houses = `rooms,price\n${Array.from({ length: 40 }, (_, i) => `${i % 8},${1000 * (i % 8) + i}`).join('\n')}`;

const close: (() => void)[] = [];
afterEach(() => close.splice(0).forEach((fn) => fn()));

async function serve(files: Record<string, string | Uint8Array>): Promise<string> {
  const server = createServer((request, response) => {
    const body = files[request.url!];
    if (body === undefined) response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(body);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  close.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('loadData reads a table from a chosen file and from a URL', async () => {
  const picked = await loadData(parseJob({ job: 'table', data: { kind: 'files' } }), {
    files: [new File([houses], 'houses.csv')],
    baseUrl,
  });
  expect([picked.train.size, picked.test.size]).toEqual([32, 8]);
  const origin = await serve({ '/my%20houses.csv': houses });
  const job = parseJob({ job: 'table', data: { kind: 'url', url: '/my houses.csv' } });
  const fetched = await loadData(job, { baseUrl: origin });
  expect(fetched.train.digest).toBe(picked.train.digest);
  const gone = parseJob({ job: 'table', data: { kind: 'url', url: '/gone.csv' } });
  await expect(loadData(gone, { baseUrl: origin })).rejects.toThrow(`${origin}/gone.csv does not exist`);
  await expect(loadData(job, { baseUrl, files: [] })).rejects.toThrow('could not be fetched');
});

test('the bytes of files that are downloaded one by one are reported together', async () => {
  const pair = { images: imagesFile(50, 28, 28), labels: labelsFile(50) };
  const bytes = pair.images.length + pair.labels.length;
  const origin = await serve({
    '/mnist/train-images-idx3-ubyte': pair.images,
    '/mnist/train-labels-idx1-ubyte': pair.labels,
    '/images/index.json': '["x-idx3-ubyte","y-idx1-ubyte"]',
    '/images/x-idx3-ubyte': pair.images,
    '/images/y-idx1-ubyte': pair.labels,
  });
  for (const job of ['mnist', 'images']) {
    const progress: LoadProgress[] = [];
    await loadData(parseJob({ job, data: { kind: 'url', url: `/${job}/` } }), {
      baseUrl: origin,
      onprogress: (one) => progress.push(one),
    });
    expect(progress.at(-1)).toEqual({ unit: 'bytes', done: bytes, total: bytes });
  }
});

test('loadData reads images from a folder on a server that has an index', async () => {
  const origin = await serve({
    '/data/index.json': '["x-idx3-ubyte","sub/y-idx1-ubyte"]',
    '/data/x-idx3-ubyte': imagesFile(50, 4, 4),
    '/data/sub/y-idx1-ubyte': labelsFile(50),
  });
  const job = parseJob({ job: 'images', data: { kind: 'url', url: '/data/' } });
  const { train } = await loadData(job, { baseUrl: origin });
  expect(train).toMatchObject({ size: 40, inputShape: [4, 4, 1], classes: 10 });
  const bare = parseJob({ job: 'images', data: { kind: 'url', url: '/other/' } });
  await expect(loadData(bare, { baseUrl: origin })).rejects.toThrow('has no index.json');
});

test('loadData fetches listed files, reports progress in bytes, and names files without a size', async () => {
  const [images, labels] = [imagesFile(50, 4, 4), labelsFile(50)];
  const entries = [
    { name: 'notes.md' },
    { name: 'x-idx3-ubyte', size: images.length },
    { name: 'y.txt', size: 3 },
    { name: 'z/y-idx1-ubyte', size: labels.length },
  ];
  const contents = Buffer.concat([images, Buffer.from('abc'), labels]);
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.url!.replace(/of=[0-9a-f]{16}$/, 'of=...')} ${request.headers.range ?? ''}`.trim());
    const [, from, last] = /=(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? [];
    const part = contents.subarray(Number(from), Number(last) + 1);
    if (from === undefined) response.end(JSON.stringify(entries));
    else response.writeHead(206, { 'content-length': part.length }).end(part);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  close.push(() => server.close());
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const job = parseJob({ job: 'images', data: { kind: 'url', url: '/data/' } });
  const progress: [number, number][] = [];
  const previews: unknown[] = [];
  const { train } = await loadData(job, {
    baseUrl: address,
    onprogress: ({ done, total }) => progress.push([done, total]),
    onpreview: ({ notes }) => previews.push(...notes),
  });
  expect(train).toMatchObject({ size: 40, inputShape: [4, 4, 1] });
  expect(asked).toEqual([
    '/data/index.json',
    `/data/index.bin?of=... bytes=0-${images.length - 1}`,
    `/data/index.bin?of=... bytes=${images.length + 3}-${contents.length - 1}`,
  ]);
  expect(progress.at(-1)).toEqual([images.length + labels.length, images.length + labels.length]);
  expect(previews).toEqual([{ kind: 'files-ignored', count: 2, name: '', example: 'notes.md' }]);
});

test('previewFiles returns a preview of chosen files, or what is wrong with the files or the target', async () => {
  const job = parseJob({ job: 'table', data: { kind: 'files' }, target: 'cost' });
  const files = [new File([houses], 'houses.csv')];
  expect(await previewFiles({ ...job, target: 'price' }, files)).toMatchObject({
    preview: { kind: 'table', rows: 40, task: 'regression' },
    problem: null,
  });
  expect(await previewFiles(job, files)).toMatchObject({
    preview: { kind: 'table', rows: 40 },
    problem: 'houses.csv, line 1: there is no column "cost". Choose one of rooms, price.',
  });
  expect(await previewFiles(job, [...files, ...files])).toMatchObject({
    preview: null,
    problem: /* one */ expect.stringContaining('there are 2'),
  });
  const broken = [new File(['a,b\n1\n'], 'a.csv')];
  expect(await previewFiles(job, broken)).toMatchObject({
    preview: null,
    problem: expect.stringContaining('a.csv, line 2'),
  });
});

const model = (inputs: number, units: number, activation = 'linear') => ({
  class_name: 'Sequential',
  config: { layers: [{ class_name: 'Dense', config: { units, activation, batch_input_shape: [null, inputs] } }] },
});

async function problemOf(fields: Record<string, unknown>, file: File): Promise<string | null> {
  const { preview, problem } = await previewFiles(parseJob({ data: { kind: 'files' }, ...fields }), [file]);
  // There is a preview although there is a problem.
  expect(preview).not.toBeNull();
  return problem;
}

test('previewFiles reports, before the run, that custom layers do not fit the files', async () => {
  const table = new File(['rooms,age,kind\n', '1,old,a\n2,new,b\n3,,a\n,old,b\n'.repeat(2)], 'a.csv');
  // The four inputs: rooms, whether rooms are missing, "new", "old".
  expect(await problemOf({ job: 'table', model: model(4, 2) }, table)).toBeNull();
  expect(await problemOf({ job: 'table', model: model(3, 2) }, table)).toBe(
    'model.config.layers[0].config.batch_input_shape: the model needs samples of [3], but the samples are [1, 1, 4], or [4] in one row.',
  );
  expect(await problemOf({ job: 'table', model: model(4, 3) }, table)).toContain('the samples have 2 classes: [2].');
  const amounts = new File([houses], 'houses.csv');
  expect(await problemOf({ job: 'table', model: model(1, 1) }, amounts)).toBeNull();
  expect(await problemOf({ job: 'table', model: model(1, 1, 'softmax') }, amounts)).toMatch(/Remove the softmax/);
  expect(await problemOf({ job: 'table', model: model(1, 2) }, amounts)).toContain('the samples have an amount: [1].');
  const x = npyFile([4, 2], [1, 2, 3, 4, 5, 6, 7, 8]);
  const y = npyFile([4], [0, 1, 0, 1], { type: 'i8' });
  const arrays = new File([zipFile({ 'x.npy': x, 'y.npy': y })], 'set.npz');
  expect(await problemOf({ job: 'images', model: model(2, 2) }, arrays)).toBeNull();
  expect(await problemOf({ job: 'images', model: model(2, 5) }, arrays)).toContain('the model outputs [5]');
});

test('a task that predicts amounts has a squared error as its loss, and metrics in the unit of the amounts', async () => {
  const job = parseJob({ job: 'table', data: { kind: 'files' }, hidden: 4 });
  const data = await loadData(job, { files: [new File([houses], 'houses.csv')], baseUrl });
  const task = await createJobTask(job, data, 1);
  expect(task).toMatchObject({ classifies: false, trainSamples: 32, testSamples: 8 });
  expect(data.test.labelUnit).toBeGreaterThan(1000);
  const { lossSum, correct, sums } = await task.evaluate(Uint32Array.of(0, 1, 2));
  expect(correct).toBe(0);
  expect(sums![0]).toBeCloseTo(lossSum, 4);
  expect(task.score!.toMetrics(sums!, 3)).toEqual({ rmse: Math.sqrt(sums![0]! / 3) * data.test.labelUnit! });
  const inputs = new Float32Array(3);
  const amounts = new Float32Array(3);
  await data.test.read([0, 1, 2], inputs, amounts);
  // The outputs of the model's two layers are computed by hand.
  const [kernel1, bias1, kernel2, bias2] = (task.model as tf.Variable[]).map((variable) => variable.dataSync());
  const expected = Array.from(inputs, (x, i) => {
    const hidden = Array.from(kernel1!, (weight, k) => Math.max(0, weight * x + bias1![k]!));
    const output = hidden.reduce((sum, value, k) => sum + value * kernel2![k]!, bias2![0]!);
    return (output - amounts[i]!) ** 2;
  }).reduce((sum, value) => sum + value, 0);
  expect(lossSum).toBeCloseTo(expected, 4);
  task.dispose();
});

test('previewFiles returns a preview of a chosen text, or what is wrong with the text', async () => {
  const job = parseJob({ job: 'gpt', data: { kind: 'files' } });
  const context = job.gpt.context;
  const text = '0123456789'.repeat(2 * context);
  expect(await previewFiles(job, [new File([text], 'a.txt')])).toEqual({
    preview: {
      kind: 'gpt',
      characters: 20 * context,
      vocabulary: 10,
      samples: 18,
      heldOut: 1,
      beginning: text.slice(0, 300),
      notes: [],
    },
    problem: null,
  });
  expect(await previewFiles(job, [new File(['too short'], 'a.txt')])).toMatchObject({
    preview: null,
    problem: expect.stringContaining('The text has 9 characters'),
  });
});
