import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import type { TextGenerator } from '../../../src/engine/tasks/textGenerator.ts';
import { createGptTask } from '../../../src/engine/tasks/gptTask.ts';
import { SampleTextWriter } from '../../../src/engine/tasks/sampleTextWriter.ts';
import { ReplicaStep } from '../../../src/engine/training/replicaStep.ts';
import { TrainingLoop } from '../../../src/engine/training/trainingLoop.ts';
import { writeFables } from '../../../src/jobs/gpt/fables.ts';
import { textInMemory } from '../../../src/jobs/gpt/text.ts';
import { countLabelsInTopK, createCorpus, GptNetwork, paddedVocabularySize } from '../../../src/jobs/index.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import type { RunResult } from '../../../src/protocol/runResult.ts';
import type { GptModel } from '../../../src/spec/gpt.ts';
import { DEFAULT_JOB, parseJob } from '../../../src/spec/job.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { systemClock } from '../../../src/util/clock.ts';

const TINY = { ...DEFAULT_JOB.gpt, layers: 1, heads: 2, width: 16, context: 16 };

/** Trains on the beginning of the built-in text. */
async function train(
  n: number,
  fields: Record<string, unknown>,
  model: Partial<GptModel> = {},
  length = 3000,
): Promise<{ results: RunResult[]; events: EngineEvent[][]; authors: TextGenerator[] }> {
  const job = parseJob({ job: 'gpt', ...fields, gpt: { ...TINY, ...model } });
  const text = textInMemory(writeFables().slice(0, length));
  const events: EngineEvent[][] = Array.from({ length: n }, () => []);
  const authors: TextGenerator[] = [];
  const results = await runWorld(n, async (group) => {
    const task = createGptTask(job, await createCorpus(text, job.gpt));
    authors[group.rank] = task.queryModel as TextGenerator;
    const options = {
      ...{ plan: job, clock: systemClock },
      device: { backend: 'cpu', adapter: 'test' } as const,
      emit: (event: EngineEvent) => void events[group.rank]!.push(event),
    };
    const run = new TrainingLoop(await ReplicaStep.prepare({ ...options, task, checkDevice: () => {} }), options);
    await run.enter({ group, signal: new AbortController().signal, transport: { webrtc: 0, server: 0, memory: n } });
    return run.run();
  });
  return { results, events, authors };
}

test('a comparison of methods uses the numbers of steps that language models need', async () => {
  const [result] = (await train(1, { measure: 'methods', batchSize: 2 })).results;
  const timeOf = (name: string): number => result!.methods!.costs.find(({ method }) => method === name)!.timeToGoal;
  // One rank communicates nothing, so only numbers of steps differ. Classifiers need fewer with
  // diloco.
  expect(timeOf('diloco')).toBeGreaterThan(timeOf('sparseloco'));
});

test('four ranks have the losses of one rank with four times the batch, even with dropout', async () => {
  const plan = { maxSteps: 20, learningRate: 0.01 };
  const dropout = { dropout: 0.2, width: 8, context: 8 };
  const [four] = (await train(4, { ...plan, batchSize: 2 }, dropout)).results;
  const [one] = (await train(1, { ...plan, batchSize: 8 }, dropout)).results;
  expect(four!.losses).toHaveLength(20);
  for (const [step, loss] of four!.losses.entries()) expect(Math.abs(loss - one!.losses[step]!)).toBeLessThan(1e-3);
  expect(new Set(four!.stateHash).size).toBe(1);
  expect(four!.losses.at(-1)!).toBeLessThan(four!.losses[0]!);
});

test.each(['characters', 'byte-pairs'] as const)(
  'the first loss is that of an untrained model in nats per character, for tokens that are %s',
  async (tokens) => {
    const { results, authors } = await train(1, { maxSteps: 1, batchSize: 4 }, { tokens, vocabulary: 300 });
    const text = textInMemory(writeFables().slice(0, 3000));
    const { tokenizer, train: windows, bigramLoss } = await createCorpus(text, { ...TINY, tokens, vocabulary: 300 });
    expect(results[0]!.losses[0]).toBeCloseTo(
      Math.log(paddedVocabularySize(tokenizer.size)) * windows.tokensPerCharacter,
      1,
    );
    expect(windows.tokensPerCharacter).toBe(tokens === 'characters' ? 1 : windows.tokens.length / 2700);
    expect(authors[0]!.bigramLoss).toBe(bigramLoss);
  },
);

