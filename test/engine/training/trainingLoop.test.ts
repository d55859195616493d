/** The training loop over memory links, on TensorFlow.js's CPU backend. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { relative, train } from '../train.ts';

describe('TrainingLoop', () => {
  test('has the same losses on N ranks with batch size b as on one rank with batch size N*b', async () => {
    const { results: one } = await train(1, { batchSize: 32, maxSteps: 8 });
    const { results: four } = await train(4, { batchSize: 8, maxSteps: 8 });
    expect(one[0]!.losses).toHaveLength(8);
    for (const [step, loss] of one[0]!.losses.entries()) {
      expect(relative(four[0]!.losses[step]!, loss)).toBeLessThan(1e-5);
    }
    expect(four[0]!.accuracy).toBeCloseTo(one[0]!.accuracy!, 1);
    expect(relative(four[0]!.valLoss!, one[0]!.valLoss!)).toBeLessThan(1e-4);
  });

  test('lets timers run between steps in a world of one rank', async () => {
    // Each reading of the clock advances it so much that a yield is due.
    let ms = 0;
    const clock = { ...systemClock, now: () => (ms += 200) };
    const turnsByStep: number[] = [];
    let turns = 0;
    const onStep = (): void => {
      turnsByStep.push(turns);
      setTimeout(() => (turns += 1));
    };
    await train(1, { batchSize: 4, maxSteps: 4 }, { onStep, clock });
    expect(turnsByStep).toEqual([0, 1, 2, 3]);
  });

  test('emits the progress of an evaluation, which may take minutes', async () => {
    const { events } = await train(2, { batchSize: 4, maxSteps: 1 }, { testSize: 600 });
    for (const own of events) {
      const told = own.filter(({ type }) => type === 'testing' || type === 'evaluation');
      expect(told).toMatchObject([
        { type: 'testing', step: 0, done: 250, share: 300 },
        { type: 'testing', step: 0, done: 300, share: 300 },
        { type: 'evaluation', step: 0, samples: 600 },
      ]);
    }
  });

  test('keeps states equal on all ranks, and emits equal hashes', async () => {
    const { results, events } = await train(3, { batchSize: 4, maxSteps: 6, hashEvery: 2 });
    for (const result of results) {
      expect(new Set(result.stateHash).size).toBe(1);
      expect(result.stateHash).toEqual(results[0]!.stateHash);
      expect(result.losses).toEqual(results[0]!.losses);
    }
    const hashes = events[1]!.filter((event) => event.type === 'hashes');
    expect(hashes.map(({ step, agree }) => [step, agree])).toEqual([
      [1, true],
      [3, true],
      [5, true],
    ]);
  });

  test.each(['sgd', 'momentum', 'nesterov', 'adam', 'adamw'])('trains with %s', async (optimizer) => {
    const { results } = await train(2, { optimizer, learningRate: 0.001, batchSize: 8, maxSteps: 3 });
    expect(results[0]!.losses.every(Number.isFinite)).toBe(true);
    expect(results[0]!.stateHash[0]).toBe(results[0]!.stateHash[1]);
  });

  test('trains the cnn', async () => {
    const { results } = await train(2, { model: 'cnn', batchSize: 4, maxSteps: 2 });
    expect(results[0]!.stateHash[0]).toBe(results[0]!.stateHash[1]);
  });

  test('uses all samples of an epoch, even if some ranks have none in the last step', async () => {
    const { results, events } = await train(4, { batchSize: 4, epochs: 2 }, { trainSize: 17 });
    const steps = events[0]!.filter((event) => event.type === 'step');
    expect(steps.map(({ samples, epoch }) => [samples, epoch])).toEqual([
      [16, 0],
      [1, 0],
      [16, 1],
      [1, 1],
    ]);
    expect(results[0]!.epochs).toBe(2);
    expect(results[0]!.losses.every((loss) => loss > 0)).toBe(true);
    expect(new Set(results[0]!.stateHash).size).toBe(1);
  });

  test('sends as many bytes for its steps as theory predicts, and counts other bytes separately', async () => {
    for (const n of [2, 4]) {
      const { results } = await train(n, { batchSize: 2, maxSteps: 5 });
      const { bytesSentPerRank, otherBytesSentPerRank, gradientBytes, steps } = results[0]!;
      for (const bytes of bytesSentPerRank) {
        const ratio = bytes / (((2 * (n - 1)) / n) * gradientBytes * steps);
        expect(ratio).toBeGreaterThanOrEqual(1);
        expect(ratio).toBeLessThan(1.01);
      }
      for (const bytes of otherBytesSentPerRank) expect(bytes).toBeGreaterThan(0);
    }
  });

  test('emits every step, its trace, and the held-out accuracy', async () => {
    const { results, events } = await train(2, { batchSize: 20, maxSteps: 10 });
    const types = (type: EngineEvent['type']) => events[0]!.filter((event) => event.type === type).length;
    expect(types('step')).toBe(10);
    expect(types('trace')).toBe(10);
    expect(types('model')).toBe(1);
    const evaluations = events[0]!.filter((event) => event.type === 'evaluation');
    const { accuracy, valLoss: loss } = results[0]!;
    expect(evaluations.at(-1)).toEqual({ type: 'evaluation', step: 9, loss, accuracy, samples: 40 });
    expect(loss).toBeGreaterThan(0);
    expect(evaluations.length).toBeGreaterThanOrEqual(5);
  });

  test("emits how every rank spent the time of its steps, and the offsets between the ranks' clocks", async () => {
    const { events } = await train(3, { batchSize: 4, maxSteps: 8, hashEvery: 4 });
    const own = events[1]!.flatMap((event) => (event.type === 'segments' ? [event.lane] : []));
    expect(own.map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    for (const { duration, segments } of own) {
      const kinds = segments.map(({ kind }) => kind);
      expect(kinds).toEqual(expect.arrayContaining(['compute', 'update']));
      for (const { start, end } of segments) {
        expect(start).toBeGreaterThanOrEqual(0);
        expect(end).toBeLessThanOrEqual(duration + 1);
      }
    }
    const told = events[1]!.filter((event) => event.type === 'telemetry');
    expect(told.map(({ step }) => step)).toEqual([3, 7]);
    for (const { ranks } of told) {
      expect(ranks.map(({ lanes }) => lanes.length)).toEqual([4, 4, 4]);
      expect(ranks[1]!.clock).toEqual({ offsetMs: 0, errorMs: 0 });
      for (const { clock, right } of ranks) {
        // All ranks use the same clock in this test, so the true offset is 0.
        expect(Math.abs(clock!.offsetMs)).toBeLessThanOrEqual(clock!.errorMs);
        expect(right).toMatchObject({ route: 'memory' });
        expect(right!.bytesSent).toBeGreaterThan(0);
        expect(right!.transitMs).toBeGreaterThanOrEqual(0);
      }
    }
  });

  test('evaluates some held-out samples during training, and all of them after the final step', async () => {
    const { events } = await train(2, { batchSize: 250, maxSteps: 3 }, { testSize: 600 });
    const evaluations = events[1]!.filter((event) => event.type === 'evaluation');
    expect(evaluations.map(({ step, samples }) => [step, samples])).toEqual([
      [0, 125],
      [1, 250],
      [2, 600],
    ]);
  });

  test('evaluates within an epoch at most a quarter as many samples as it has trained on, but at least 32', async () => {
    const { events } = await train(2, { batchSize: 20, maxSteps: 16 }, { testSize: 600 });
    const evaluations = events[1]!.filter((event) => event.type === 'evaluation');
    expect(evaluations.map(({ step, samples }) => [step, samples])).toEqual([
      [0, 32],
      [12, 130],
      [15, 600],
    ]);
  });

  test('evaluates all held-out samples after every epoch', async () => {
    const { events } = await train(2, { batchSize: 20, epochs: 3 }, { trainSize: 80, testSize: 600 });
    const evaluations = events[1]!.filter((event) => event.type === 'evaluation');
    expect(evaluations.filter(({ samples }) => samples === 600).map(({ step }) => step)).toEqual([1, 3, 5]);
  });

  test('emits the beginning of every step before the step is taken', async () => {
    const { events } = await train(2, { batchSize: 4, epochs: 1 }, { trainSize: 9 });
    const told = events[1]!.filter(({ type }) => type === 'begin' || type === 'step');
    expect(told.map((event) => ('samples' in event ? [event.type, event.step, event.samples] : []))).toEqual([
      ...[['begin', 0, 8], ['step', 0, 8]],
      ...[['begin', 1, 1], ['step', 1, 1]],
    ]); // prettier-ignore
  });

  test.each(['local-sgd', 'async-parameter-server'])(
    'stops all ranks at the same step, with advice, even if only one rank has an invalid loss: %s',
    async (strategy) => {
      let reads = 0;
      const failures: string[] = [];
      const run = train(
        2,
        { batchSize: 4, maxSteps: 12, strategy, syncEvery: 6 },
        { spoil: (inputs) => (reads++ === 7 ? inputs.fill(NaN) : inputs), onFailure: (e) => failures.push(String(e)) },
      );
      await expect(run).rejects.toThrow(/is NaN or infinite at step \d+\. Start again with a lower learning rate/);
      expect(failures).toHaveLength(2);
      expect(failures[1]).toBe(failures[0]);
    },
  );

  test('stops if states differ, and names the divergent rank', async () => {
    const training = train(
      3,
      { batchSize: 4, maxSteps: 6, hashEvery: 2 },
      {
        tamper: (replica, group) => {
          if (group.rank !== 1) return;
          const original = replica.stateHash.bind(replica);
          replica.stateHash = () => original().replace(/^../, (byte) => (byte === '00' ? '01' : '00'));
        },
      },
    );
    await expect(training).rejects.toThrow('After step 2 the state of rank 1 differs from the other ranks');
  });

  test('names all divergent ranks', async () => {
    const training = train(
      4,
      { batchSize: 4, maxSteps: 6, hashEvery: 2 },
      {
        tamper: (replica, { rank }) => {
          if (rank === 1 || rank === 2) replica.stateHash = () => String(rank).padStart(16, '0');
        },
      },
    );
    await expect(training).rejects.toThrow(
      /^After step 2 the state of ranks 1 and 2 differs from the other ranks' state .*a machine computes/,
    );
  });

  test('rejects a rank with other data, and names that rank', async () => {
    let reads = 0;
    // Each rank reads the training data once for its hash. The third rank's data differs in one
    // pixel.
    const spoil = (inputs: Float32Array): void => {
      if (++reads === 3) inputs[7]! += 1;
    };
    await expect(train(3, { maxSteps: 2 }, { spoil })).rejects.toThrow(
      /^The data of rank 2 differs from the data of the other ranks: .*--data/,
    );
  });

  test('frees all tensors when its preparation fails', async () => {
    const before = tf.memory().numTensors;
    let reads = 0;
    const spoil = (): void => {
      // The second read is for the batch of the warm-up.
      if (++reads === 2) throw new Error('unreadable');
    };
    await expect(train(1, { maxSteps: 2 }, { spoil })).rejects.toThrow('unreadable');
    expect(tf.memory().numTensors).toBe(before);
  });

  test('stops with advice when the loss is NaN or infinite', async () => {
    let reads = 0;
    const run = train(
      1,
      { batchSize: 4, maxSteps: 20 },
      { spoil: (inputs) => (reads++ === 3 ? inputs.fill(NaN) : inputs) },
    );
    await expect(run).rejects.toThrow(
      /^The loss is NaN or infinite at step \d+\. Start again with a lower learning rate/,
    );
  });

  test('stops when its generation has ended', async () => {
    const signal = AbortSignal.abort(new Error('the room closed'));
    const run = train(1, { maxSteps: 3 }, { signal });
    await expect(run).rejects.toThrow('the room closed');
  });
});
