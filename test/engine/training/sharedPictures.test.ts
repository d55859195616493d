/** Training on pictures that arrive while the run trains. Memory links, the CPU backend. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { SharedFileSlices } from '../../../src/engine/files/sharedFileSlices.ts';
import { determineFileSliceOrder } from '../../../src/engine/files/fileSliceOrder.ts';
import type { Run } from '../../../src/engine/run/run.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { parseJob, type JobSpec } from '../../../src/spec/job.ts';
import { createDeferred } from '../../../src/util/deferred.ts';
import { createRng } from '../../../src/util/rng.ts';
import { zipFile } from '../../formats/zipFiles.ts';
import { gatedLinks } from '../files/gatedLinks.ts';
import { inGeneration, prepareTraining } from '../trainings.ts';

const SIDE = 8;
const PICTURES = 120;

/** A fake of the browser's decoder: the pixels depend on all bytes of the file. */
function fakeDecoder(): void {
  let seed = 0;
  class Canvas {
    readonly canvas = { width: SIDE };
    fillRect(): void {}
    drawImage(bitmap: { seed: number }): void {
      seed = bitmap.seed;
    }
    getImageData(): { data: Uint8Array } {
      const rng = createRng(seed);
      return { data: Uint8Array.from({ length: 4 * SIDE * SIDE }, () => rng.below(256)) };
    }
    getContext(): this {
      return this;
    }
  }
  vi.stubGlobal('navigator', { hardwareConcurrency: 2 });
  vi.stubGlobal('OffscreenCanvas', Canvas);
  vi.stubGlobal('createImageBitmap', async (blob: Blob) => {
    const bytes = new Uint8Array(await blob.arrayBuffer());
    return { width: 1, height: 1, seed: bytes.reduce((sum, byte) => (31 * sum + byte) >>> 0, 7), close: () => {} };
  });
}

beforeAll(fakeDecoder);
afterAll(() => void vi.unstubAllGlobals());

async function pets(): Promise<SharedFileSlices> {
  const names = Array.from({ length: PICTURES }, (_, i) => `pets/${i % 2 ? 'cats' : 'dogs'}/${i}.jpg`);
  const zip = zipFile(Object.fromEntries(names.map((name) => [name, randomBytes(100_000)])));
  return SharedFileSlices.chosen([new File([zip], 'pets.zip')], () => {});
}

const jobOn = (shared: SharedFileSlices): JobSpec =>
  parseJob({
    ...{ job: 'images', model: 'mlp', hidden: 4, side: SIDE, channels: 1, batchSize: 2, epochs: 2, hashEvery: 8 },
    data: { kind: 'shared', files: shared.manifest },
  });

interface Tab {
  run: Run;
  shared: SharedFileSlices;
  /** Samples and epochs of the steps that this rank has taken. */
  events: EngineEvent[];
}

async function tabOf(
  job: JobSpec,
  shared: SharedFileSlices,
  onevent: (event: EngineEvent) => void = () => {},
  worldSize = 2,
): Promise<Tab> {
  const events: EngineEvent[] = [];
  const emit = (event: EngineEvent): void => {
    events.push(event);
    onevent(event);
  };
  return { run: await prepareTraining({ job, shared, worldSize, emit }), shared, events };
}

const resultsOf = (ends: readonly unknown[]) => ends as { step: number; stateHash: string }[];

/** Trains two ranks that both have all files. */
async function trainOnWhole(job: JobSpec, files: SharedFileSlices): Promise<{ step: number; stateHash: string }> {
  const tabs = [await tabOf(job, files), await tabOf(job, files)];
  const ends = await inGeneration(
    tabs.map(({ run }) => run),
    99,
    job,
    (run) => run.train(),
  );
  for (const { run } of tabs) run.dispose();
  return resultsOf(ends)[0]!;
}

