/** Runs that continue after their worlds have ended. Memory links, TensorFlow.js's CPU backend. */
import { isDeepStrictEqual } from 'node:util';
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { ENTERING_MS, LINKING_MS, SYNCING_MS } from '../../../signaling/room/index.ts';
import { DEFAULT_OP_TIMEOUT_MS } from '../../../src/collectives/processGroup.ts';
import { createJobTask } from '../../../src/engine/tasks/jobTask.ts';
import { LINKING_TIMEOUT_MS } from '../../../src/engine/membership/generationLink.ts';
import type { TrainingTask } from '../../../src/engine/tasks/task.ts';
import { createTensorTask } from '../../../src/engine/tasks/tensorTask.ts';
import { SYNCING_TIMEOUT_MS } from '../../../src/engine/run/run.ts';
import { loadData } from '../../../src/jobs/index.ts';
import { SyncBatchNormalization } from '../../../src/parallel/backward/syncBatchNorm.ts';
import { DEFAULT_JOB, isElasticJob, parseJob, STRATEGY_NAMES } from '../../../src/spec/job.ts';
import {
  DataError,
  DeviceError,
  DivergenceError,
  MismatchError,
  PeergradError,
  UsageError,
} from '../../../src/util/errors.ts';
import { createRng } from '../../../src/util/rng.ts';
import { relative } from '../train.ts';
import {
  areContiguous,
  COUNTING_PLAN,
  countedOnce,
  createCountingTask,
  createMember,
  isLoss,
  runGeneration,
  planOf,
  stepsOf,
  type Member,
  type Step,
} from '../worlds.ts';

/** Three ranks need three steps for these samples: two full windows and a short one. */
const SAMPLES = 15;

const counter = (name = 'm', fields = {}, options = {}): Promise<Member> =>
  createMember(name, createCountingTask({ samples: SAMPLES, ...options }), { ...COUNTING_PLAN, ...fields });

const counters = (n: number, fields = {}, options = {}): Promise<Member[]> =>
  Promise.all(Array.from({ length: n }, (_, i) => counter(`m${i}`, fields, options)));

const SHARD_FIELDS = { ...COUNTING_PLAN, batchSize: 1, epochs: 2, hashEvery: 100 };

/** Creates four members that have samples of their own. */
function shardCounters(): Promise<Member[]> {
  const sizes = [5, 6, 2, 3];
  const starts = [0, 5, 11, 13];
  return Promise.all(
    sizes.map((trainSamples, i) => {
      const task = createCountingTask({ samples: 16 });
      const placesOf = (indices: Uint32Array): Uint32Array => indices.map((index) => starts[i]! + index);
      const withBatch: TrainingTask['withBatch'] = (indices, ...rest) => task.withBatch(placesOf(indices), ...rest);
      return createMember(`m${i}`, { ...task, isShard: true, trainSamples, withBatch }, SHARD_FIELDS);
    }),
  );
}

/**
 * Expects that `members` are at the end of an epoch, that each sample was applied once in each
 * epoch, and that all members have bitwise equal states.
 */
function expectCountedOnce(members: readonly Member[], samples = SAMPLES): void {
  const steps = stepsOf(members);
  expect(areContiguous(steps, samples)).toBe(true);
  const expected = countedOnce(steps, samples);
  for (const member of members) expect(member.values().slice(0, samples)).toEqual(expected);
  expect(new Set(members.map(({ rank }) => rank.stateHash())).size).toBe(1);
}

const dispose = (members: readonly Member[]): void => {
  for (const member of members) member.dispose();
};

const appliedBy = ({ events }: Member): number => events.filter(({ type }) => type === 'step').length;

const weightsOf = ({ task }: Member) =>
  (task.model as tf.LayersModel).getWeights().map((weight) => Array.from(weight.dataSync()));

/** Resolves with the errors of all `members`. */
const rejections = async (members: readonly Member[]): Promise<PeergradError[]> => {
  const { results } = await runGeneration(members);
  expect(results.every((result) => result instanceof PeergradError)).toBe(true);
  return results as unknown as PeergradError[];
};

