/** Training with files that differ from rank to rank. Memory links, TensorFlow.js's CPU backend. */
import { expect, test } from 'vitest';
import type { TextGenerator } from '../../../src/engine/tasks/textGenerator.ts';
import { exportModel } from '../../../src/engine/model/modelFiles.ts';
import { runStateFromCheckpoint, runStateToCheckpoint } from '../../../src/engine/storage/runCheckpoint.ts';
import type { Run } from '../../../src/engine/run/run.ts';
import { openWeights } from '../../../src/formats/weights/weightsFile.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { DEFAULT_JOB, parseJob, type JobSpec } from '../../../src/spec/job.ts';
import { DataError, PeerGoneError } from '../../../src/util/errors.ts';
import { inGeneration, prepareTraining } from '../trainings.ts';

/** Returns `count` rows, starting at row `from`. The class tells whether x is below 50. */
const rows = (from: number, count: number): string =>
  `x,noise,kind\n${Array.from({ length: count }, (_, i) => {
    const x = ((from + i) * 37) % 100;
    return `${x},${(i * 53) % 7},${x < 50 ? 'low' : 'high'}`;
  }).join('\n')}`;

const fileOf = (text: string): File[] => [new File([text], 'own.csv')];

const JOB: JobSpec = parseJob({
  ...{ job: 'table', data: { kind: 'federated' }, hidden: 8, learningRate: 0.02, batchSize: 8, epochs: 12 },
});

const prepare = (text: string, job = JOB, more: Partial<Parameters<typeof prepareTraining>[0]> = {}) =>
  prepareTraining({ job, files: fileOf(text), ...more });

test('ranks with different rows train one model on all of them, and evaluate it on held-out rows of their own', async () => {
  const events: EngineEvent[] = [];
  const parts = [rows(0, 40), rows(40, 20), rows(60, 40)];
  const trainings = await Promise.all(
    parts.map((text, i) => prepare(text, JOB, i === 0 ? { emit: (one) => events.push(one) } : {})),
  );
  const ends = await inGeneration(trainings, 1, JOB, (training) => training.train());
  const { stateHash } = ends[0] as { stateHash: string };
  for (const end of ends) expect(end).toMatchObject({ step: 48, stateHash });
  const { accuracy, confusion, epochs } = trainings[1]!.result!;
  expect(epochs).toBe(12);
  expect(accuracy).toBeGreaterThan(0.9);
  expect(confusion!.counts.flat().reduce((sum, one) => sum + one, 0)).toBe(20);
  expect(events.find(({ type }) => type === 'model')).toMatchObject({
    trainSamples: 80,
    testSamples: 20,
    totalSteps: 48,
  });
  for (const training of trainings) training.dispose();
});

test('a joining rank adopts the facts of the run, and is rejected with a reason if its data do not match', async () => {
  const job = { ...JOB, maxSteps: 6 };
  let breaks = 2;
  const emit = (event: EngineEvent): void => {
    if (event.type === 'begin' && event.step === 2 && breaks-- > 0) throw new PeerGoneError('A line broke.');
  };
  const founders = [await prepare(rows(0, 40), job, { emit }), await prepare(rows(40, 40), job, { emit })];
  const broken = await inGeneration(founders, 1, job, (training) => training.train());
  for (const error of broken) expect(error).toBeInstanceOf(PeerGoneError);
  const strange = await prepare(rows(0, 11).replaceAll('low', 'middle'), job);
  const refused = await inGeneration([...founders, strange], 2, job, () => null);
  expect(refused[2]).toBeInstanceOf(DataError);
  for (const error of refused) {
    expect((error as Error).message).toContain(
      `Rank 2 has data that do not match the other ranks' data: its column "kind" has the class "middle"`,
    );
  }
  const joiner = await prepare(rows(0, 40).replaceAll('high', 'low'), job);
  const ends = await inGeneration([joiner, ...founders], 3, job, (training) => training.train());
  for (const end of ends)
    expect(end).toMatchObject({ step: 6, stateHash: (ends[0] as { stateHash: string }).stateHash });
  for (const training of [...founders, strange, joiner]) training.dispose();
});

test('a resumed run keeps its facts, whichever ranks take part', async () => {
  const job = { ...JOB, maxSteps: 4 };
  const before = [await prepare(rows(0, 40), job), await prepare(rows(0, 40).replaceAll(/low|high/g, 'huge'), job)];
  await inGeneration(before, 1, job, (training) => training.train());
  const about = { id: 'a', room: 'b', job, savedAt: 0, worldSize: 2 };
  const from = runStateFromCheckpoint(structuredClone(runStateToCheckpoint(await before[0]!.snapshot(), about)));
  const longer = { ...job, maxSteps: 5 };
  const alone: Run = await prepare(rows(0, 40), longer, { from });
  const [end] = await inGeneration([alone], 1, longer, (training) => training.train());
  expect(end).toMatchObject({ step: 5 });
  expect(alone.result!.confusion!.classes).toEqual(['high', 'huge', 'low']);
  for (const training of [...before, alone]) training.dispose();
});

