/** Elastic jobs over the production server's rooms, without sockets. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { createOptimizer, type Optimizer } from '../../src/optim/index.ts';
import { optimizerOf } from '../../src/parallel/flat/optimizerOf.ts';
import { createRng } from '../../src/util/rng.ts';
import {
  createState,
  disposeState,
  type ElasticWorld,
  EPOCHS,
  hashOf,
  SAMPLES,
  train,
  weightsOf,
  type CountingState,
  type Tab,
  inEachTest,
} from './elasticWorld.ts';

let world: ElasticWorld;
let tensors: number;

inEachTest((one) => {
  world = one;
  tensors = tf.memory().numTensors;
});

const all = Array.from({ length: SAMPLES }, (_, i) => i);

/** How often a sample of each epoch was used, minus once. */
function miscounted({ steps }: CountingState): { skipped: number; repeated: number } {
  const counts = Array.from({ length: EPOCHS }, () => new Map<number, number>());
  for (const { epoch, indices } of steps)
    for (const index of indices) counts[epoch]!.set(index, (counts[epoch]!.get(index) ?? 0) + 1);
  const each = counts.flatMap((epoch) => all.map((index) => epoch.get(index) ?? 0));
  return { skipped: each.filter((n) => n < 1).length, repeated: each.filter((n) => n > 1).length };
}

const tensorflowOptimizers: tf.Optimizer[] = [];

/** An optimizer with averages: one of TensorFlow.js in odd schedules. */
function createAdam(seed: number): Optimizer | tf.Optimizer {
  if (seed % 2 === 0) return createOptimizer('adam', { learningRate: 0.125 }, SAMPLES);
  const optimizer = tf.train.adam(0.125);
  tensorflowOptimizers.push(optimizer);
  return optimizer;
}

/** Trains alone on the same steps, with one optimizer. */
function replay({ steps }: CountingState, seed: number): number[] {
  const weights = new Float32Array(SAMPLES);
  const adam = createAdam(seed);
  const optimizer = adam instanceof tf.Optimizer ? optimizerOf(adam, SAMPLES) : adam;
  for (const { indices } of steps) {
    const gradient = new Float32Array(SAMPLES);
    for (const index of indices) gradient[index]! -= 1;
    for (let i = 0; i < SAMPLES; i++) gradient[i]! /= indices.length;
    optimizer.apply(weights, gradient);
  }
  return Array.from(weights);
}

/** Duration of a step. Ranks can join a generation at the earliest 3 s after the one before. */
const STEP_MS = 800;

interface Member {
  state: CountingState;
  tab: Tab<string>;
}

/** Starts a tab that trains; `onstep` is called before each of its steps. */
function join(
  seed: number,
  options: Parameters<ElasticWorld['start']>[0],
  onstep: (step: number, member: Member) => void,
): Member {
  const pace = (): Promise<void> => new Promise((resolve) => world.clock.after(STEP_MS, resolve));
  // Only rank 0's initial weights count.
  const state = createState(world.room === '' ? 0 : 9, createAdam(seed));
  const member: Member = {
    state,
    tab: world.start({ ...options, ...(world.room !== '' && { room: world.room }) }, state, (_, group) =>
      train(state, group, (step) => {
        onstep(step, member);
        return pace();
      }),
    ),
  };
  return member;
}

describe('elastic', () => {
  test.each(Array.from({ length: 20 }, (_, seed) => seed))(
    'uses every sample once in schedule %i, in which one of four tabs is killed and another one joins',
    async (seed) => {
      const rng = createRng(seed);
      const stop = new AbortController();
      const victim = rng.below(4);
      const killAt = rng.below(8);
      const joinAt = rng.below(8);
      let frames = rng.below(30);
      let isKilled = false;
      let late: Member | null = null;
      const onstep = (step: number, { tab }: Member): void => {
        if (tab === members[victim]!.tab && step >= killAt && !isKilled) {
          isKilled = true;
          // It is killed in the middle of a step.
          tab.port.onframe = () => void (frames-- <= 0 && tab.port.close());
        }
        if (step >= joinAt) late ??= join(seed, {}, onstep);
      };
      const members: Member[] = [];
      const nodes = { min: 2, max: 5 };
      members.push(join(seed, { nodes, worldSize: 4, signal: stop.signal }, onstep));
      await world.until('the room is open', () => world.room !== '');
      while (members.length < 4) members.push(join(seed, { signal: stop.signal }, onstep));
      const rest = (): Member[] => [...members.filter((_, i) => i !== victim), ...(late ? [late] : [])];
      await world.until('the others are done', () => late !== null && rest().every(({ tab }) => tab.ended !== null));
      stop.abort('The test is over.');
      const done = rest();
      expect(done.map(({ tab }) => tab.ended)).toEqual(
        done.map(() => ({ result: expect.stringMatching(/^done on rank . of 4$/) as string })),
      );
      await world.over(members[victim]!.tab);
      for (const { state } of done) {
        expect(miscounted(state)).toEqual({ skipped: 0, repeated: 0 });
        expect(weightsOf(state)).toEqual(replay(state, seed));
      }
      expect(new Set(done.map(({ state }) => hashOf(state))).size).toBe(1);
      for (const { state } of [...done, members[victim]!]) disposeState(state);
      for (const optimizer of tensorflowOptimizers.splice(0)) optimizer.dispose();
      expect(tf.memory().numTensors).toBe(tensors);
    },
  );
});
