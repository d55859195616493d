/** Runs with a pipeline that continue after ranks were lost. Memory links, the CPU backend. */
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { StageStep } from '../../../src/engine/pipeline/stageStep.ts';
import { TrainingLoop } from '../../../src/engine/training/trainingLoop.ts';
import { createGptPipelineTask } from '../../../src/engine/pipeline/pipelineTask.ts';
import { writeFables } from '../../../src/jobs/gpt/fables.ts';
import { textInMemory } from '../../../src/jobs/gpt/text.ts';
import { createCorpus } from '../../../src/jobs/index.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import type { RunResult } from '../../../src/protocol/runResult.ts';
import { DEFAULT_JOB, parseJob } from '../../../src/spec/job.ts';
import { DataError } from '../../../src/util/errors.ts';
import { createRng } from '../../../src/util/rng.ts';
import { areContiguous, countedOnce, isLoss, runGeneration, stepsOf, type Member, type Step } from '../worlds.ts';
import { createCounter, ENVIRONMENT, LAYERS, type CountingMember } from './countingPipeline.ts';

const SAMPLES = 15;
const MICRO_BATCHES = 2;

type Fields = Omit<Parameters<typeof createCounter>[1], 'samples'> & { samples?: number };

const counters = (n: number, fields: Fields): Promise<CountingMember[]> =>
  Promise.all(Array.from({ length: n }, (_, i) => createCounter(`m${i}`, { samples: SAMPLES, ...fields })));

type LanguageMember = Pick<Member, 'run' | 'listen' | 'values'> & { rank: StageStep };

/** Members that train a language model. */
async function languageModels(names: readonly string[], fields: Record<string, unknown>): Promise<LanguageMember[]> {
  const job = parseJob(fields);
  const text = textInMemory(writeFables().slice(0, 900));
  return Promise.all(
    names.map(async () => {
      const task = createGptPipelineTask(job, await createCorpus(text, job.gpt));
      let heard: ((event: EngineEvent) => void) | null = null;
      const emit = (event: EngineEvent): void => heard?.(event);
      const options = { ...ENVIRONMENT, emit, plan: job };
      const rank = await StageStep.prepare({ ...options, task });
      const run = new TrainingLoop(rank, options);
      return { rank, run, listen: (hear: (event: EngineEvent) => void) => void (heard = hear), values: () => [] };
    }),
  );
}

const dispose = (members: readonly CountingMember[]): void => {
  for (const member of members) member.dispose();
};

/** Expects that each layer has learned each sample of each epoch once, and no layer is lost. */
function expectCountedOnce(members: readonly CountingMember[], samples = SAMPLES, steps = stepsOf(members)): void {
  expect(areContiguous(steps, samples)).toBe(true);
  const expected = countedOnce(steps, samples);
  const found = new Set<number>();
  for (const member of members) {
    for (const [index, { counts, passes }] of member.layers()) {
      found.add(index);
      expect(counts, `layer ${index} of ${member.name}`).toEqual(expected);
      if (passes !== null) expect(passes).toBe(MICRO_BATCHES * steps.length);
    }
  }
  expect(found.size).toBe(LAYERS);
}

function expectEqualHashes(results: readonly unknown[]): void {
  for (const result of results) expect(result).not.toBeInstanceOf(Error);
  const hashes = results.flatMap((result) => (result as { stateHash: string[] }).stateHash);
  expect(new Set(hashes).size).toBe(1);
}

test.each([
  ['rank 0 of a chain', 0, false],
  ['rank 1 of a chain', 1, false],
  ['rank 0 of a ring', 0, true],
  ['rank 2 of a ring', 2, true],
] as const)(
  'a run continues without %s, at whichever frame of the run this rank is lost',
  async (_name, rank, ring) => {
    for (let frame = 3 * rank; ; frame += 29) {
      const members = await counters(3, { stages: 3, ring });
      const { isBroken, results } = await runGeneration(members, { end: { rank, frame } });
      if (!isBroken) {
        expectEqualHashes(results);
        expectCountedOnce(members);
        dispose(members);
        expect(frame).toBeGreaterThan(200);
        return;
      }
      for (const result of results) expect(result instanceof Error ? isLoss(result) : true).toBe(true);
      const survivors = members.filter((_member, i) => i !== rank);
      const second = await runGeneration(survivors);
      for (const result of second.results) expect(result).toMatchObject({ worldSize: 2, pipeline: { stages: 2 } });
      expectEqualHashes(second.results);
      expectCountedOnce(survivors);
      dispose(members);
    }
  },
  120_000,
);

