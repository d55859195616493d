/**
 * Runs whose ranks have different speeds. Each rank has a clock that only its own passes advance.
 */
import type { ReportedDevice } from '../../../src/protocol/room.ts';
import { describe, expect, test } from 'vitest';
import { createJobTask } from '../../../src/engine/tasks/jobTask.ts';
import type { TrainingTask } from '../../../src/engine/tasks/task.ts';
import { loadData } from '../../../src/jobs/index.ts';
import type { EventOf } from '../../../src/protocol/events.ts';
import type { RunResult } from '../../../src/protocol/runResult.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { relative } from '../train.ts';
import {
  areContiguous,
  countedOnce,
  createCountingTask,
  createMember,
  planOf,
  runGeneration,
  stepsOf,
  type Member,
} from '../worlds.ts';

const SAMPLES = 700;
const PLAN = { optimizer: 'sgd', learningRate: 1, batchSize: 8, hashEvery: 5, epochs: 2 };

/** A member, and the sizes of its passes with the samples in them. */
interface Timed {
  member: Member;
  /** Sizes of the passes before the run. */
  warmUp: number[];
  passes: { step: number; samples: number; size: number }[];
}

/** Milliseconds that a rank needs for a sample in a step. */
type MsPerSample = (step: number) => number;
/** A pass of no sample takes as long as a pass over this many samples would without this cost. */
const PASS_SAMPLES = 4;

async function timed(
  task: TrainingTask,
  fields: Record<string, unknown>,
  msPerSample: MsPerSample,
  passSamples = 0,
  backend: ReportedDevice['backend'] = 'cpu',
): Promise<Timed> {
  const passes: Timed['passes'] = [];
  let now = 0;
  const withBatch: TrainingTask['withBatch'] = async (indices, use, at, size) => {
    const { step } = at;
    passes.push({ step, samples: indices.length, size });
    now += (passSamples + indices.length) * msPerSample(step);
    return task.withBatch(indices, use, at, size);
  };
  const clock = { ...systemClock, now: () => now };
  const member = await createMember('m', { ...task, withBatch }, fields, { clock, backend });
  const warmUp = passes.splice(0).map(({ size }) => size);
  return { member, warmUp, passes };
}

const counter = (msPerSample: MsPerSample, fields: object = {}, options: object = {}, passSamples = 0) =>
  timed(createCountingTask({ samples: SAMPLES, ...options }), { ...PLAN, ...fields }, msPerSample, passSamples);

const counters = (speeds: readonly MsPerSample[], fields: object = {}, options: object = {}): Promise<Timed[]> =>
  Promise.all(speeds.map((speed) => counter(speed, fields, options)));

const always =
  (ms: number): MsPerSample =>
  () =>
    ms;
/** Three ranks, and a rank with a quarter of their speed. */
const ONE_SLOW = [always(2), always(2), always(2), always(8)];

const membersOf = (all: readonly Timed[]): Member[] => all.map(({ member }) => member);
const sharesOf = ({ member }: Timed): EventOf<'shares'>[] => member.events.filter((event) => event.type === 'shares');
const computedIn = ({ passes }: Timed, step: number): number =>
  passes.reduce((sum, pass) => sum + (pass.step === step ? pass.samples : 0), 0);
const dispose = (all: readonly Timed[]): void => all.forEach(({ member }) => member.dispose());

/** Expects that each sample was applied once in each epoch, bit for bit. */
function expectCountedOnce(members: readonly Member[]): void {
  const steps = stepsOf(members);
  expect(areContiguous(steps, SAMPLES)).toBe(true);
  for (const member of members) expect(member.values().slice(0, SAMPLES)).toEqual(countedOnce(steps, SAMPLES));
  expect(new Set(members.map(({ rank }) => rank.stateHash())).size).toBe(1);
}

