/** Tests of steps of the engine whose passes are replayed, on the current backend. */
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { createGptTask } from '../src/engine/tasks/gptTask.ts';
import { createJobTask } from '../src/engine/tasks/jobTask.ts';
import type { TrainingTask } from '../src/engine/tasks/task.ts';
import type { Dataset } from '../src/jobs/index.ts';
import { createCorpus } from '../src/jobs/gpt/corpus.ts';
import { writeFables } from '../src/jobs/gpt/fables.ts';
import { textInMemory } from '../src/jobs/gpt/text.ts';
import { differentiatePassAlone, type Pass } from '../src/parallel/backward/pass.ts';
import { TensorReader, variablesOf, writeVariables, type ComputedGradients } from '../src/parallel/backward/flatten.ts';
import { createFlatLayout } from '../src/parallel/flat/buckets.ts';
import { declarePassInputs, PassCaptures, type PassWithDeclaredInputs } from '../src/parallel/backward/passCaptures.ts';
import { GPT_PRESETS } from '../src/spec/gpt.ts';
import { parseJob } from '../src/spec/job.ts';
import { createRng } from '../src/util/rng.ts';

const BATCH = 4;

/** Small pictures with random values. */
function pictures(size: number): Dataset {
  const rng = createRng(5);
  const pixels = Float32Array.from({ length: size * 36 }, () => rng.next());
  return {
    ...{ size, inputShape: [6, 6, 1], classes: 10 },
    read: (indices, inputs, labels) => {
      for (const [i, index] of Array.from(indices).entries()) {
        inputs.set(pixels.subarray(index * 36, index * 36 + 36), i * 36);
        labels[i] = index % 10;
      }
      return Promise.resolve();
    },
  };
}

function cnnTask(): Promise<TrainingTask> {
  const job = parseJob({ job: 'digits', model: 'cnn' });
  return createJobTask(job, { train: pictures(64), test: pictures(16) }, 1);
}

export function mlpTask(): Promise<TrainingTask> {
  const job = parseJob({ job: 'digits', model: 'mlp', hidden: 8 });
  return createJobTask(job, { train: pictures(64), test: pictures(16) }, 1);
}

async function gptTask(): Promise<TrainingTask> {
  const model = { layers: 1, heads: 1, width: 8, context: 8, dropout: 0.2, prompt: '' };
  const job = parseJob({ job: 'gpt', gpt: { ...GPT_PRESETS.tiny.model, ...model } });
  return createGptTask(job, await createCorpus(textInMemory(writeFables().slice(0, 3000)), job.gpt));
}

/** Reads the loss and all gradients. */
export async function read({
  value,
  gradients,
}: Pick<ComputedGradients, 'value' | 'gradients'>): Promise<Float32Array> {
  const tensors = [value, ...gradients];
  const values = new Float32Array(tensors.reduce((sum, { size }) => sum + size, 0));
  const reader = new TensorReader();
  await reader.read(0, tensors, values);
  reader.dispose();
  return values;
}

/** Takes steps that replay their passes. The parameters of each step are random. */
export class Trainer {
  readonly reasons: string[] = [];
  /** How often the pass was run, and not replayed. */
  runs = 0;
  /** The gradients that were announced before the end of the latest pass. */
  early: number[] = [];
  readonly #task: TrainingTask;
  readonly #captures: PassCaptures;
  #step = 0;

  constructor(task: TrainingTask) {
    this.#task = task;
    this.#captures = PassCaptures.of(variablesOf(task.model), (reason) => this.reasons.push(reason))!;
  }