test('a rank that has missed a step applies this step if other ranks have applied it', async () => {
  let late = 0;
  // Whether a survivor misses the step depends on the order in which the event loop delivers the
  // last frames. That is so at one to three frames of nearly every round.
  for (let round = 0; late === 0 && round < 5; round++) {
    for (const rank of [0, 1, 2]) {
      // Ranks agree on the step in these frames.
      for (let frame = 16; frame < 32; frame++) {
        const members = await counters(3, { stages: 3 });
        await runGeneration(members, { end: { rank, step: 1, frame } });
        const survivors = members.filter((_member, i) => i !== rank);
        const [a, b] = survivors.map(({ run }) => run.steps);
        if (a !== b) late += 1;
        const { entered, results } = await runGeneration(survivors);
        for (const one of entered) expect(one!.step).toBe(Math.max(a!, b!));
        expectEqualHashes(results);
        expectCountedOnce(survivors);
        dispose(members);
      }
    }
  }
  expect(late).toBeGreaterThan(0);
}, 120_000);

test('a run continues if ranks are lost while layers move between ranks', async () => {
  for (let frame = 0; ; frame += 13) {
    const members = await counters(4, { stages: 4 });
    await runGeneration(members, { end: { rank: 3, step: 1, frame: 20 } });
    const three = members.slice(0, 3);
    const { isBroken } = await runGeneration(three, { end: { rank: 1, frame } });
    // The rank that was disconnected returns, so no layer is lost.
    const { results } = await runGeneration(isBroken ? [three[2]!, three[1]!, three[0]!] : three);
    expectEqualHashes(results);
    expectCountedOnce(three);
    const steps = stepsOf(three).length;
    dispose(members);
    if (steps > 0 && frame > 250) return;
  }
}, 120_000);

test('no sample is skipped or repeated in 20 random schedules of lost, returning and new ranks', async () => {
  const before = tf.memory().numTensors;
  let moved = 0;
  for (let seed = 0; seed < 20; seed++) {
    const rng = createRng(seed);
    const fields = { stages: 2 + rng.below(3), ring: rng.below(2) === 0, epochs: 2, samples: 30 };
    let present = await counters(3 + rng.below(2), fields);
    const everyone = [...present];
    // A step that only lost ranks have applied is taken again, and replaces the former one.
    const history = new Map<number, Step>();
    for (let generation = 0; ; generation++) {
      const told = new Map(present.map((member) => [member, member.events.length]));
      const end =
        generation < 5 ? { rank: rng.below(present.length), step: 1 + 2 * generation, frame: rng.below(90) } : null;
      const { results, isBroken } = await runGeneration(present, { end, delays: rng.below(2) === 0 ? rng : null });
      for (const member of present) {
        for (const event of member.events.slice(told.get(member)))
          if (event.type === 'step') history.set(event.step, event);
      }
      if (!isBroken) {
        expectEqualHashes(results);
        break;
      }
      for (const result of results) expect(result instanceof Error ? isLoss(result) : true).toBe(true);
      // One rank at most is lost at a time, so that its neighbour has a copy of its layers.
      if (present.length > 2 && rng.below(2) === 0) present.splice(end!.rank, 1);
      if (rng.below(2) === 0) {
        const joiner = await createCounter(`j${generation}`, fields);
        everyone.push(joiner);
        present.splice(rng.below(present.length + 1), 0, joiner);
      }
      if (rng.below(3) === 0) present = [...present.slice(1), present[0]!];
      moved += 1;
    }
    const steps = [...history.values()].sort((a, b) => a.step - b.step);
    expectCountedOnce(present, fields.samples, steps);
    dispose(everyone);
  }
  expect(moved).toBeGreaterThan(50);
  expect(tf.memory().numTensors).toBe(before);
}, 120_000);

test('two replicas continue as one longer pipeline when a rank is lost, and as two again when a rank joins', async () => {
  const members = await counters(4, { stages: 2, epochs: 2 });
  await runGeneration(members, { end: { rank: 1, step: 1, frame: 30 } });
  const three = [members[0]!, ...members.slice(2)];
  await runGeneration(three, { end: { rank: 0, step: 2, frame: 30 } });
  const last = await createCounter('new', { stages: 2, epochs: 2, samples: SAMPLES });
  const all = [...three, last];
  const { results } = await runGeneration(all);
  for (const result of results) expect(result).toMatchObject({ pipeline: { stages: 2, replicas: 2 } });
  expectEqualHashes(results);
  expectCountedOnce(all);
  dispose([...members, last]);
});

test('if a rank and its right neighbour are lost, the error names the lost layers', async () => {
  const members = await counters(4, { stages: 4 });
  await runGeneration(members, { end: { rank: 1, step: 1, frame: 10 } });
  const { results } = await runGeneration([members[0]!, members[3]!]);
  for (const result of results) {
    expect((result as Error).message).toMatch(
      /The layers count1(, count2)? are lost after step [12], because the tabs that held these layers/,
    );
  }
  dispose(members);
});