describe('a run in which one rank has a quarter of the speed', () => {
  test('gives this rank a quarter of an equal share, and applies each sample of each epoch once', async () => {
    const all = await counters(ONE_SLOW);
    const { results } = await runGeneration(membersOf(all));
    for (const result of results) expect(result).toMatchObject({ shares: [5, 5, 5, 1] });
    expect(all.map((one) => computedIn(one, 19))).toEqual([8, 8, 8, 8]);
    expect(all.map((one) => computedIn(one, 20))).toEqual([10, 10, 10, 2]);
    for (const one of all) {
      expect(sharesOf(one).map(({ step, reason }) => [step, reason])).toEqual([
        [0, 'unknown'],
        [4, 'unknown'],
        [20, 'speed'],
      ]);
      expect(sharesOf(one).at(-1)!.speeds).toEqual([500, 500, 500, 125]);
    }
    expectCountedOnce(membersOf(all));
    dispose(all);
  });

  test('has the losses of a run with equal shares, with relative differences below 1e-5', async () => {
    const fields = { batchSize: 8, maxSteps: 32, hidden: 16, learningRate: 0.01 };
    const lossesOf = async (balance: string): Promise<number[]> => {
      const job = parseJob({ ...fields, balance });
      const data = await loadData(job, { baseUrl: 'http://localhost/' });
      const heldOut = { ...data.test, size: 4, read: data.test.read.bind(data.test) };
      const all: Timed[] = [];
      for (const speed of ONE_SLOW) {
        all.push(await timed(await createJobTask(job, { train: data.train, test: heldOut }, 4), planOf(job), speed));
      }
      const { results } = await runGeneration(membersOf(all));
      const [result] = results as RunResult[];
      expect(result!.shares).toEqual(balance === 'speed' ? [5, 5, 5, 1] : undefined);
      dispose(all);
      return result!.losses;
    };
    const [bySpeed, equal] = [await lossesOf('speed'), await lossesOf('equal')];
    expect(bySpeed).toHaveLength(32);
    for (const [i, loss] of bySpeed.entries()) expect(relative(loss, equal[i]!)).toBeLessThan(1e-5);
  });

  test('applies each sample once if a rank leaves during a step and another joins', async () => {
    for (const [rank, frame] of [
      [3, 0],
      [0, 7],
      [3, 14],
      [0, 21],
      [1, 30],
    ] as const) {
      const all = await counters(ONE_SLOW, { epochs: 2 });
      const first = await runGeneration(membersOf(all), { end: { rank, step: 22, frame } });
      expect(first.isBroken).toBe(true);
      const joiner = await counter(always(8), { epochs: 2 });
      const rest = [...all.filter((_, i) => i !== rank), joiner];
      const { results } = await runGeneration(membersOf(rest));
      for (const result of results) expect(result).toMatchObject({ worldSize: 4 });
      expectCountedOnce(membersOf(rest));
      dispose([...all, joiner]);
    }
  });
});

test('a run changes shares within 24 steps of a rank becoming slow, and makes them equal after it recovers', async () => {
  const all = await counters([always(2), (step) => (step >= 12 && step < 44 ? 8 : 2), always(2)], { epochs: 3 });
  await runGeneration(membersOf(all));
  const changes = sharesOf(all[0]!).map(({ step, shares }) => ({ step, shares }));
  const slow = changes.find(({ shares }) => shares[1] === 1)!;
  expect(slow.step).toBeLessThanOrEqual(36);
  const equal = changes.find(({ step, shares }) => step > slow.step && shares.every((share) => share === 4))!;
  expect(equal.step).toBeLessThanOrEqual(56);
  expect(changes.length).toBeLessThanOrEqual(5);
  expectCountedOnce(membersOf(all));
  dispose(all);
});

test('a run makes shares equal after a slow rank recovers, even if each pass has a fixed cost', async () => {
  const speeds = [always(2), always(2), always(2), (step: number) => (step < 24 ? 8 : 2)];
  const all = await Promise.all(speeds.map((speed) => counter(speed, { epochs: 3 }, {}, PASS_SAMPLES)));
  await runGeneration(membersOf(all));
  const changes = sharesOf(all[0]!);
  expect(changes.map(({ shares }) => shares)).toContainEqual([5, 5, 5, 1]);
  expect(changes.at(-1)).toMatchObject({ shares: [4, 4, 4, 4], reason: 'similar' });
  expect(changes.at(-1)!.step).toBeLessThanOrEqual(36);
  expectCountedOnce(membersOf(all));
  dispose(all);
});

test('a run tries unequal shares only once if small passes take as long as large ones', async () => {
  // A pass of no sample takes almost as long as a whole one.
  const all = await Promise.all([2, 4].map((ms) => counter(always(ms), { epochs: 3 }, {}, 1000)));
  await runGeneration(membersOf(all));
  expect(sharesOf(all[0]!).filter(({ reason }) => reason === 'speed')).toHaveLength(1);
  expect(sharesOf(all[0]!).at(-1)).toMatchObject({ shares: [4, 4], reason: 'overhead' });
  dispose(all);
});

