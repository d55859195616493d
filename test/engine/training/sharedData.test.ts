/** Training on files that one rank distributes. Memory links, TensorFlow.js's CPU backend. */
import { expect, test, vi } from 'vitest';
import { SharedFileSlices } from '../../../src/engine/files/sharedFileSlices.ts';
import type { Run } from '../../../src/engine/run/run.ts';
import type { WeightsFile } from '../../../src/formats/weights/weightsFile.ts';
import { parseJob, type JobSpec } from '../../../src/spec/job.ts';
import { createMeshes } from '../../../src/testing/index.ts';
import { createDeferred } from '../../../src/util/deferred.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { imagesFile, labelsFile } from '../../formats/idxFiles.ts';
import { inGeneration, prepareTraining } from '../trainings.ts';

const jobOn = (shared: SharedFileSlices): JobSpec =>
  parseJob({ job: 'mnist', hidden: 4, batchSize: 4, maxSteps: 2, data: { kind: 'shared', files: shared.manifest } });

const prepare = (job: JobSpec, shared: SharedFileSlices): Promise<Run> => prepareTraining({ job, shared });

test('all ranks train on the files of one rank, including ranks that join later', async () => {
  const files = [
    new File([imagesFile(40)], 't10k-images-idx3-ubyte'),
    new File([labelsFile(40)], 't10k-labels-idx1-ubyte'),
  ];
  const shared = await SharedFileSlices.chosen(files, () => {});
  const job = jobOn(shared);
  const [host, guest] = [await prepare(job, shared), await prepare(job, SharedFileSlices.awaited(shared.manifest))];
  expect(guest.hasState).toBe(false);
  // Without data, there is no model yet that could answer queries.
  expect(guest.answerer).toBeNull();
  expect(await inGeneration([host, guest], 1, job, ({ hasState }) => hasState)).toEqual([true, true]);
  const joiner = await prepare(job, SharedFileSlices.awaited(shared.manifest));
  const ends = await inGeneration([guest, joiner, host], 2, job, (training) => training.train());
  for (const end of ends)
    expect(end).toMatchObject({ step: 2, stateHash: (ends[0] as { stateHash: string }).stateHash });
  for (const training of [host, guest, joiner]) training.dispose();
});

test('the request for a snapshot before the model is built is rejected, and does not start to build the model', async () => {
  const shared = SharedFileSlices.awaited([{ name: 't10k-images-idx3-ubyte', size: 1, hash: '0'.repeat(16) }]);
  const emit = vi.fn();
  const read = vi.fn();
  const none = { entries: [], notes: [], vocabulary: null, facts: null };
  const weights: WeightsFile = { file: 'w', format: 'safetensors', read, ...none };
  const training = await prepareTraining({ job: jobOn(shared), shared, weights, emit });
  expect([training.hasState, training.isSavable]).toEqual([true, false]);
  await expect(training.snapshot()).rejects.toThrow(UsageError);
  expect(emit).not.toHaveBeenCalled();
  training.dispose();
});

test('every rank reports files that do not contain data for the job', async () => {
  const shared = await SharedFileSlices.chosen([new File(['abc'], 't10k-images-idx3-ubyte')], () => {});
  const job = jobOn(shared);
  const trainings = [await prepare(job, shared), await prepare(job, SharedFileSlices.awaited(shared.manifest))];
  const errors = await inGeneration(trainings, 1, job, () => null);
  for (const error of errors)
    expect((error as Error).message).toMatch(/t10k-images-idx3-ubyte was found, but its labels/);
  for (const training of trainings) training.dispose();
});

test('a rank that still prepares its data does not delay the end of a generation, and enters the next one', async () => {
  const read = createDeferred();
  const images = new File([imagesFile(40)], 't10k-images-idx3-ubyte');
  const files = [images, new File([labelsFile(40)], 't10k-labels-idx1-ubyte')];
  const shared = await SharedFileSlices.chosen(files, () => {});
  shared.files = () => files;
  const bytes = images.arrayBuffer.bind(images);
  images.arrayBuffer = () => read.promise.then(bytes);
  const job = jobOn(shared);
  const training = await prepare(job, shared);
  const over = new AbortController();
  const one = createMeshes(1);
  const member = { member: 'm0', name: 'm0', device: null, browser: 0, rank: null };
  const entered = training.enter({
    ...{
      generation: 1,
      run: 1,
      rank: 0,
      worldSize: 1,
      localRank: 0,
      localWorldSize: 1,
      members: [member],
      separated: [],
    },
    ...{ job, mesh: one.meshes[0]!, links: one.links[0]!, signal: over.signal },
  });
  const ended = new Error('Another rank has left.');
  setTimeout(() => over.abort(ended));
  await expect(entered).rejects.toBe(ended);
  one.close();
  read.resolve();
  expect(await inGeneration([training], 2, job, () => training.train())).toMatchObject([{ step: 2 }]);
  training.dispose();
});
