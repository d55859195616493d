/** Queries to a model, on TensorFlow.js's CPU backend. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test, vi } from 'vitest';
import { imageOfDrawing } from '../../../src/app/inspection/drawing.ts';
import { Mesh } from '../../../src/collectives/mesh.ts';
import { answerModelQuery, InspectedModel } from '../../../src/engine/tasks/inspection.ts';
import { Run } from '../../../src/engine/run/run.ts';
import { buildJobModel, loadData } from '../../../src/jobs/index.ts';
import { PipelineOutputs } from '../../../src/engine/model/pipelineOutputs.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { BUILT_IN_IMAGE_SIDE, type ModelInspection } from '../../../src/spec/inspection.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { outliers } from '../../outliers.ts';
import { train } from '../train.ts';
import { ThreadActivity } from '../../../src/util/activity.ts';

// The tests train whole runs on the CPU, and inspect all held-out images.
vi.setConfig({ testTimeout: 60_000 });

const progress = () => ({ steps: 7, stateHash: 'ab'.repeat(8) });

/** Creates an untrained model for queries. */
async function untrained(model: 'mlp' | 'cnn') {
  const job = parseJob({ model });
  const { test: heldOut } = await loadData(job, { baseUrl: 'http://localhost/' });
  const built = buildJobModel(job, heldOut);
  const learned = await InspectedModel.create(built, heldOut, job);
  return { built, heldOut, answerer: { model: learned, progress } };
}

async function inspect(answerer: Parameters<typeof answerModelQuery>[1]): Promise<ModelInspection> {
  const event = await answerModelQuery({ type: 'inspect' }, answerer);
  if (event.type !== 'inspection' || event.inspection === null) throw new Error('It did not answer.');
  return event.inspection;
}

/** Returns the softmax of the model's logits for one image. Its pixels are bytes. */
function probabilitiesOf(built: ReturnType<typeof buildJobModel>, pixels: Uint8Array): number[] {
  const inputs = Float32Array.from(pixels, (ink) => ink / 255);
  const shape = [1, BUILT_IN_IMAGE_SIDE, BUILT_IN_IMAGE_SIDE, 1];
  return tf.tidy(() => Array.from(tf.softmax(built.logits(tf.tensor(inputs, shape))).dataSync()));
}

describe.each(['mlp', 'cnn'] as const)('queries to a model (%s)', (model) => {
  test('return the images that the model classifies wrongly, beginning with its most confident mistake', async () => {
    const { built, answerer } = await untrained(model);
    const { asked, wrong, mistakes, steps } = await inspect(answerer);
    expect([asked, steps, mistakes.length]).toEqual([256, 7, 12]);
    expect(wrong).toBeGreaterThan(128);
    for (const { pixels, label, guess, probability } of mistakes) {
      const probabilities = probabilitiesOf(built, pixels);
      expect(guess).not.toBe(label);
      expect(guess).toBe(probabilities.indexOf(Math.max(...probabilities)));
      expect(probability).toBeCloseTo(probabilities[guess]!, 4);
    }
    expect(mistakes.map((one) => one.probability)).toEqual(
      mistakes.map((one) => one.probability).sort((a, b) => b - a),
    );
    answerer.model.dispose();
  });

  test('return weights of the first layer as pictures, one for each unit', async () => {
    const { built, answerer } = await untrained(model);
    const { side, count, units, values, scale } = (await inspect(answerer)).weights!;
    expect({ side, count, units }).toEqual(
      model === 'mlp' ? { side: 28, count: 32, units: 64 } : { side: 5, count: 8, units: 8 },
    );
    const kernel = built.variables[0]!.dataSync();
    const pixels = side * side;
    const shown = Float64Array.from({ length: count * pixels }, (_, i) => (values[i]! / 127) * scale);
    const learned = shown.map((_, i) => kernel[(i % pixels) * units + Math.floor(i / pixels)]!);
    expect(outliers(shown, learned, (off) => off <= scale / 254 + 1e-6)).toEqual([]);
    answerer.model.dispose();
  });

  test("return the model's output for an image", async () => {
    const { built, heldOut, answerer } = await untrained(model);
    const pixels = new Float32Array(BUILT_IN_IMAGE_SIDE ** 2);
    await heldOut.read([3], pixels, new Int32Array(1));
    const event = await answerModelQuery({ type: 'predict', id: 5, pixels }, answerer);
    const own = tf.tidy(() => tf.softmax(built.logits(tf.tensor(pixels, [1, 28, 28, 1]))).dataSync());
    expect(event).toEqual({ type: 'prediction', id: 5, answer: { probabilities: Array.from(own), steps: 7 } });
    answerer.model.dispose();
  });
});

