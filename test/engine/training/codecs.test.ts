/**
 * Runs with encoded gradients. Their losses are close to the losses of other runs, and ranks stay
 * equal when others join or leave.
 */
import { describe, expect, test } from 'vitest';
import { createJobTask } from '../../../src/engine/tasks/jobTask.ts';
import { loadData } from '../../../src/jobs/index.ts';
import { CODEC_NAMES, isElasticJob, parseJob, STRATEGIES } from '../../../src/spec/job.ts';
import { parsePlan } from '../../../src/spec/plan.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { relative, train } from '../train.ts';
import {
  COUNTING_PLAN,
  createCountingTask,
  createMember,
  isLoss,
  planOf,
  runGeneration,
  stepsOf,
  type Member,
} from '../worlds.ts';

function dispose(members: readonly Member[]): void {
  for (const member of members) member.dispose();
}

const ENCODED = CODEC_NAMES.filter((name) => name !== 'fp32');

describe('a run', () => {
  const fields = { batchSize: 4, maxSteps: 12, hashEvery: 4, hidden: 16, learningRate: 0.01 };
  /** The largest relative difference to the loss with fp32 after twelve steps. */
  const TOLERANCE = { fp32: 0, fp16: 0.001, int8: 0.02, powersgd: 0.5 };
  /**
   * The largest number of bytes, relative to fp32. Framing is a larger part of the bytes than
   * usual, because the model is small.
   */
  const SHARE = { fp32: 1, fp16: 0.52, int8: 0.28, powersgd: 0.4 };

  test.each(ENCODED)('with %s has nearly the loss of fp32, sends fewer bytes, and keeps ranks equal', async (codec) => {
    const [{ results: plain }, { results, events }] = [await train(3, fields), await train(3, { ...fields, codec })];
    const [a, b] = [results[0]!, plain[0]!];
    expect(new Set(a.stateHash).size).toBe(1);
    expect(relative(a.loss, b.loss)).toBeLessThan(TOLERANCE[codec]);
    expect(a.bytesSentPerRank[1]! / b.bytesSentPerRank[1]!).toBeLessThan(SHARE[codec]);
    expect(a.codec).toBe(codec);
    // Every sample is counted, although gradients are rounded.
    for (const event of events[0]!) if (event.type === 'step') expect(event.samples).toBe(12);
    if (codec === 'powersgd') return;
    // The sent bytes are the theoretical number, 2(n-1)/n gradients per step, plus framing.
    const theory = (4 / 3) * a.gradientBytes * a.steps;
    expect(a.bytesSentPerRank[1]! / theory).toBeGreaterThan(1);
    expect(a.bytesSentPerRank[1]! / theory).toBeLessThan(1.05);
  });

  // 240 steps are long on a busy machine.
  test(
    'with PowerSGD has nearly the loss of fp32, even if epochs end with a step of one sample',
    { timeout: 60_000 },
    async () => {
      const pass = { batchSize: 8, epochs: 20, maxSteps: null, hidden: 32, optimizer: 'sgd', learningRate: 0.05 };
      const lossBy = async (codec: string): Promise<number> => {
        // An epoch has five steps of 16 samples and one step of a single sample.
        const { results } = await train(2, { ...pass, codec }, { trainSize: 81, testSize: 100 });
        return results[0]!.valLoss!;
      };
      const plain = await lossBy('fp32');
      expect(relative(await lossBy('powersgd'), plain)).toBeLessThan(0.05);
    },
  );

  test('with diloco supports fp16 and int8 in its exchanges', async () => {
    const diloco = { ...fields, strategy: 'diloco', syncEvery: 4 };
    const { results: plain } = await train(3, diloco);
    for (const codec of ['fp16', 'int8'] as const) {
      const { results } = await train(3, { ...diloco, codec });
      expect(new Set(results[0]!.stateHash).size).toBe(1);
      expect(relative(results[0]!.loss, plain[0]!.loss)).toBeLessThan(0.05);
      expect(results[0]!.bytesSentPerRank[0]! / plain[0]!.bytesSentPerRank[0]!).toBeLessThan(SHARE[codec]);
    }
  });

  test('rejects codecs that its strategy does not support', () => {
    expect(() => parsePlan({ strategy: 'local-sgd', codec: 'int8' })).toThrow(UsageError);
    expect(() => parseJob({ strategy: 'diloco', codec: 'powersgd' })).toThrow(
      /ddp: all; diloco, streaming-diloco: fp32, fp16, int8; pipeline: fp32, fp16; others: fp32/,
    );
    for (const codec of CODEC_NAMES) expect(parsePlan({ codec }).codec).toBe(codec);
    expect(STRATEGIES['parameter-server'].codecs).toEqual(['fp32']);
  });
});