test('language models stay equal when they learn from texts that never leave their tabs', async () => {
  const gpt = { ...DEFAULT_JOB.gpt, context: 8, width: 8 };
  const job = parseJob({ job: 'gpt', data: { kind: 'federated' }, gpt, batchSize: 2, maxSteps: 3, hashEvery: 1 });
  const texts = ['abab cdcd '.repeat(30), 'aéaé '.repeat(60)];
  const trainings = await Promise.all(texts.map((text) => prepare(text, job)));
  const ends = await inGeneration(trainings, 1, job, (training) => training.train());
  for (const end of ends)
    expect(end).toMatchObject({ step: 3, stateHash: (ends[0] as { stateHash: string }).stateHash });
  const [a, b] = trainings.map(({ result }) => result!);
  expect(b!.bigramLoss).toBe(a!.bigramLoss);
  expect(b!.valLoss).toBe(a!.valLoss);
  // Another run starts from the model's file. Its texts need not contain all characters of the
  // vocabulary.
  const command = { type: 'export', id: 1, format: 'safetensors', which: 'last' } as const;
  const event = await exportModel(command, trainings[0]!.answerer, null);
  const saved = event.type === 'exported' ? event.file! : null;
  const weights = await openWeights(saved!.name, saved!.content);
  const heirs = [await prepare('ab cd '.repeat(60), job, { weights }), await prepare('ac db '.repeat(60), job)];
  const begun = await inGeneration(heirs, 2, job, (training) => training.train());
  for (const end of begun) expect(end).toMatchObject({ step: 3 });
  for (const { answerer, result } of heirs) {
    expect((answerer!.model as TextGenerator).vocabulary).toEqual({ tokens: 'characters', characters: ' abcdé' });
    expect(result!.bigramLoss).toBeGreaterThan(0);
  }
  for (const training of [...trainings, ...heirs]) training.dispose();
});

test('ranks agree on facts again if a rank returns before the first step, but not after the first step', async () => {
  const job = { ...JOB, maxSteps: 3, hashEvery: 1 };
  const early = await prepare(
    `${rows(0, 20)}\n${rows(0, 20)
      .replaceAll(/low|high/g, 'huge')
      .slice('x,noise,kind\n'.length)}`,
    job,
  );
  const others = [await prepare(rows(0, 40), job), await prepare(rows(40, 40), job)];
  // Early and the others have agreed on different facts, in worlds that broke before the first
  // step.
  await inGeneration([early], 1, job, () => null);
  await inGeneration(others, 2, job, () => null);
  const all = [early, ...others];
  const ends = await inGeneration(all, 3, job, (training) => training.train());
  for (const end of ends)
    expect(end).toMatchObject({ step: 3, stateHash: (ends[0] as { stateHash: string }).stateHash });
  const about = { id: 'a', room: 'b', job, savedAt: 0, worldSize: 3 };
  const longer = { ...job, maxSteps: 4 };
  const from = runStateFromCheckpoint(structuredClone(runStateToCheckpoint(await others[1]!.snapshot(), about)));
  // The stranger has taken part in a world of its own before it meets the heir.
  const stranger = await prepare(rows(20, 40), longer);
  await inGeneration([stranger], 4, longer, () => null);
  const heir = await prepare(rows(0, 40), longer, { from });
  expect(await heir.snapshot()).toBe(from);
  const later = await inGeneration([stranger, heir], 5, longer, (training) => training.train());
  for (const end of later) expect(end).toMatchObject({ step: 4 });
  expect((await stranger.snapshot()).agreed).toEqual(from.agreed);
  for (const training of [...all, stranger, heir]) training.dispose();
});

test.each([
  ['has the most steps', [1, 2]],
  ['was applied in the latest generation', [1, 1]],
])('a run keeps the facts of the state that %s, even if most ranks have other facts', async (_, steps) => {
  const job = { ...JOB, maxSteps: 4, hashEvery: 1 };
  const makeFor = (last: number, text: string) =>
    prepare(text, job, {
      emit: (event) => {
        if (event.type === 'begin' && event.step === last && breaks) throw new PeerGoneError('A line broke.');
      },
    });
  let breaks = true;
  const early = [await makeFor(steps[0]!, rows(0, 40)), await makeFor(steps[0]!, rows(40, 40))];
  const late = await makeFor(steps[1]!, rows(20, 40));
  await inGeneration(early, 1, job, (training) => training.train());
  await inGeneration([late], 2, job, (training) => training.train());
  const { agreed, progress } = await late.snapshot();
  expect(progress.step).toBe(steps[1]);
  expect((await early[0]!.snapshot()).agreed).not.toEqual(agreed);
  breaks = false;
  const all = [...early, late];
  const ends = await inGeneration(all, 3, job, (training) => training.train());
  for (const end of ends) expect(end).toMatchObject({ step: 4 });
  for (const training of all) {
    expect((await training.snapshot()).agreed).toEqual(agreed);
    training.dispose();
  }
});

test('a rank is rejected if its state has different facts, and the other ranks keep their facts', async () => {
  const job = { ...JOB, maxSteps: 2, hashEvery: 1 };
  const divergent = await prepare(rows(0, 40).replaceAll('low', 'huge'), job);
  const others = [await prepare(rows(0, 40), job), await prepare(rows(40, 40), job)];
  await inGeneration([divergent], 1, job, (training) => training.train());
  await inGeneration(others, 2, job, (training) => training.train());
  const { agreed } = await others[0]!.snapshot();
  const ends = await inGeneration([divergent, ...others], 3, job, () => null);
  expect(ends[0]).toBeInstanceOf(DataError);
  expect((await others[0]!.snapshot()).agreed).toEqual(agreed);
  expect(await inGeneration(others, 4, job, () => null)).toEqual([null, null]);
  for (const training of [divergent, ...others]) training.dispose();
});
