/** Runs with a sharded optimizer, compared with runs whose ranks have the whole optimizer. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { runStateFromCheckpoint, runStateToCheckpoint } from '../../../src/engine/storage/runCheckpoint.ts';
import type { TrainingTask } from '../../../src/engine/tasks/task.ts';
import type { RunState } from '../../../src/engine/storage/runState.ts';
import { MIRROR_SHARDS_EVERY_STEPS } from '../../../src/parallel/zero/shardedOptimizer.ts';
import { parseJob } from '../../../src/spec/job.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { hashOfArrays } from '../../../src/util/hash.ts';
import { createRng } from '../../../src/util/rng.ts';
import { train } from '../train.ts';
import {
  areContiguous,
  COUNTING_PLAN,
  countedOnce,
  createCountingTask,
  createMember,
  isLoss,
  runGeneration,
  stepsOf,
  type Member,
} from '../worlds.ts';

const SAMPLES = 15;

const counter = (name: string, fields = {}, options = {}): Promise<Member> =>
  createMember(name, createCountingTask({ samples: SAMPLES, ...options }), {
    ...COUNTING_PLAN,
    shardOptimizer: true,
    ...fields,
  });

const counters = (n: number, fields = {}, options = {}): Promise<Member[]> =>
  Promise.all(Array.from({ length: n }, (_, i) => counter(`m${i}`, fields, options)));

const dispose = (members: readonly Member[]): void => {
  for (const member of members) member.dispose();
};

const FIELDS = { batchSize: 4, maxSteps: 6, hashEvery: 3, hidden: 16, learningRate: 0.01, algorithm: 'ring' };

/** Trains, and returns the state that each rank has in the end. */
async function trained(n: number, fields: object) {
  const states: Promise<RunState>[] = [];
  const { results, events } = await train(
    n,
    { ...FIELDS, ...fields },
    {
      tamper: (replica, group) => {
        const end = replica.dispose.bind(replica);
        replica.dispose = () => {
          states[group.rank] = replica.snapshot();
          end();
        };
      },
    },
  );
  return { results, events, states: await Promise.all(states) };
}