test('a run waits for more tabs if the model does not fit in the remaining tabs', async () => {
  // A layer needs 240 bytes: with three tabs, each has at most two of the five layers.
  const fields = { stages: 3, tabBytes: 500 };
  const members = await counters(3, fields);
  await runGeneration(members, { end: { rank: 2, step: 1, frame: 40 } });
  const two = members.slice(0, 2);
  const waiting = runGeneration(two, {
    until: () => two.every(({ events }) => events.some(({ type }) => type === 'note')),
  });
  expect((await waiting).results.every((result) => result instanceof Error)).toBe(true);
  const notes = two[0]!.events.flatMap((event) => (event.type === 'note' ? [event.message] : []));
  expect(notes).toEqual([expect.stringContaining('It fits in 3 stages')]);
  const joiner = await createCounter('new', { samples: SAMPLES, ...fields });
  const { results } = await runGeneration([...two, joiner]);
  expectEqualHashes(results);
  expectCountedOnce([...two, joiner]);
  dispose([...members, joiner]);
});

test('a model that does not fit in the tabs of a run is rejected before the run', async () => {
  const members = await counters(2, { stages: 2, tabBytes: 500 });
  const { results } = await runGeneration(members);
  for (const result of results) {
    expect((result as Error).message).toContain(
      'The model does not fit in 2 stages: rank 1 with the layers count2, count3, count4',
    );
  }
  dispose(members);
});

test('a run ends with the bits of an undisturbed run if a new rank takes the place of a lost one', async () => {
  const gpt = { ...DEFAULT_JOB.gpt, layers: 2, heads: 1, width: 8, context: 4, dropout: 0.1 };
  const fields = {
    job: 'gpt',
    gpt,
    optimizer: 'adamw',
    strategy: 'pipeline',
    stages: 3,
    batchSize: 1,
    microBatches: 3,
    maxSteps: 5,
    hashEvery: 2,
  };
  const undisturbed = await languageModels(['a', 'b', 'c'], fields);
  const { results: expected } = await runGeneration(undisturbed);
  const [a, b, c, d] = (await languageModels(['a', 'b', 'c', 'd'], fields)) as [LanguageMember, ...LanguageMember[]];
  await runGeneration([a, b!, c!], { end: { rank: 1, step: 2, frame: 25 } });
  const { results } = await runGeneration([a, d!, c!]);
  const hashes = results.map((result) => (result as RunResult).stateHash);
  expect(hashes).toEqual(expected.map((result) => (result as RunResult).stateHash));
  expect((results[0] as RunResult).losses).toEqual((expected[0] as RunResult).losses);
  for (const { rank } of [...undisturbed, a, b!, c!, d!]) rank.dispose();
}, 60_000);

test('a rank that lacks the latest step applies this step even if the new first rank joined after the step', async () => {
  let late = 0;
  for (const rank of [0, 1, 2, 3]) {
    for (let frame = 12; frame < 40; frame++) {
      const members = await counters(4, { stages: 2 });
      await runGeneration(members, { end: { rank, step: 1, frame } });
      const most = Math.max(...members.map(({ run }) => run.steps));
      const [behind, ahead] = [
        members.filter(({ run }) => run.steps < most),
        members.filter(({ run }) => run.steps === most),
      ];
      // Two ranks have both stages if their places differ in the pipeline.
      const stages = new Set(ahead.map((member) => members.indexOf(member) % 2));
      if (behind.length === 0 || stages.size < 2) {
        dispose(members);
        continue;
      }
      late += 1;
      const joiner = await createCounter('new', { stages: 2, samples: SAMPLES });
      const first = [joiner, ...ahead];
      await runGeneration(first, { until: () => joiner.events.some(({ type }) => type === 'pipeline') });
      const all = [...first, ...behind];
      const { results } = await runGeneration(all);
      expectEqualHashes(results);
      expectCountedOnce(all);
      dispose(all);
      if (late === 3) return;
    }
  }
  expect(late).toBeGreaterThan(0);
}, 120_000);

test('a file that differs on one rank is named on all ranks, and only this rank gets a DataError', async () => {
  const members = await Promise.all(
    [5, 5, 6].map((crc, i) => {
      const contents = { stated: null, crcs: new Map([[4, crc]]), nameOf: (file: number) => `cats/${file}.png` };
      return createCounter(`m${i}`, { samples: SAMPLES, stages: 3, contents });
    }),
  );
  const { results } = await runGeneration(members);
  for (const { message } of results as Error[]) {
    expect(message).toMatch(/^cats\/4\.png .*rank 0 .*rank 1 .*rank 2 \(CRC-32 00000006\)/);
  }
  expect(results.map((error) => error instanceof DataError)).toEqual([false, false, true]);
  dispose(members);
});