test('a run with a time limit ends after the same step on all ranks; the clock of rank 0 decides', async () => {
  const { results, events } = await train(3, { maxMinutes: 0.4 / 60, maxSteps: null, batchSize: 1 });
  expect(new Set(results.map(({ steps }) => steps)).size).toBe(1);
  expect(new Set(results.flatMap(({ stateHash }) => stateHash)).size).toBe(1);
  const [{ steps, ms }] = results as [RunResult];
  expect(steps).toBeGreaterThan(1);
  expect(ms).toBeGreaterThan(400);
  // The run may stop only after the limit, so its last step is included.
  expect(events[0]!.filter(({ type }) => type === 'step')).toHaveLength(steps);
});

test('sample texts are written after 1, 2, 5, 10, ... steps and after the last step, each with the loss of its step', async () => {
  const { authors } = await train(1, { maxSteps: 1, batchSize: 1 });
  const told: EngineEvent[] = [];
  const samples = new SampleTextWriter(authors[0]!, (event) => void told.push(event), []);
  for (let step = 0; step < 25; step++) await samples.applied(step + 1, step);
  const { samples: written } = await samples.finish(25);
  expect(written.map(({ steps, loss }) => [steps, loss])).toEqual(
    [1, 2, 5, 10, 20, 25].map((steps) => [steps, steps === 25 ? 24 : steps - 1]),
  );
  expect(told).toHaveLength(6);
  // All ranks have the same weights, so they write the same text.
  expect(new Set(written.map(({ text }) => text)).size).toBe(1);
  expect(written[0]!.text).toHaveLength(160);
});

test('memory does not grow in 200 steps', async () => {
  const { events } = await train(1, { maxSteps: 200, hashEvery: 20, batchSize: 1 }, { width: 8, context: 8 });
  const bytes = events[0]!.flatMap((event) => (event.type === 'ranks' ? [event.ranks[0]!.memoryBytes] : []));
  expect(bytes).toHaveLength(10);
  expect(new Set(bytes).size).toBe(1);
}, 30_000);

test('top-3 accuracy is equal to a count by hand, and ignores padding', async () => {
  const job = parseJob({ job: 'gpt', gpt: { ...TINY, context: 8 }, metrics: ['top-3'] });
  const corpus = await createCorpus(textInMemory(writeFables().slice(0, 3000)), job.gpt);
  const task = createGptTask(job, corpus);
  const { layers, heads, width, context } = job.gpt;
  const network = new GptNetwork(
    { layers, heads, width, context, vocabulary: paddedVocabularySize(corpus.tokenizer.size) },
    job.seed,
  );
  const indices = Uint32Array.of(0, 3, 4);
  const [tokens, next] = [new Int32Array(3 * context), new Int32Array(3 * context)];
  corpus.test.read(indices, tokens, next);
  const logits = tf.tidy(() => network.logits(tf.tensor2d(tokens, [3, context], 'int32')).dataSync());
  const among = countLabelsInTopK(3, logits, next, paddedVocabularySize(corpus.tokenizer.size)) / context;
  const { sums } = await task.evaluate(indices);
  expect(sums![0]).toBeCloseTo(among, 5);
  expect(task.score!.toMetrics(sums!, 3)['top-3']).toBeCloseTo(among / 3, 6);
  network.dispose();
  task.dispose();
});

test.each([
  ['chooses the first tokens if all probabilities are equal', 0],
  ['counts no token as correct if outputs are NaN', NaN],
])('top-3 accuracy %s', async (_, weight) => {
  const job = parseJob({ job: 'gpt', gpt: { ...TINY, context: 8 }, metrics: ['top-3'] });
  const corpus = await createCorpus(textInMemory(writeFables().slice(0, 3000)), job.gpt);
  const task = createGptTask(job, corpus);
  const { jobModel } = task.queryModel as TextGenerator;
  // The embedding is also the output layer.
  const embedding = jobModel.variables[jobModel.names.indexOf('embedding/weight')]!;
  embedding.assign(tf.fill(embedding.shape, weight));
  const indices = Uint32Array.from({ length: corpus.test.size }, (__, i) => i).slice(0, task.testBatch);
  const { context } = corpus.test;
  const [tokens, next] = [new Int32Array(indices.length * context), new Int32Array(indices.length * context)];
  corpus.test.read(indices, tokens, next);
  const expected = Number.isNaN(weight) ? 0 : next.filter((token) => token < 3).length / context;
  const { sums } = await task.evaluate(indices);
  expect(sums![0]).toBeCloseTo(expected, 5);
  task.dispose();
});