test('the first step is taken before all files have arrived, and the run has the same result as with all files', async () => {
  const files = await pets();
  const job = jobOn(files);
  const { opening } = await determineFileSliceOrder(files, job, 2);
  const { createPair, open } = gatedLinks(opening + 12);
  const guestFiles = SharedFileSlices.awaited(files.manifest);
  const host = await tabOf(job, files);
  const early: boolean[] = [];
  const guest = await tabOf(job, guestFiles, ({ type }) => {
    if (type !== 'step') return;
    early.push(!guestFiles.isWhole);
    open();
  });
  const ends = await inGeneration([host.run, guest.run], 1, job, (run) => run.train(), createPair);
  expect(early[0]).toBe(true);
  const whole = await trainOnWhole(job, files);
  expect(ends).toMatchObject([whole, whole]);
  const last = guest.events.findLast((event) => event.type === 'distribution');
  const { totalBytes } = files;
  expect(last).toMatchObject({ total: totalBytes, bytesPerRank: [totalBytes, totalBytes] });
  for (const { run } of [host, guest]) run.dispose();
});

test('if the host is lost in the middle, the other ranks report what is missing', async () => {
  const files = await pets();
  const job = jobOn(files);
  const { opening } = await determineFileSliceOrder(files, job, 3);
  const { createPair } = gatedLinks(opening + 12);
  const stepped = createDeferred();
  const host = await tabOf(job, files, () => {}, 3);
  const guests = [
    await tabOf(job, SharedFileSlices.awaited(files.manifest), ({ type }) => type === 'step' && stepped.resolve()),
  ];
  guests.push(await tabOf(job, SharedFileSlices.awaited(files.manifest)));
  const trained: Promise<unknown>[] = [];
  const errors = await inGeneration(
    [host, ...guests].map(({ run }) => run),
    1,
    job,
    async (run) => {
      const training = run.train();
      trained.push(training.catch(() => {}));
      if (run !== host.run) return training;
      await stepped.promise;
      throw new Error('The host has left.');
    },
    createPair,
  );
  expect(errors.map((error) => error instanceof Error)).toEqual([true, true, true]);
  await Promise.all(trained);
  const later = await inGeneration(
    guests.map(({ run }) => run),
    2,
    job,
    (run) => run.train(),
  );
  for (const error of later) {
    expect((error as Error).message).toMatch(/^No rank has all of pets\.zip: \d+ of \d+ slices are missing/);
  }
  for (const { run } of [host, ...guests]) run.dispose();
});

test('a rank that joins in the middle trains with the others, which take each sample of an epoch once', async () => {
  const files = await pets();
  const job = jobOn(files);
  const { opening } = await determineFileSliceOrder(files, job, 2);
  const { createPair } = gatedLinks(opening + 12);
  const stepped = createDeferred();
  const host = await tabOf(job, files);
  const guest = await tabOf(
    job,
    SharedFileSlices.awaited(files.manifest),
    ({ type }) => type === 'step' && stepped.resolve(),
  );
  const trained: Promise<unknown>[] = [];
  await inGeneration(
    [host.run, guest.run],
    1,
    job,
    async (run) => {
      const training = run.train();
      trained.push(training.catch(() => {}));
      await stepped.promise;
      throw new Error('A rank joins.');
    },
    createPair,
  );
  await Promise.all(trained);
  expect(guest.shared.isWhole).toBe(false);
  const newcomer = await tabOf(job, SharedFileSlices.awaited(files.manifest));
  const tabs = [host, newcomer, guest];
  const ends = resultsOf(
    await inGeneration(
      tabs.map(({ run }) => run),
      2,
      job,
      (run) => run.train(),
    ),
  );
  expect(new Set(ends.map(({ stateHash }) => stateHash)).size).toBe(1);
  const steps = host.events.filter((event) => event.type === 'begin');
  const taken = new Map(steps.map(({ step, epoch, samples }) => [step, { epoch, samples }]));
  const ofEpoch = [0, 1].map((one) =>
    [...taken.values()].filter(({ epoch }) => epoch === one).reduce((sum, { samples }) => sum + samples, 0),
  );
  expect(ofEpoch).toEqual([96, 96]);
  for (const { shared, run } of tabs) {
    expect(shared.isWhole).toBe(true);
    run.dispose();
  }
});