describe('when ranks join and leave', () => {
  const SAMPLES = 15;
  const counters = (n: number, codec: string): Promise<Member[]> =>
    Promise.all(
      Array.from({ length: n }, (_, i) =>
        createMember(`m${i}`, createCountingTask({ samples: SAMPLES }), { ...COUNTING_PLAN, codec }),
      ),
    );
  test.each(['fp16', 'int8'])(
    'every sample is applied once with %s, at whichever frame a rank is lost',
    async (codec) => {
      let late = 0;
      // The last of a step's 24 frames decide which ranks have applied the step. They contain the
      // tally.
      for (const frame of [0, 5, 13, 19, 20, 21, 22, 23, 24]) {
        const members = await counters(3, codec);
        const first = await runGeneration(members, { end: { rank: 2, step: 1, frame } });
        for (const result of first.results) expect(result instanceof Error ? isLoss(result) : true).toBe(true);
        const survivors = members.slice(0, 2);
        const applied = survivors.map(({ events }) => events.filter(({ type }) => type === 'step').length);
        if (applied[0] !== applied[1]) late += 1;
        const [newcomer] = await counters(1, codec);
        const all = [newcomer!, ...survivors];
        const { results } = await runGeneration(all);
        for (const result of results) expect(result).toMatchObject({ worldSize: 3 });
        expect(new Set(all.map(({ rank }) => rank.stateHash())).size).toBe(1);
        // When a sample is applied, its weight grows by 1 / (number of samples in its window).
        const weights = all[0]!.values();
        const total = weights.slice(0, SAMPLES).reduce((sum, weight) => sum + weight, 0);
        // Ninths and twelfths are rounded, but a missing sample would change the sum by a whole
        // ninth or twelfth.
        expect(total).toBeCloseTo(stepsOf(all).length, 3);
        dispose([...members, newcomer!]);
      }
      expect(late).toBeGreaterThan(0);
    },
  );

  test.each(['int8', 'powersgd'])('all ranks have the same model at the end with %s', async (codec) => {
    expect(isElasticJob(parseJob({ codec }))).toBe(true);
    const job = parseJob({ codec, batchSize: 4, maxSteps: 8, hashEvery: 2, hidden: 16 });
    const data = await loadData(job, { baseUrl: 'http://localhost/' });
    const cut = { ...data.test, size: 16, read: data.test.read.bind(data.test) };
    const make = async (name: string): Promise<Member> => {
      const task = await createJobTask(job, { train: data.train, test: cut }, 3);
      return createMember(name, task, planOf(job));
    };
    const members = await Promise.all(['a', 'b', 'c'].map(make));
    await runGeneration(members, { end: { rank: 1, step: 3, frame: 9 } });
    const joiner = await make('d');
    const all = [members[0]!, joiner, members[2]!];
    const { results } = await runGeneration(all);
    for (const result of results) {
      expect(result).toMatchObject({ steps: 8, worldSize: 3 });
      if (!(result instanceof Error)) expect(new Set(result.stateHash).size).toBe(1);
    }
    dispose([...members, joiner]);
  });
});
