/** Files and texts of runs with a pipeline, against those of a rank that has the whole model. */
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { modelWeightsMetadata } from '../../../src/engine/model/modelWeightsMetadata.ts';
import { readModelWeights, setModelWeights } from '../../../src/engine/model/modelWeights.ts';
import { TextGenerator } from '../../../src/engine/tasks/textGenerator.ts';
import type { PipelineOutputs } from '../../../src/engine/model/pipelineOutputs.ts';
import { openSafetensors } from '../../../src/formats/weights/safetensors.ts';
import { encodeWeights, openWeights } from '../../../src/formats/weights/weightsFile.ts';
import type { EngineEvent, EventOf } from '../../../src/protocol/events.ts';
import { DEFAULT_JOB, parseJob, type JobSpec } from '../../../src/spec/job.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { DataError } from '../../../src/util/errors.ts';
import { trainStage, trainWhole, wholeTask } from '../pipeline/runPipeline.ts';

const gpt = { ...DEFAULT_JOB.gpt, layers: 2, heads: 2, width: 16, context: 8, prompt: 'The ' };
const jobOf = (fields: Record<string, unknown>): JobSpec =>
  parseJob({ job: 'gpt', gpt, batchSize: 2, maxSteps: 3, ...fields });
/** The fields of a pipeline. */
const cut = (stages: number) => ({ strategy: 'pipeline', stages, microBatches: 2 }) as const;

const save = (outputs: PipelineOutputs, id = 1) =>
  outputs.answer({ type: 'export', id, format: 'safetensors', which: 'last' }) as Promise<EventOf<'exported'>>;

const bytesOf = async ({ file, problem }: EventOf<'exported'>): Promise<Uint8Array<ArrayBuffer>> => {
  expect(problem).toBeNull();
  return new Uint8Array(await file!.content.arrayBuffer());
};

/** The file of a rank that has the whole model, with the weights and the state of another file. */
async function wholeFile(job: JobSpec, bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const task = await wholeTask(job);
  const { queryModel } = task;
  await setModelWeights(queryModel.jobModel, await openWeights('saved', new Blob([bytes])));
  const { about: saved } = await openSafetensors('saved', new Blob([bytes]));
  const about = modelWeightsMetadata({
    job,
    steps: Number(saved['peergrad.step']),
    stateHash: saved['peergrad.stateHash']!,
    vocabulary: queryModel instanceof TextGenerator ? queryModel.vocabulary : null,
    facts: queryModel instanceof TextGenerator ? null : queryModel.facts,
  });
  const whole = await encodeWeights('safetensors', await readModelWeights(queryModel.jobModel), null, about);
  task.dispose();
  return whole;
}

test.each([
  ['a language model in 3 stages', 3, cut(3)],
  ['a language model in 2 replicas, with a rank that is left over', 5, cut(2)],
  ['an mlp', 2, { job: 'digits', gpt: DEFAULT_JOB.gpt, hidden: 8, ...cut(2) }],
] as const)('rank 0 saves the bytes that a rank with the whole model saves: %s', async (_name, n, fields) => {
  const job = jobOf(fields);
  const tensors = tf.memory().numTensors;
  const ranks = await runWorld(n, (group) => trainStage(group, job));
  const saved = await save(ranks[0]!.outputs);
  expect(saved.file).toMatchObject({ step: 3, name: expect.stringMatching(/-step-3\.safetensors$/) as string });
  const bytes = await bytesOf(saved);
  expect(Buffer.compare(bytes, await wholeFile(job, bytes))).toBe(0);
  expect(await save(ranks[1]!.outputs)).toMatchObject({
    file: null,
    problem: /only the tab with rank 0 has its model/,
  });
  for (const { outputs } of ranks) outputs.dispose();
  expect(tf.memory().numTensors).toBe(tensors);
});

test('any rank can save the model of the current step during a run without changing the losses of the run', async () => {
  const job = jobOf(cut(2));
  let saving: Promise<EventOf<'exported'>> | null = null;
  const [plain, asked] = [
    await runWorld(2, (group) => trainStage(group, job)),
    await runWorld(2, (group) =>
      trainStage(group, job, {
        onevent: (event, outputs) => {
          if (group.rank === 1 && event.type === 'begin' && event.step === 1) saving = save(outputs, 7);
        },
      }),
    ),
  ];
  const during = await saving!;
  expect(during).toMatchObject({ id: 7, file: { step: 2 } });
  const bytes = await bytesOf(during);
  expect(Buffer.compare(bytes, await wholeFile(job, bytes))).toBe(0);
  expect(asked[0]!.result.losses).toEqual(plain[0]!.result.losses);
  expect(asked[0]!.result.stateHash).toEqual(plain[0]!.result.stateHash);
  for (const { outputs } of [...plain, ...asked]) outputs.dispose();
});

test('formats that need the whole model are rejected before the run', async () => {
  const [rank] = await runWorld(1, (group) => trainStage(group, jobOf({ ...cut(2), maxSteps: 1 })));
  const answer = await rank!.outputs.answer({ type: 'export', id: 3, format: 'keras', which: 'last' });
  expect(answer).toMatchObject({ type: 'exported', id: 3, file: null, problem: /safetensors files only/ });
  rank!.outputs.dispose();
});

