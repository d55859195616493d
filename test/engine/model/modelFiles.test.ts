/**
 * A run's model is exported as a file, and another run starts from such a file. TensorFlow.js's CPU
 * backend.
 */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test, vi } from 'vitest';
import { Mesh } from '../../../src/collectives/mesh.ts';
import { exportModel, type ResumableRun } from '../../../src/engine/model/modelFiles.ts';
import { readRunOrigin } from '../../../src/engine/model/origin.ts';
import { Run } from '../../../src/engine/run/run.ts';
import { openWeights, type WeightsFile } from '../../../src/formats/weights/weightsFile.ts';
import type { EngineEvent, ModelFile } from '../../../src/protocol/events.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { WEIGHTS_FORMATS, type ModelFileFormat } from '../../../src/spec/modelFile.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { DataError } from '../../../src/util/errors.ts';
import { COUNTING_PLAN, createCountingTask, createMember, runGeneration } from '../worlds.ts';
import { ThreadActivity } from '../../../src/util/activity.ts';

// The tests train whole runs on the CPU.
vi.setConfig({ testTimeout: 60_000 });

/** Creates a run of one rank, which has entered its generation. */
async function prepare(
  fields: Record<string, unknown>,
  { weights = null, onstep = () => {} }: { weights?: WeightsFile | null; onstep?: (now: Run) => void } = {},
): Promise<Run> {
  const job = parseJob(fields);
  const emit = (event: EngineEvent): void => {
    if (event.type === 'step') onstep(training);
  };
  const training: Run = await Run.prepare({
    activity: new ThreadActivity(systemClock),
    ...{ job, run: 1, worldSize: 1, files: [], shared: null, baseUrl: 'http://localhost/' },
    ...{ clock: systemClock, emit, from: null, weights, carryOver: null },
    isHidden: () => false,
    opened: { device: { backend: 'cpu', adapter: 'test' }, note: null, check: () => {} },
  });
  const rank = { rank: 0, worldSize: 1, localRank: 0, localWorldSize: 1 };
  const mesh = new Mesh({ rank: 0, worldSize: 1, generation: 1, links: new Map<number, never>() });
  const { signal } = new AbortController();
  const links = new Map<number, never>();
  await training.enter({ ...rank, generation: 1, run: 1, job, members: [], separated: [], mesh, links, signal });
  return training;
}

const FIELDS = { maxSteps: 3, hashEvery: 1, batchSize: 4, hidden: 6 };

const weightsOf = ({ answerer }: Run): number[][] =>
  answerer!.model.jobModel.variables.map((variable) => Array.from(variable.dataSync()));

const openRun = (training: Run): ResumableRun => ({
  ...{ snapshot: () => training.snapshot(), member: 'm' },
  about: { room: 'K7F3QX', job: parseJob(FIELDS), savedAt: 1, worldSize: 1 },
});

async function exported(format: ModelFileFormat, training: Run, which: 'last' | 'best' = 'last'): Promise<ModelFile> {
  const event = await exportModel({ type: 'export', id: 7, format, which }, training.answerer, openRun(training));
  if (event.type !== 'exported' || event.file === null) throw new Error(JSON.stringify(event));
  expect(event.id).toBe(7);
  return event.file;
}

const asFile = ({ content, name }: ModelFile): File => new File([content], name);

async function weightsFrom(file: File): Promise<WeightsFile> {
  const origin = await readRunOrigin(file);
  if (origin.kind !== 'weights') throw new Error(origin.kind);
  return origin.weights;
}