describe('a run with a sharded optimizer', () => {
  test.each([
    ['sgd', 3],
    ['momentum', 4],
    ['adam', 2],
    ['adamw', 3],
  ])(
    'has the bits of a run with whole optimizers: %s on %i ranks',
    async (optimizer, n) => {
      const fields = { optimizer, schedule: 'cosine', warmupSteps: 2 };
      const whole = await trained(n, fields);
      const sharded = await trained(n, { ...fields, shardOptimizer: true });
      const [expected] = whole.states;
      for (const [rank, { replica }] of sharded.states.entries()) {
        expect(replica.parameters).toEqual(expected!.replica.parameters);
        expect(replica.optimizer.scalars).toEqual(expected!.replica.optimizer.scalars);
        expect(sharded.results[rank]!.losses).toEqual(whole.results[rank]!.losses);
        expect(sharded.results[rank]!.valLoss).toBe(whole.results[rank]!.valLoss);
        const held = replica.shards!.find(({ age }) => age === 0)!;
        for (const [slot, values] of held.slots.entries()) {
          expect(values.length * n).toBeLessThan(1.05 * expected!.replica.optimizer.slots[slot]!.length);
        }
      }
      const hash = hashOfArrays([expected!.replica.parameters, expected!.replica.optimizer.scalars]);
      expect(sharded.results[0]!.stateHash).toEqual(Array.from({ length: n }, () => hash));
    },
    60_000,
  );

  test('finds the learning rate that a run with whole optimizers finds, and restores the model', async () => {
    const fields = { measure: 'learning-rate', maxSteps: 20, optimizer: 'adam', learningRate: 1, hashEvery: 7 };
    const [whole, sharded] = [await trained(2, fields), await trained(2, { ...fields, shardOptimizer: true })];
    expect(sharded.results[0]!.rateTest).toEqual(whole.results[0]!.rateTest);
    expect(sharded.results[0]!.losses).toEqual(whole.results[0]!.losses);
    for (const { replica } of sharded.states) {
      expect(replica.parameters).toEqual(whole.states[0]!.replica.parameters);
      for (const { slots } of replica.shards!)
        for (const slot of slots) expect(slot.every((value) => value === 0)).toBe(true);
    }
  });

  test('clips by the norm over all shards', async () => {
    const fields = { optimizer: 'adamw', clipNorm: 0.05 };
    const [whole, sharded, free] = [
      await trained(3, fields),
      await trained(3, { ...fields, shardOptimizer: true }),
      await trained(3, { optimizer: 'adamw' }),
    ];
    expect(new Set(sharded.results[0]!.stateHash).size).toBe(1);
    const [a, b] = [sharded, whole].map(({ results }) => results[0]!.losses);
    expect(b).not.toEqual(free.results[0]!.losses);
    for (const [step, loss] of a!.entries()) expect(loss).toBeCloseTo(b![step]!, 6);
  });

  test.each(['fp16', 'int8'])('has the bits of a run with whole optimizers, with the codec %s', async (codec) => {
    const fields = { optimizer: 'adam', codec };
    const [whole, sharded] = [await trained(3, fields), await trained(3, { ...fields, shardOptimizer: true })];
    expect(sharded.results[0]!.losses).toEqual(whole.results[0]!.losses);
    for (const { replica } of sharded.states) expect(replica.parameters).toEqual(whole.states[0]!.replica.parameters);
  });

  test('sends as many bytes as a ring all-reduce, although ranks also copy the optimizer’s averages', async () => {
    const n = 4;
    const steps = MIRROR_SHARDS_EVERY_STEPS + 1;
    // An epoch has as many steps as the run, and ranks compare their states only in the end.
    const fields = { maxSteps: null, epochs: 1, batchSize: 1, hashEvery: 1000, optimizer: 'adam', learningRate: 1e-6 };
    const members = await counters(n, fields, { samples: n * steps, padding: 60_000 });
    const { results } = await runGeneration(members);
    for (const result of results) {
      if (result instanceof Error) throw result;
      const parameters = 4 * members[0]!.values().length;
      const formula = (2 * parameters * (n - 1)) / n;
      expect(result.steps).toBe(steps);
      for (const bytes of result.bytesSentPerRank) expect(Math.abs(bytes / (steps * formula) - 1)).toBeLessThan(0.01);
    }
    dispose(members);
  }, 60_000);

  test('continues without a rank, at whichever frame of a step this rank is lost', async () => {
    const rank = 1;
    let behind = 0;
    for (let frame = 0; ; frame++) {
      const members = await counters(3, { optimizer: 'momentum', learningRate: 0.5, clipNorm: 1 });
      const { results } = await runGeneration(members, { end: { rank, step: 1, frame } });
      const isStepOver = members.every(({ run }) => run.steps > 1);
      for (const result of results) expect(result instanceof Error ? isLoss(result) : true).toBe(true);
      const survivors = members.filter((_, i) => i !== rank);
      const [a, b] = survivors.map(({ run }) => run.steps);
      if (a !== b) behind += 1;
      expect(Math.abs(a! - b!)).toBeLessThanOrEqual(1);
      const { entered, results: second } = await runGeneration(survivors);
      for (const one of entered) expect(one).toEqual(entered[0]);
      expect(entered[0]!.step).toBe(Math.max(a!, b!));
      for (const result of second) expect(result).toMatchObject({ accuracy: 1, worldSize: 2 });
      expect(areContiguous(stepsOf(survivors), SAMPLES)).toBe(true);
      expect(survivors[0]!.values()).toEqual(survivors[1]!.values());
      dispose(members);
      if (isStepOver) break;
    }
    expect(behind).toBeGreaterThan(0);
  }, 120_000);

  test('applies every sample once, whichever ranks join and leave', async () => {
    const before = tf.memory().numTensors;
    for (let seed = 0; seed < 8; seed++) {
      const rng = createRng(500 + seed);
      const samples = 40 + rng.below(30);
      const make = (name: string) => counter(name, { epochs: 2 }, { samples });
      const present = await Promise.all(['a', 'b', 'c'].map(make));
      const everyone = [...present];
      for (let generation = 0; ; generation++) {
        const end = generation < 8 ? { rank: rng.below(present.length), frame: rng.below(200) } : null;
        const { results } = await runGeneration(present, { end, delays: rng.below(2) === 0 ? rng : null });
        if (results.every((result) => !(result instanceof Error))) break;
        for (const result of results) if (result instanceof Error && !isLoss(result)) throw result;
        // A rank whose state is behind leaves, so that no applied step is lost.
        const latest = Math.max(...present.map(({ run }) => run.steps));
        const at = present.findIndex(({ run }) => run.steps < latest);
        if (present.length > 1 && rng.below(2) === 0) present.splice(Math.max(0, at), 1);
        if (rng.below(3) > 0) {
          const joiner = await make(`j${generation}`);
          everyone.push(joiner);
          present.splice(rng.below(present.length + 1), 0, joiner);
        }
      }
      expect(new Set(present.map(({ rank }) => rank.stateHash())).size).toBe(1);
      const steps = stepsOf(everyone);
      expect(areContiguous(steps, samples), `seed ${seed}`).toBe(true);
      for (const member of present) expect(member.values().slice(0, samples)).toEqual(countedOnce(steps, samples));
      dispose(everyone);
    }
    expect(tf.memory().numTensors).toBe(before);
  }, 60_000);

  test('saves whole states, which can continue in a world of any size, with or without shards', async () => {
    const fields = {
      optimizer: 'adam',
      learningRate: 0.1,
      epochs: 4,
      hashEvery: 2,
      algorithm: 'ring',
      balance: 'equal',
    };
    const about = { id: 'one', room: 'K7F3QX', job: parseJob({ maxSteps: 9 }), savedAt: 1, worldSize: 3 };
    /** Returns the checkpoint of the state on which three ranks agree after four steps. */
    const savedBy = async (shardOptimizer: boolean, savesState: boolean) => {
      const members: Member[] = [];
      const states: Promise<RunState>[] = [];
      // The state is saved when ranks have compared it, or requested before.
      const [type, step] = savesState ? ['hashes', 3] : ['begin', 2];
      const onevent = (event: EngineEvent): void => {
        if (event.type !== type || !('step' in event) || event.step !== step) return;
        const { rank } = members[1]!;
        expect(rank.isWhole).toBe(savesState || !shardOptimizer);
        states.push(rank.snapshot('whole'));
      };
      for (const i of [0, 1, 2]) {
        const plan = { ...COUNTING_PLAN, ...fields, shardOptimizer };
        const options = i === 1 ? { savesState: () => savesState, onevent } : {};
        members.push(await createMember(`m${i}`, createCountingTask({ samples: SAMPLES }), plan, options));
      }
      await runGeneration(members, { end: { rank: 0, step: 5, frame: 0 } });
      const own = await members[0]!.rank.snapshot();
      expect(own.replica.shards !== undefined).toBe(shardOptimizer);
      if (shardOptimizer)
        expect(() => runStateToCheckpoint(own, about)).toThrow(
          "This rank has only its shard of the optimizer's averages",
        );
      dispose(members);
      return runStateToCheckpoint((await states[0])!, about);
    };
    const whole = await savedBy(false, true);
    const [sharded, requested] = [await savedBy(true, true), await savedBy(true, false)];
    expect(sharded).toEqual(whole);
    expect(requested).toEqual(whole);
    const ends = [];
    for (const [from, shardOptimizer] of [
      [whole, false],
      [sharded, true],
      [sharded, false],
      [whole, true],
    ] as const) {
      const plan = { ...COUNTING_PLAN, ...fields, shardOptimizer };
      const task = (): TrainingTask => createCountingTask({ samples: SAMPLES });
      const first = await createMember('first', task(), plan, { from: { ...runStateFromCheckpoint(from) } });
      const second = await createMember('second', task(), plan);
      const { entered, results } = await runGeneration([second, first]);
      for (const one of entered) expect(one!.step).toBe(4);
      for (const result of results) expect(result).toMatchObject({ epochs: 4, worldSize: 2 });
      ends.push(first.values());
      expect(second.values()).toEqual(first.values());
      expect([first, second].flatMap(({ events }) => events.filter(({ type }) => type === 'note'))).toEqual([]);
      dispose([first, second]);
    }
    for (const end of ends) expect(end).toEqual(ends[0]);
  });
});