describe('a run', () => {
  test.each([0, 1, 2])(
    'continues without rank %i, at whichever frame this rank is lost',
    async (rank) => {
      for (let frame = 0; ; frame++) {
        const members = await counters(3);
        const { isBroken, results } = await runGeneration(members, { end: { rank, frame } });
        if (!isBroken) {
          expectCountedOnce(members);
          dispose(members);
          expect(frame).toBeGreaterThan(90);
          return;
        }
        for (const result of results) expect(result instanceof Error ? isLoss(result) : true).toBe(true);
        const survivors = members.filter((_, i) => i !== rank);
        const second = await runGeneration(survivors);
        for (const result of second.results) expect(result).toMatchObject({ accuracy: 1, worldSize: 2 });
        expectCountedOnce(survivors);
        dispose(members);
      }
    },
    120_000,
  );

  test('updates a rank that is one step behind, with every optimizer', async () => {
    for (const optimizer of ['sgd', 'momentum', 'adam']) {
      let late = 0;
      // These are the last of a step's 16 frames.
      for (let frame = 12; frame < 18; frame++) {
        const members = await counters(3, { optimizer, learningRate: 0.5 });
        await runGeneration(members, { end: { rank: 2, step: 1, frame } });
        const survivors = members.slice(0, 2);
        const [a, b] = survivors.map(appliedBy);
        if (a !== b) late += 1;
        expect(Math.abs(a! - b!)).toBeLessThanOrEqual(1);
        const { entered } = await runGeneration(survivors);
        expect(entered[0]).toEqual(entered[1]);
        expect(entered[0]!.step).toBe(Math.max(a!, b!));
        expect(areContiguous(stepsOf(survivors), SAMPLES)).toBe(true);
        expect(survivors[0]!.values()).toEqual(survivors[1]!.values());
        dispose(members);
      }
      expect(late, optimizer).toBeGreaterThan(0);
    }
  });

  test.each([1, 2])('accepts %i more ranks in the middle of a step', async (more) => {
    for (let frame = 20; frame < 60; frame += 6) {
      const members = await counters(2);
      const first = await runGeneration(members, { end: { rank: 1, frame } });
      expect(first.isBroken).toBe(true);
      const joiners = await counters(more);
      // Newcomers receive the state even if they have taken more steps than the other ranks.
      const all = [joiners[0]!, ...members, ...joiners.slice(1)];
      const { entered, results } = await runGeneration(all);
      for (const one of entered) expect(one).toEqual(entered[0]);
      for (const result of results) expect(result).toMatchObject({ worldSize: 2 + more, losses: expect.any(Array) });
      const losses = results.map((result) => (result instanceof Error ? [] : result.losses));
      for (const own of losses) expect(own).toEqual(losses[0]);
      expectCountedOnce(all);
      dispose(all);
    }
  });

  test('updates a member that returns 5 steps behind', async () => {
    const members = await counters(3, { optimizer: 'adam', batchSize: 1 }, { samples: 40 });
    await runGeneration(members, { end: { rank: 2, step: 2, frame: 0 } });
    await runGeneration(members.slice(0, 2), { end: { rank: 0, step: 7, frame: 0 } });
    expect(members.map(appliedBy)).toEqual([7, 7, 2]);
    const { entered, results } = await runGeneration(members);
    for (const one of entered) expect(one).toEqual({ ...entered[0], step: 7 });
    for (const result of results) expect(result).toMatchObject({ worldSize: 3 });
    expect(areContiguous(stepsOf(members), 40)).toBe(true);
    for (const member of members) expect(member.values()).toEqual(members[0]!.values());
    dispose(members);
  });

  test('keeps the steps that one rank took alone, at whichever frame the transfer of the state to other ranks breaks', async () => {
    for (let frame = 0; ; frame += 4) {
      const members = await shardCounters();
      const [a, b, c, d] = members as [Member, Member, Member, Member];
      await runGeneration([a, b, c], { end: { rank: 0, step: 1, frame: 0 } });
      // The second step is taken twice: by two members, and by the third member together with a
      // member that leaves afterwards.
      await runGeneration([a, b], { end: { rank: 0, step: 2, frame: 0 } });
      await runGeneration([c, d], { end: { rank: 0, step: 3, frame: 0 } });
      expect(members.map(({ run }) => run.steps)).toEqual([2, 2, 3, 3]);
      const learned = c.values();
      await runGeneration([c, a, b], { end: { rank: 0, frame } });
      if (c.run.steps > 3) {
        expect(frame).toBeGreaterThan(20);
        dispose(members);
        return;
      }
      const { entered } = await runGeneration([c, a, b], { end: { rank: 0, step: 3, frame: 0 } });
      for (const one of entered) expect(one).toMatchObject({ step: 3, values: learned });
      dispose(members);
    }
  }, 60_000);

  test('keeps, of two states with equally many steps, the state of the later generation, even after a GPU was opened again', async () => {
    const members = await shardCounters();
    const [a, b, c, d] = members as [Member, Member, Member, Member];
    await runGeneration(members, { end: { rank: 0, step: 1, frame: 0 } });
    await runGeneration([a, b], { end: { rank: 0, step: 2, frame: 0 } });
    await runGeneration([c, d], { end: { rank: 0, step: 2, frame: 0 } });
    const learned = c.values();
    expect(a.values()).not.toEqual(learned);
    const again = await createMember('again', c.task, SHARD_FIELDS, { from: await c.rank.snapshot() });
    const { entered } = await runGeneration([a, again], { end: { rank: 0, step: 2, frame: 0 } });
    for (const one of entered) expect(one).toMatchObject({ step: 2, values: learned });
    again.rank.dispose();
    dispose(members);
  });

  test('replaces the state of a member if it differs from the states of all others', async () => {
    const members = await counters(3);
    await runGeneration(members, { end: { rank: 0, step: 1, frame: 0 } });
    const state = await members[1]!.rank.snapshot();
    state.replica.parameters[3]! += 1;
    const fields = { ...COUNTING_PLAN };
    const divergent = await createMember('divergent', createCountingTask({ samples: SAMPLES }), fields, {
      from: state,
    });
    // The state of the lowest rank is not automatically the correct one.
    const all = [divergent, members[0]!, members[2]!];
    await runGeneration(all);
    expectCountedOnce(all);
    dispose([...members, divergent]);
  });

  test('ends the generation if states differ, and continues in the next generation', async () => {
    const members = await counters(3);
    const { rank } = members[1]!;
    const original = rank.stateHash.bind(rank);
    rank.stateHash = () => original().replace(/^../, (byte) => (byte === '00' ? '01' : '00'));
    const { results } = await runGeneration(members);
    for (const result of results) {
      expect(result).toBeInstanceOf(DivergenceError);
      expect((result as DivergenceError).context.divergent).toEqual([1]);
    }
    rank.stateHash = original;
    await runGeneration(members);
    expectCountedOnce(members);
    dispose(members);
  });

  test('continues with a single remaining rank that computes several micro-batches per step', async () => {
    for (const frame of [0, 30, 41, 50, 60]) {
      const members = await counters(3);
      const first = await runGeneration(members, { end: { rank: 1, frame } });
      expect(first.isBroken).toBe(true);
      const [last] = members;
      const { results } = await runGeneration([last!]);
      expect(results[0]).toMatchObject({ worldSize: 1, accuracy: 1 });
      expectCountedOnce([last!]);
      dispose(members);
    }
  });

  test('applies every sample once, whichever ranks join and leave', async () => {
    const before = tf.memory().numTensors;
    for (let seed = 0; seed < 12; seed++) {
      const rng = createRng(1000 + seed);
      const samples = 40 + rng.below(30);
      const make = (name: string) => counter(name, { epochs: 2 }, { samples });
      let present: Member[] = await Promise.all(['a', 'b', 'c'].map(make));
      const away: Member[] = [];
      const everyone = [...present];
      /**
       * The steps that led to each member's state. If no remaining member has applied a step, the
       * step is taken again.
       */
      const histories = new Map<Member, Step[]>(present.map((member) => [member, []]));
      for (let generation = 0; ; generation++) {
        const known = present.map((member) => histories.get(member)!);
        const historyOf = (values: readonly number[]): Step[] => {
          const counts = values.slice(0, samples);
          const history = known.find((steps) => isDeepStrictEqual(countedOnce(steps, samples), counts));
          expect(history, `of seed ${seed}, generation ${generation}`).toBeDefined();
          return history!;
        };
        const told = new Map(present.map((member) => [member, member.events.length]));
        const end = generation < 12 ? { rank: rng.below(present.length), frame: rng.below(120) } : null;
        const { results, entered } = await runGeneration(present, { end, delays: rng.below(2) === 0 ? rng : null });
        for (const [rank, member] of present.entries()) {
          const start = historyOf(entered[rank]?.values ?? member.values());
          if (entered[rank]) expect(start).toHaveLength(entered[rank].step);
          const steps = member.events.slice(told.get(member)).filter((event) => event.type === 'step');
          histories.set(member, [...start, ...steps]);
        }
        if (results.every((result) => !(result instanceof Error))) break;
        for (const result of results) expect(result instanceof Error ? isLoss(result) : true).toBe(true);
        if (present.length > 1 && rng.below(2) === 0) away.push(...present.splice(rng.below(present.length), 1));
        if (rng.below(3) === 0) {
          const joiner = await make(`j${generation}`);
          everyone.push(joiner);
          histories.set(joiner, []);
          present.splice(rng.below(present.length + 1), 0, joiner);
        }
        if (away.length > 0 && rng.below(3) === 0) present = [...present, away.pop()!];
      }
      expect(new Set(present.map(({ rank }) => rank.stateHash())).size).toBe(1);
      for (const member of present) {
        const steps = histories.get(member)!;
        expect(areContiguous(steps, samples)).toBe(true);
        expect(member.values().slice(0, samples)).toEqual(countedOnce(steps, samples));
      }
      dispose(everyone);
    }
    expect(tf.memory().numTensors).toBe(before);
  }, 60_000);

  test('resumes from a saved state in a world of a different size', async () => {
    const members = await counters(3, { optimizer: 'sgd', epochs: 2 });
    await runGeneration(members, { end: { rank: 1, step: 4, frame: 0 } });
    const saved = await members[0]!.rank.snapshot();
    dispose(members);
    const told = members[0]!.events;
    const make = (i: number) =>
      createMember(`r${i}`, createCountingTask({ samples: SAMPLES }), { ...COUNTING_PLAN, epochs: 2 }, { from: saved });
    const resumed = [await make(0), await make(1), await counter('new', { epochs: 2 })];
    for (const { events } of resumed) events.unshift(...told);
    const { entered, results } = await runGeneration([...resumed].reverse());
    for (const one of entered) expect(one!.step).toBe(4);
    for (const result of results) expect(result).toMatchObject({ epochs: 2, accuracy: 1, restarts: 0 });
    expectCountedOnce(resumed);
    dispose(resumed);
  });

  test('takes no step after it resumes from the state of the final step, but has the same result', async () => {
    const members = await counters(2);
    const { results: before } = await runGeneration(members);
    const saved = await members[1]!.rank.snapshot();
    dispose(members);
    const one = await createMember('r', createCountingTask({ samples: SAMPLES }), COUNTING_PLAN, { from: saved });
    const { results } = await runGeneration([one]);
    const { stateHash, losses } = before[0] as { stateHash: string[]; losses: number[] };
    expect(results[0]).toMatchObject({ stateHash: [stateHash[0]], losses, accuracy: 1 });
    expect(appliedBy(one)).toBe(0);
    one.dispose();
  });

  test('has a result even on a rank that joins after the final step', async () => {
    const members = await counters(2);
    await runGeneration(members);
    const all = [...members, await counter()];
    const { results } = await runGeneration(all);
    for (const result of results) expect(result).toMatchObject({ accuracy: 1, steps: 4, worldSize: 3 });
    expectCountedOnce(all);
    dispose(all);
  });

  test('counts in its result the bytes of all its generations', async () => {
    const members = await counters(2, { batchSize: 1 });
    await runGeneration(members, { end: { rank: 0, step: 4, frame: 0 } });
    const { results } = await runGeneration(members);
    const [result] = results;
    if (!result || result instanceof Error) throw new Error('It was to end.');
    const { bytesSentPerRank, gradientBytes, steps } = result;
    // A part of the bytes belongs to the step that was taken twice.
    for (const bytes of bytesSentPerRank) {
      expect(bytes / gradientBytes).toBeGreaterThan(steps);
      expect(bytes / gradientBytes).toBeLessThan(steps + 1.01);
    }
    dispose(members);
  });

  test("drops a rank's retained gradient if the rank's GPU fails, and computes the samples again", async () => {
    for (const broken of [0, 1]) {
      const members = await counters(2);
      let checks = 0;
      let failsAt = Infinity;
      const checkDevice = (): void => {
        checks += 1;
        if (checks !== failsAt) return;
        throw new DeviceError('The GPU refused an operation.');
      };
      const task = createCountingTask({ samples: SAMPLES });
      members[broken]!.dispose();
      members[broken] = await createMember('weak', task, COUNTING_PLAN, { checkDevice });
      // The device fails in the second bucket of the second step.
      failsAt = checks + 4;
      const { results } = await runGeneration(members);
      expect(results[broken]).toBeInstanceOf(DeviceError);
      expect(isLoss(results[1 - broken]!)).toBe(true);
      await runGeneration(members);
      expectCountedOnce(members);
      dispose(members);
    }
  });

  test('restores buffers that the pass of an interrupted step has changed', async () => {
    for (let frame = 16; frame < 90; frame += 3) {
      const members = await counters(3, {}, { buffer: true });
      const { isBroken } = await runGeneration(members, { end: { rank: 1, frame } });
      const survivors = isBroken ? [members[0]!, members[2]!] : members;
      if (isBroken) await runGeneration(survivors);
      expectCountedOnce(survivors);
      // Each pass adds 1 on rank 0, so only the passes of applied steps are counted.
      for (const member of survivors) expect(member.values().at(-1)).toBe(stepsOf(survivors).length);
      dispose(members);
    }
  });

  test('continues without a lost rank with synchronized batch normalization, and applies every sample once', async () => {
    const rng = createRng(3);
    const xs = tf.tensor2d(Array.from({ length: 18 }, () => [rng.next(), rng.next()]));
    const ys = xs.sum(1, true);
    const make = (i: number): Promise<Member> => {
      const kernelInitializer = tf.initializers.glorotUniform({ seed: 1 + i });
      const model = tf.sequential({
        layers: [
          tf.layers.dense({ units: 3, inputShape: [2], kernelInitializer }),
          new SyncBatchNormalization(),
          tf.layers.dense({ units: 1, kernelInitializer }),
        ],
      });
      const task = createTensorTask(model, { xs, ys }, { loss: 'meanSquaredError' });
      return createMember(`m${i}`, { ...task, dispose: () => model.dispose() }, { batchSize: 2, learningRate: 0.1 });
    };
    let interruptions = 0;
    for (let frame = 20; frame < 100; frame += 9) {
      const members = await Promise.all([0, 1, 2].map(make));
      const { isBroken } = await runGeneration(members, { end: { rank: 2, frame } });
      const survivors = isBroken ? members.slice(0, 2) : members;
      if (isBroken) await runGeneration(survivors);
      if (isBroken) interruptions += 1;
      expect(areContiguous(stepsOf(survivors), 18)).toBe(true);
      for (const member of survivors) expect(weightsOf(member)).toEqual(weightsOf(survivors[0]!));
      dispose(members);
    }
    expect(interruptions).toBeGreaterThan(3);
    tf.dispose([xs, ys]);
  });

  test('repeats an interrupted step with fewer ranks, on all samples of that step', async () => {
    const job = parseJob({ ...DEFAULT_JOB, batchSize: 4, maxSteps: 4 });
    const data = await loadData(job, { baseUrl: 'http://localhost/' });
    const heldOut = { ...data.test, size: 4, read: data.test.read.bind(data.test) };
    const make = async (i: number) =>
      createMember(`m${i}`, await createJobTask(job, { train: data.train, test: heldOut }, 3), planOf(job));
    const undisturbed = await Promise.all([0, 1, 2].map(make));
    await runGeneration(undisturbed);
    const whole = stepsOf(undisturbed);
    const members = await Promise.all([0, 1, 2].map(make));
    // The generation ends in the middle of the second step.
    await runGeneration(members, { end: { rank: 1, step: 1, frame: 3 } });
    const survivors = [members[0]!, members[2]!];
    await runGeneration(survivors);
    const steps = stepsOf(survivors);
    expect(steps.slice(0, 2).map(({ samples }) => samples)).toEqual([12, 12]);
    expect(steps.slice(2).map(({ samples }) => samples)).toEqual([8, 8]);
    for (const step of [0, 1]) expect(relative(steps[step]!.loss, whole[step]!.loss)).toBeLessThan(1e-5);
    // The loss is a mean over fewer samples, and uses the parameters from before the retried step.
    expect(steps[2]!.loss).not.toBe(whole[2]!.loss);
    dispose([...undisturbed, ...members]);
  });
});