test.each([
  ['2 stages', 2, cut(2)],
  ['2 replicas of 2 stages', 4, cut(2)],
  ['a job with layers in 2 stages', 2, { job: 'digits', gpt: DEFAULT_JOB.gpt, hidden: 8, ...cut(2) }],
] as const)('ranks start with the weights of a file that only one of them has: %s', async (_name, n, fields) => {
  const plain = { ...fields, strategy: 'ddp', stages: 1, microBatches: null } as const;
  const source = jobOf({ ...plain, seed: 9 });
  const task = await wholeTask(source);
  const { jobModel } = task.queryModel;
  const bytes = await encodeWeights('safetensors', await readModelWeights(jobModel), jobModel.topology, {});
  task.dispose();
  const weights = await openWeights('mine.safetensors', new Blob([bytes]));
  const ranks = await runWorld(n, (group) =>
    trainStage(group, jobOf(fields), { weights: group.rank === n - 1 ? weights : null }),
  );
  const whole = jobOf({ ...plain, batchSize: 2 * n });
  const wholeTasks = await wholeTask(whole);
  await setModelWeights(wholeTasks.queryModel.jobModel, weights);
  const [expected] = await runWorld(1, (group) => trainWhole(group, whole, wholeTasks));
  wholeTasks.dispose();
  for (const [step, loss] of ranks[0]!.result.losses.entries()) {
    expect(Math.abs(loss / expected!.losses[step]! - 1)).toBeLessThanOrEqual(1e-5);
  }
  for (const { outputs } of ranks) outputs.dispose();
});

test('a file that does not fit is rejected before the run, with the tensor and both shapes', async () => {
  const task = await wholeTask(jobOf({ gpt: { ...gpt, width: 8 } }));
  const { jobModel } = task.queryModel;
  const bytes = await encodeWeights('safetensors', await readModelWeights(jobModel), null, {});
  task.dispose();
  const weights = await openWeights('small.safetensors', new Blob([bytes]));
  const reading = runWorld(1, (group) => trainStage(group, jobOf(cut(2)), { weights }));
  await expect(reading).rejects.toThrow(DataError);
  await expect(reading).rejects.toThrow(
    /^small\.safetensors has "embedding\/weight" of shape \[\d+, 8\], but in this model its shape is \[\d+, 16\]/,
  );
});

test('weights in a format other than safetensors are rejected', async () => {
  const task = await wholeTask(parseJob({ job: 'digits', hidden: 8 }));
  const { jobModel } = task.queryModel;
  const bytes = await encodeWeights('tfjs', await readModelWeights(jobModel), jobModel.topology, {});
  task.dispose();
  const weights = await openWeights('model.zip', new Blob([bytes]));
  const job = parseJob({ job: 'digits', hidden: 8, ...cut(2), maxSteps: 1 });
  await expect(runWorld(1, (group) => trainStage(group, job, { weights }))).rejects.toThrow(
    /^model\.zip cannot be read layer by layer/,
  );
});

test.each([1, 2, 4])(
  '%i stages write the same texts as a single rank with these weights, and answer prompts',
  async (n) => {
    // A context of 8 tokens is shorter than a text, so the window moves.
    const job = jobOf({ ...cut(Math.max(2, n)), maxSteps: 5 });
    const events: EngineEvent[] = [];
    let asked: Promise<EngineEvent> | null = null;
    const ranks = await runWorld(n, (group) =>
      trainStage(group, job, {
        onevent: (event, outputs) => {
          if (group.rank !== n - 1) return;
          events.push(event);
          const prompt = { type: 'generate', id: 4, prompt: 'An old ', temperature: 1 } as const;
          if (event.type === 'begin' && event.step === 4) asked = outputs.answer(prompt);
        },
      }),
    );
    const { result } = ranks[n - 1]!;
    expect(result.samples!.map(({ steps }) => steps)).toEqual([1, 2, 5]);
    expect(events.filter(({ type }) => type === 'sample')).toHaveLength(3);
    const task = await wholeTask(job);
    const author = task.queryModel as TextGenerator;
    await setModelWeights(author.jobModel, await openWeights('saved', (await save(ranks[0]!.outputs)).file!.content));
    expect(result.samples!.at(-1)!.text).toBe(await author.sample());
    expect(result.bigramLoss).toBe(author.bigramLoss);
    // The prompt was asked for in the last step, so it was answered with the final weights.
    const text = await author.write({ prompt: 'An old ', temperature: 1 });
    expect(await asked!).toEqual({ type: 'generated', id: 4, answer: { steps: 5, text } });
    task.dispose();
    const late = { type: 'generate', id: 5, prompt: 'x', temperature: 1 } as const;
    expect(await ranks[0]!.outputs.answer(late)).toEqual({ type: 'generated', id: 5, answer: null });
    for (const { outputs } of ranks) outputs.dispose();
  },
);

test('if weights are so large that the loss is not finite, a run ends with an error that says so, and writes no text', async () => {
  const job = jobOf({ ...cut(2), maxSteps: 1 });
  const task = await wholeTask(job);
  const { jobModel } = task.queryModel;
  const tensors = await readModelWeights(jobModel);
  tensors.at(-1)!.values.fill(3e38);
  const weights = await openWeights('large', new Blob([await encodeWeights('safetensors', tensors, null, {})]));
  task.dispose();
  const events: EngineEvent[] = [];
  const onevent = (event: EngineEvent): void => void events.push(event);
  const running = runWorld(2, (group) =>
    trainStage(group, job, { weights: group.rank === 0 ? weights : null, onevent }),
  );
  await expect(running).rejects.toThrow('The loss is NaN or infinite at step 1.');
  expect(events.filter(({ type }) => type === 'step')).toHaveLength(2);
  expect(events.filter(({ type }) => type === 'sample')).toEqual([]);
});
