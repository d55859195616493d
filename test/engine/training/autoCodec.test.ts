/**
 * Runs that choose their codec. The choice is the same on all ranks and happens before the same
 * step. In another world ranks choose again.
 */
import { expect, test } from 'vitest';
import { CODEC_NAMES, parseJob } from '../../../src/spec/job.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { train } from '../train.ts';
import { COUNTING_PLAN, createCountingTask, createMember, runGeneration } from '../worlds.ts';

const FIELDS = { batchSize: 4, maxSteps: 8, hashEvery: 4, hidden: 8, learningRate: 0.01 };

test('all ranks choose the same codec before the same step, report the reason, and have equal states', async () => {
  const { results, events } = await train(3, { ...FIELDS, codec: 'auto' });
  expect(new Set(results[0]!.stateHash).size).toBe(1);
  const choices = events.map((own) => own.filter((event) => event.type === 'codec'));
  for (const own of choices) {
    expect(own).toHaveLength(1);
    // Ranks choose as soon as the measurements are clear, and after four steps at the latest.
    expect(own[0]!.step).toBeGreaterThanOrEqual(1);
    expect(own[0]!.step).toBeLessThanOrEqual(4);
    expect(own[0]).toEqual(choices[0]![0]);
  }
  const { choice } = choices[0]![0]!;
  expect(CODEC_NAMES).toContain(choice.codec);
  for (const result of results) expect(result).toMatchObject({ codec: choice.codec, choice });
});

test('a single rank chooses no codec', async () => {
  const { results, events } = await train(1, { ...FIELDS, codec: 'auto' });
  expect(events[0]!.some(({ type }) => type === 'codec')).toBe(false);
  expect(results[0]!.codec).toBe('fp32');
});

test('a codec that the job names is not changed', async () => {
  const { events, results } = await train(2, { ...FIELDS, codec: 'int8' });
  expect(events[0]!.some(({ type }) => type === 'codec')).toBe(false);
  expect(results[0]!).toMatchObject({ codec: 'int8' });
});

test('only ddp chooses a codec', () => {
  expect(() => parseJob({ strategy: 'diloco', codec: 'auto' })).toThrow(UsageError);
  expect(parseJob({ codec: 'auto' }).codec).toBe('auto');
});

test('ranks choose a codec again when the world changes, and their states stay equal', async () => {
  const plan = { ...COUNTING_PLAN, codec: 'auto' };
  const members = await Promise.all(
    Array.from({ length: 3 }, (_, i) => createMember(`m${i}`, createCountingTask({ samples: 80 }), plan)),
  );
  try {
    expect((await runGeneration(members, { end: { rank: 2, step: 6, frame: 5 } })).isBroken).toBe(true);
    const { results } = await runGeneration(members.slice(0, 2));
    const chosenAt = members.map(({ events }) => events.filter(({ type }) => type === 'codec').length);
    expect(chosenAt).toEqual([2, 2, 1]);
    for (const result of results) expect(result).not.toBeInstanceOf(Error);
    expect(members[0]!.values()).toEqual(members[1]!.values());
    expect(members[0]!.run.steps).toBe(members[1]!.run.steps);
  } finally {
    for (const member of members) member.dispose();
  }
});