  /** Compares the values of the step with those of an eager pass. */
  async checkedStep(): Promise<void> {
    await this.step(async (pass, values) => {
      const eager = differentiatePassAlone(pass, variablesOf(this.#task.model));
      expect(values).toEqual(await read(eager));
      eager.dispose();
    });
  }

  async step(inspect?: (pass: PassWithDeclaredInputs, values: Float32Array) => Promise<void>): Promise<void> {
    const indices = Uint32Array.from({ length: BATCH }, (_, i) => (this.#step * BATCH + i) % this.#task.trainSamples);
    const use = async (pass: Pass): Promise<void> => {
      const { inputs } = pass as PassWithDeclaredInputs;
      const counted = declarePassInputs(inputs, () => {
        this.runs += 1;
        return (pass as PassWithDeclaredInputs)();
      });
      this.early = [];
      const gradients = await this.#captures.gradientsOf(counted, 1, (variable) => this.early.push(variable));
      const values = await read(gradients);
      await inspect?.(pass as PassWithDeclaredInputs, values);
      gradients.dispose();
    };
    await this.#task.withBatch(indices, use, { step: this.#step, epoch: 0 }, BATCH);
    this.#step += 1;
    const { parameters } = variablesOf(this.#task.model);
    const { slots, size } = createFlatLayout(parameters.map((parameter) => parameter.size));
    const rng = createRng(this.#step);
    const values = Float32Array.from({ length: size }, () => rng.next() / 4 - 0.125);
    writeVariables(parameters, slots, values);
  }

  dispose(): void {
    this.#captures.dispose();
    this.#task.dispose();
  }
}

/** @param whereChanged a part of the note about a constant that changes. */
export function testReplays(whereChanged: string): void {
  test.each([
    ['the mlp', mlpTask],
    ['the cnn', cnnTask],
    ['gpt with dropout', gptTask],
  ])(
    '20 replayed steps of %s have the bits of eager passes',
    async (_, create) => {
      const { numTensors } = tf.memory();
      const trainer = new Trainer(await create());
      await trainer.checkedStep();
      const { early } = trainer;
      for (let step = 1; step < 20; step++) {
        await trainer.checkedStep();
        expect(trainer.early).toEqual(early);
      }
      expect(early.length).toBeGreaterThan(0);
      expect(trainer.reasons).toEqual([]);
      // Two recordings, and the comparison of the first replay.
      expect(trainer.runs).toBe(3);
      trainer.dispose();
      expect(tf.memory().numTensors).toBe(numTensors);
    },
    60_000,
  );

  test('replays still have the bits of eager passes after an evaluation, and after a variable was assigned', async () => {
    const task = await mlpTask();
    const trainer = new Trainer(task);
    for (let step = 0; step < 4; step++) await trainer.step();
    expect(trainer.runs).toBe(3);
    await task.evaluate(Uint32Array.of(0, 1, 2));
    await trainer.checkedStep();
    expect(trainer.runs).toBe(3);
    const [variable] = variablesOf(task.model).parameters;
    const other = tf.mul(variable!, 2);
    variable!.assign(other);
    other.dispose();
    for (let step = 0; step < 4; step++) await trainer.checkedStep();
    expect(trainer.runs).toBe(6);
    expect(trainer.reasons).toEqual([]);
    trainer.dispose();
  }, 60_000);

  test('a pass stays eager if one of its constants changes, and the reason is reported once', async () => {
    const weights = tf.tidy(() => tf.variable(tf.ones([40, 3])));
    const reasons: string[] = [];
    const captures = PassCaptures.of(variablesOf([weights]), (reason) => reasons.push(reason))!;
    for (let step = 1; step <= 6; step++) {
      const x = tf.ones([30, 40]);
      const pass = declarePassInputs([x], () => tf.sum(tf.mul(tf.matMul(x, weights), step)));
      const gradients = await captures.gradientsOf(pass, 1);
      expect((await read(gradients))[1]).toBe(30 * step);
      gradients.dispose();
      x.dispose();
    }
    expect(reasons).toEqual([expect.stringContaining(`${whereChanged}. They take`)]);
    captures.dispose();
    weights.dispose();
  });

  test('a run that ends while a pass is being captured leaves no tensor', async () => {
    const { numTensors } = tf.memory();
    const weights = tf.tidy(() => tf.variable(tf.ones([40, 3])));
    const reasons: string[] = [];
    const captures = PassCaptures.of(variablesOf([weights]), (reason) => reasons.push(reason))!;
    const begin = (): [tf.Tensor, Promise<ComputedGradients>] => {
      const x = tf.ones([30, 40]);
      return [
        x,
        captures.gradientsOf(
          declarePassInputs([x], () => tf.sum(tf.matMul(x, weights))),
          1,
        ),
      ];
    };
    const [first, recorded] = begin();
    (await recorded).dispose();
    const [second, captured] = begin();
    // An aborted step does not wait for its pass.
    captures.dispose();
    tf.dispose([first, second]);
    const gradients = await captured;
    expect((await read(gradients))[0]).toBe(30 * 40 * 3);
    gradients.dispose();
    weights.dispose();
    expect([tf.memory().numTensors, reasons]).toEqual([numTensors, []]);
  });
}