describe('entering a generation', () => {
  test('rejects a rank with other data, and tells the other ranks which rank it is', async () => {
    const divergent = await counter('divergent', {}, { dataHash: '11'.repeat(8) });
    const members = [...(await counters(2)), divergent];
    const errors = await rejections(members);
    expect(errors.map(({ name }) => name)).toEqual(['PeergradError', 'PeergradError', 'DataError']);
    for (const error of errors) {
      expect(error.message).toBe('The data of rank 2 differs from the data of the other ranks: count again.');
      expect(error.context.divergent).toEqual([2]);
    }
    await runGeneration(members.slice(0, 2));
    expectCountedOnce(members.slice(0, 2));
    dispose(members);
  });

  test('rejects new ranks whose data differ from those of a training rank, even if most ranks are new', async () => {
    const [member] = await counters(1);
    await runGeneration([member!], { end: { rank: 0, step: 2, frame: 0 } });
    const divergent = await counters(2, {}, { dataHash: '11'.repeat(8) });
    const errors = await rejections([...divergent, member!]);
    expect(errors[0]).toBeInstanceOf(DataError);
    expect(errors[2]!.context.divergent).toEqual([0, 1]);
    dispose([member!, ...divergent]);
  });

  test('tells a rank with a different model how the models differ', async () => {
    const members = await counters(2);
    const other = await createMember('other', createCountingTask({ samples: SAMPLES + 4 }), COUNTING_PLAN);
    const same = { ...other.task, trainSamples: SAMPLES };
    const divergent = await createMember('divergent', same, COUNTING_PLAN);
    const errors = await rejections([divergent, ...members]);
    expect(errors[0]).toBeInstanceOf(MismatchError);
    expect(errors[1]).not.toBeInstanceOf(MismatchError);
    for (const { message } of errors) {
      expect(message).toMatch(/^The parameter 0 .* of rank 0, float32 \[9\], appears not to match that of rank 1/);
    }
    divergent.rank.dispose();
    dispose([...members, other]);
  });

  test.each(STRATEGY_NAMES.filter((strategy) => !isElasticJob({ strategy })))(
    'is refused for the second time in a run with the strategy %s',
    async (strategy) => {
      const members = await counters(2, { strategy });
      const { results } = await runGeneration(members);
      for (const result of results) expect(result).toMatchObject({ accuracy: 1 });
      const errors = await rejections(members);
      for (const error of errors) expect(error.message).toContain(`the strategy ${strategy} cannot continue with`);
      await expect(members[0]!.rank.snapshot()).rejects.toThrow(UsageError);
      dispose(members);
    },
  );

  test('rejects a saved state of a different model', async () => {
    const [member] = await counters(1);
    const saved = await member!.rank.snapshot();
    const other = createCountingTask({ samples: SAMPLES + 4 });
    await expect(createMember('other', other, COUNTING_PLAN, { from: saved })).rejects.toThrow(MismatchError);
    other.dispose();
    member!.dispose();
  });
});

test('deadlines of ranks end before those of the server, because only ranks know which rank is late', () => {
  expect(LINKING_TIMEOUT_MS).toBeLessThan(LINKING_MS);
  expect(SYNCING_TIMEOUT_MS + 10_000).toBeLessThan(SYNCING_MS);
  // The longest time that a collective waits for the last step of another rank.
  expect(ENTERING_MS[0]).toBeGreaterThan(DEFAULT_OP_TIMEOUT_MS);
});