test('all inspections use the same images, with one example of each digit', async () => {
  const [one, other] = [await untrained('mlp'), await untrained('mlp')];
  const inspection = await inspect(one.answerer);
  expect(inspection).toEqual(await inspect(other.answerer));
  expect(inspection.examples.map(({ label }) => label)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  one.answerer.model.dispose();
  other.answerer.model.dispose();
});

test('a query has no answer if there is no model, or if the model has NaN weights or is disposed of', async () => {
  const predict = { type: 'predict', id: 1, pixels: new Float32Array(784) } as const;
  const none = { type: 'prediction', id: 1, answer: null };
  expect(await answerModelQuery(predict, null)).toEqual(none);
  expect(await answerModelQuery({ type: 'inspect' }, null)).toEqual({ type: 'inspection', inspection: null });
  const { built, answerer } = await untrained('mlp');
  const [kernel] = built.variables;
  kernel!.assign(tf.fill(kernel!.shape, NaN));
  expect(await answerModelQuery(predict, answerer)).toEqual(none);
  expect(await answerModelQuery({ type: 'inspect' }, answerer)).toEqual({ type: 'inspection', inspection: null });
  answerer.model.dispose();
  expect(await answerModelQuery(predict, answerer)).toEqual(none);
});

/** Trains a run of one rank. Like a page's queries, `onstep` is not awaited. */
async function trainAlone(fields: Record<string, unknown>, onstep: (training: Run, step: number) => void) {
  const job = parseJob(fields);
  const rank = { rank: 0, worldSize: 1, localRank: 0, localWorldSize: 1 };
  let training: Run | null = null;
  const emit = (event: EngineEvent): void => {
    if (event.type === 'step') onstep(training!, event.step);
  };
  training = await Run.prepare({
    activity: new ThreadActivity(systemClock),
    ...{ job, run: 1, worldSize: 1, files: [], shared: null, baseUrl: 'http://localhost/' },
    ...{ clock: systemClock, emit, from: null, weights: null, carryOver: null },
    isHidden: () => false,
    opened: { device: { backend: 'cpu', adapter: 'test' }, note: null, check: () => {} },
  });
  const links = new Map<number, never>();
  const mesh = new Mesh({ rank: 0, worldSize: 1, generation: 1, links });
  const { signal } = new AbortController();
  await training.enter({ ...rank, generation: 1, run: 1, job, members: [], separated: [], mesh, links, signal });
  await training.train();
  return { training, result: training.result! };
}

describe('queries', () => {
  test('during and after a run are answered with the weights of exactly one step, and answers improve with training', async () => {
    const one = imageOfDrawing([[0.5, 0.1, 0.48, 0.9]], 'box')!;
    const during: Promise<EngineEvent>[] = [];
    const { training, result } = await trainAlone({ maxSteps: 40, hashEvery: 10 }, (now, step) => {
      if (step === 1) during.push(answerModelQuery({ type: 'inspect' }, now.answerer));
    });
    const [first] = await Promise.all(during);
    expect(first).toMatchObject({ type: 'inspection', inspection: { steps: 2 } });
    const before = tf.memory().numTensors;
    const answerer = training.retire();
    if (!answerer || answerer instanceof PipelineOutputs) throw new Error('This run has a whole model.');
    // Batches and the optimizer are disposed of, but not the model.
    expect(tf.memory().numTensors).toBeLessThanOrEqual(before);
    const last = await inspect(answerer);
    expect(last).toMatchObject({ steps: 40, stateHash: result.stateHash[0] });
    expect(last.wrong).toBeLessThan((first as { inspection: ModelInspection }).inspection.wrong);
    const event = await answerModelQuery({ type: 'predict', id: 1, pixels: one }, answerer);
    expect(event.type === 'prediction' && event.answer?.probabilities[1]).toBeGreaterThan(0.5);
    answerer.model.dispose();
  });

  test('at every step change neither the losses nor the final state of a run', async () => {
    const fields = { maxSteps: 4, hashEvery: 2, batchSize: 8 };
    const { results } = await train(1, fields, { testSize: 2000 });
    const answers: Promise<EngineEvent>[] = [];
    let asking: Promise<unknown> = Promise.resolve();
    const { training, result } = await trainAlone(fields, (now) => {
      asking = asking.then(() => {
        const asked = answerModelQuery({ type: 'inspect' }, now.answerer);
        answers.push(asked);
        return asked;
      });
    });
    await asking;
    training.dispose();
    expect(answers.length).toBe(4);
    const { stateHash, losses, accuracy } = results[0]!;
    expect(result).toMatchObject({ stateHash, losses, accuracy });
  });

  test('leak no tensors', async () => {
    const { answerer } = await untrained('cnn');
    await inspect(answerer);
    const before = tf.memory().numTensors;
    await inspect(answerer);
    await answerModelQuery({ type: 'predict', id: 1, pixels: new Float32Array(784) }, answerer);
    expect(tf.memory().numTensors).toBe(before);
    const { numTensors } = tf.memory();
    answerer.model.dispose();
    // The freed tensors are those of four variables and of the inspected images.
    expect(tf.memory().numTensors).toBe(numTensors - 7);
  });
});