describe('a model', () => {
  test.each(WEIGHTS_FORMATS)('can be saved as %s, and another run can start with its weights', async (format) => {
    const training = await prepare(FIELDS);
    await training.train();
    const file = await exported(format, training);
    expect(file).toMatchObject({ step: 3, name: expect.stringMatching(/^peergrad-digits-mlp-step-3\./) as string });
    const next = await prepare({ ...FIELDS, seed: 5 }, { weights: await weightsFrom(asFile(file)) });
    expect(next.hasState).toBe(true);
    expect(weightsOf(next)).toEqual(weightsOf(training));
    training.dispose();
    next.dispose();
  });

  test('that is saved during training contains the weights of exactly one step', async () => {
    const files: Promise<ModelFile>[] = [];
    const states: number[][][] = [];
    const training = await prepare(FIELDS, {
      onstep: (now) => {
        states.push(weightsOf(now));
        files.push(exported('safetensors', now));
      },
    });
    await training.train();
    for (const [i, file] of (await Promise.all(files)).entries()) {
      expect(file.step).toBe(i + 1);
      const { read } = await weightsFrom(asFile(file));
      const { values } = await read('dense1/kernel');
      expect(Array.from(values)).toEqual(states[i]![0]);
    }
    training.dispose();
  });

  test('cannot start a run with a model of a different width, and leaks no tensors', async () => {
    const training = await prepare(FIELDS);
    const weights = await weightsFrom(asFile(await exported('tfjs', training)));
    training.dispose();
    const before = tf.memory().numTensors;
    await expect(prepare({ ...FIELDS, hidden: 7 }, { weights })).rejects.toThrow(
      /^peergrad-digits-mlp-step-0\.zip has "dense1\/kernel" of shape \[784, 6\], but in this model its shape is \[784, 7\]/,
    );
    expect(tf.memory().numTensors).toBe(before);
  });

  test('cannot start a run if the strategy keeps a part of the state on each rank', async () => {
    const training = await prepare(FIELDS);
    const weights = await weightsFrom(asFile(await exported('safetensors', training)));
    training.dispose();
    await expect(prepare({ ...FIELDS, strategy: 'parameter-server' }, { weights })).rejects.toThrow(
      /cannot be started from a file, because not every rank has the whole state\. Choose the strategy ddp/,
    );
  });

  test('that was read only by rank 1 is used by all ranks', async () => {
    const members = [];
    for (const i of [0, 1, 2]) {
      const task = createCountingTask({ samples: 6 });
      const [variable] = task.model as tf.Variable[];
      variable!.assign(tf.fill(variable!.shape, 10 + i));
      members.push(await createMember(`m${i}`, task, COUNTING_PLAN, i === 1 ? { from: 'model' } : {}));
    }
    await runGeneration(members, { end: { rank: 0, step: 0, frame: 0 } });
    for (const member of members) {
      expect(member.values()[0]).toBe(11);
      member.dispose();
    }
  });
});

describe('a checkpoint', () => {
  test('is saved as a file with the state after the latest step', async () => {
    const training = await prepare(FIELDS);
    await training.train();
    const state = await training.snapshot();
    const file = await exported('checkpoint', training);
    expect(file).toMatchObject({ step: 3, name: 'peergrad-digits-mlp-step-3.peergrad' });
    const origin = await readRunOrigin(asFile(file));
    expect(origin).toEqual({
      kind: 'checkpoint',
      meta: expect.objectContaining({
        id: 'K7F3QX-m-3',
        step: 3,
        stateHash: training.answerer!.progress().stateHash,
      }) as unknown,
      state: { ...state, progress: { ...state.progress, appliedIn: 0, previousAppliedIn: 0 } },
    });
    training.dispose();
  });
});

test('the model of the best evaluation is kept, and saved on request', async () => {
  // The rate is so high that the loss rises again after some steps.
  const rate = { optimizer: 'adam', learningRate: 0.3, batchSize: 64, hashEvery: 100 };
  const training = await prepare({ ...FIELDS, ...rate, maxSteps: 48, patience: 2 });
  await training.train();
  const { best, steps } = training.result!;
  expect(best!.step).toBeLessThan(steps);
  const [last, kept] = [await exported('safetensors', training), await exported('safetensors', training, 'best')];
  expect([last.step, kept.step]).toEqual([steps, best!.step]);
  // A run of only that many steps ends with the same model.
  const shorter = await prepare({ ...FIELDS, ...rate, maxSteps: best!.step });
  await shorter.train();
  const { read } = await openWeights(kept.name, kept.content);
  const { names } = shorter.answerer!.model.jobModel;
  const values = await Promise.all(names.map(async (name) => [...(await read(name)).values]));
  expect(values).toEqual(weightsOf(shorter));
  for (const one of [training, shorter]) one.dispose();
});

/** No member. */
const ask = (format: ModelFileFormat) => exportModel({ type: 'export', id: 1, format, which: 'best' }, null, null);

test('an export without a model or a run fails with a message that says when it is possible', async () => {
  expect(await ask('keras')).toEqual({
    ...{ type: 'exported', id: 1, file: null },
    problem: 'This tab has no model yet. Save the model after training has begun.',
  });
  expect(await ask('checkpoint')).toMatchObject({ file: null, problem: expect.stringContaining('during a run') });
});

test('a file that is neither a checkpoint nor weights is rejected by name', async () => {
  const text = new File(['Twelve bytes and a few'], 'notes.txt');
  await expect(readRunOrigin(text)).rejects.toThrow(DataError);
  await expect(readRunOrigin(text)).rejects.toThrow(
    /^notes\.txt is not a supported file of weights\. Choose a \.safetensors/,
  );
});
