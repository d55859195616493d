/** Runs with each algorithm of the all-reduce, and what they report about it. */
import { describe, expect, test } from 'vitest';
import { parseJob } from '../../../src/spec/job.ts';
import type { AlgorithmName } from '../../../src/spec/algorithms.ts';
import { relative, train } from '../train.ts';
import { COUNTING_PLAN, createCountingTask, createMember, runGeneration, type Member } from '../worlds.ts';

const FIELDS = { batchSize: 2, maxSteps: 3, hashEvery: 2, hidden: 16, learningRate: 0.01 };

describe('a run of six ranks', () => {
  const ALGORITHMS = ['ring', 'two-level', 'halving-doubling', 'doubling'] as const;

  test.each(ALGORITHMS)(
    'by %s has the loss of a run on the ring and equal states, and names its algorithm',
    async (algorithm) => {
      const { results: ring } = await train(6, { ...FIELDS, algorithm: 'ring' });
      const { results, events } = await train(6, { ...FIELDS, algorithm });
      const [first] = results;
      expect(new Set(first!.stateHash).size).toBe(1);
      expect(relative(first!.loss, ring[0]!.loss)).toBeLessThan(1e-5);
      for (const { algorithm: used } of results) expect(used).toBe(algorithm);
      for (const own of events) {
        const told = own.filter((event) => event.type === 'algorithm');
        expect(told).toEqual([{ type: 'algorithm', step: 0, algorithm }]);
      }
    },
  );

  test.each([
    ['ring', 'int8'],
    ['two-level', 'int8'],
    ['halving-doubling', 'fp16'],
  ] as const)('by %s with %s sends encoded bytes, and its states stay equal', async (algorithm, codec) => {
    const { results: plain } = await train(6, { ...FIELDS, algorithm });
    const { results } = await train(6, { ...FIELDS, algorithm, codec });
    expect(new Set(results[0]!.stateHash).size).toBe(1);
    expect(relative(results[0]!.loss, plain[0]!.loss)).toBeLessThan(0.02);
    const share = results[0]!.bytesSentPerRank[1]! / plain[0]!.bytesSentPerRank[1]!;
    expect(share).toBeLessThan(codec === 'int8' ? 0.4 : 0.6);
    expect(results[0]).toMatchObject({ algorithm, codec });
  });
});

/** Trains nine ranks for one step, and returns the algorithm that the result names. */
async function usedBy(algorithm: AlgorithmName): Promise<string> {
  const { results } = await train(9, { ...FIELDS, maxSteps: 1, batchSize: 1, algorithm });
  return results[0]!.algorithm;
}

test('a run of nine ranks uses the ring if its job says so, and another algorithm with auto', async () => {
  expect(await usedBy('ring')).toBe('ring');
  expect(await usedBy('auto')).not.toBe('ring');
});

test('a run of one rank names no algorithm, because it sends nothing', async () => {
  const { results } = await train(1, FIELDS);
  expect(results[0]!.algorithm).toBe('none');
});

test('a run with the two-level algorithm continues on the ring when its world size becomes prime', async () => {
  const plan = { ...COUNTING_PLAN, algorithm: 'two-level' as const };
  const members: Member[] = await Promise.all(
    Array.from({ length: 4 }, (_, i) => createMember(`m${i}`, createCountingTask({ samples: 40 }), plan)),
  );
  await runGeneration(members, { end: { rank: 3, step: 1, frame: 0 } });
  const survivors = members.slice(0, 3);
  const { results } = await runGeneration(survivors);
  for (const result of results) expect(result).toMatchObject({ worldSize: 3, algorithm: 'ring' });
  const used = survivors[0]!.events.flatMap((event) => (event.type === 'algorithm' ? [event.algorithm] : []));
  expect(used).toEqual(['two-level', 'ring']);
  for (const member of members) member.dispose();
});

const counter = (name: string): Promise<Member> =>
  createMember(name, createCountingTask({ samples: 40 }), { ...COUNTING_PLAN, maxSteps: 2 });

test('a run that takes no step in its last generation names the algorithm of the previous generation', async () => {
  const members: Member[] = await Promise.all(['a', 'b', 'c'].map(counter));
  await runGeneration(members);
  const late = await counter('late');
  const { results } = await runGeneration([...members.slice(0, 2), late]);
  const used = results.map((result) => (result instanceof Error ? result : result.algorithm));
  // The newcomer has sent no gradients in any world.
  expect(used).toEqual(['ring', 'ring', 'none']);
  for (const member of [...members, late]) member.dispose();
});

test('a job with doubling rejects codecs that would round differently on each rank', () => {
  for (const codec of ['fp16', 'int8', 'auto']) {
    expect(() => parseJob({ algorithm: 'doubling', codec })).toThrow(/the algorithm doubling supports only the codecs/);
  }
  expect(parseJob({ algorithm: 'doubling', codec: 'powersgd' }).codec).toBe('powersgd');
});