test('a run emits speeds again only if one has changed by a tenth', async () => {
  const all = await counters([always(2), always(2), always(2), (step) => (step < 28 ? 8 : 9)]);
  await runGeneration(membersOf(all));
  const emitted = sharesOf(all[0]!).map(({ step, speeds, shares }) => [step, Math.round(speeds[3] ?? 0), shares[3]]);
  expect(emitted).toEqual([
    [0, 0, 4],
    [4, 125, 4],
    [20, 125, 1],
    [32, 111, 1],
  ]);
  dispose(all);
});

test.each([
  ['NaN', NaN],
  ['1e9', 1e-6],
])('a rank that reports the speed %s is named, and has no more than an equal share', async (_speed, msPerSample) => {
  const all = await counters([always(2), always(msPerSample), always(8)]);
  const { results } = await runGeneration(membersOf(all));
  for (const result of results) expect((result as RunResult).shares![1]).toBeLessThanOrEqual(4);
  for (const one of all) {
    const named = sharesOf(one).flatMap(({ impossible }) => impossible.map(({ rank }) => rank));
    expect(new Set(named)).toEqual(new Set([1]));
    expect(sharesOf(one).at(-1)).toMatchObject({ reason: 'speed', speeds: [500, null, 125] });
  }
  expectCountedOnce(membersOf(all));
  dispose(all);
});

test('a rank whose clock stands still or goes back has an unknown speed, and no more than an equal share', async () => {
  for (const ms of [0, -1]) {
    const all = await counters([always(2), always(ms), always(8)]);
    const { results } = await runGeneration(membersOf(all));
    for (const result of results) expect((result as RunResult).shares![1]).toBeLessThanOrEqual(4);
    for (const one of all) {
      expect(sharesOf(one).flatMap(({ impossible }) => impossible)).toEqual([]);
      expect(sharesOf(one).at(-1)).toMatchObject({ reason: 'speed', speeds: [500, null, 125] });
    }
    expectCountedOnce(membersOf(all));
    dispose(all);
  }
});

describe('shares stay equal, with one pass per batch,', () => {
  test.each([
    ['if speeds are similar', [2, 2.4], {}, {}, 'similar'],
    ['if the job says so', [2, 8], { balance: 'equal' }, {}, 'equal'],
    ['if the model has buffers, whose statistics depend on the batch', [2, 8], {}, { buffer: true }, 'equal'],
    ['if a batch has fewer than four samples', [2, 8], { batchSize: 3, maxSteps: 20 }, {}, 'equal'],
    ['with a strategy that is not elastic', [2, 8], { strategy: 'local-sgd', maxSteps: 20 }, {}, 'equal'],
  ] as const)('%s', async (_case, speeds, fields, options, reason) => {
    const all = await counters(
      speeds.map((ms) => always(ms)),
      fields,
      options,
    );
    const { results } = await runGeneration(membersOf(all));
    for (const result of results) expect(result).toMatchObject({ worldSize: 2 });
    for (const one of all) {
      expect(sharesOf(one).at(-1)).toMatchObject({ shares: [4, 4], reason });
      const { steps } = one.member.run;
      expect(one.passes).toHaveLength(steps);
    }
    if (reason === 'equal') expect(results[0]).not.toHaveProperty('shares');
    dispose(all);
  });
});

test.each([
  ['each size that steps may have, where shaders are compiled', 'webgpu', false, [[8, 2], [8], [3]]],
  ['one batch on the CPU', 'cpu', false, [[8], [8], [3]]],
  ['one sample on the CPU, if the task takes any size', 'wasm', true, [[1], [1], [1]]],
] as const)('the warm-up has a pass of %s', async (_, backend, takesAnySize, sizes) => {
  const warmUps: number[][] = [];
  for (const fields of [{}, { balance: 'equal' }, { batchSize: 3 }]) {
    const task = { ...createCountingTask({ samples: SAMPLES }), takesAnySize };
    const one = await timed(task, { ...PLAN, ...fields }, always(2), 0, backend);
    warmUps.push(one.warmUp);
    dispose([one]);
  }
  expect(warmUps).toEqual(sizes);
});

test('a run of one rank has no shares', async () => {
  const one = await counter(always(2));
  const { results } = await runGeneration([one.member]);
  expect(results[0]).not.toHaveProperty('shares');
  dispose([one]);
});
