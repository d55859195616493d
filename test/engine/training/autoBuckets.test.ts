/**
 * Runs that choose the size of buckets: the same on all ranks, before the same step, and again in
 * another world.
 */
import * as tf from '@tensorflow/tfjs';
import { beforeAll, expect, test } from 'vitest';
import { COUNTING_PLAN, createCountingTask, createMember, runGeneration, type Member } from '../worlds.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

const PLAN = { ...COUNTING_PLAN, codec: 'auto' };
/** Most steps of a world until it has chosen both. */
const CHOSEN_BY = 8;

const createMembers = (n: number, plan: Record<string, unknown>): Promise<Member[]> =>
  Promise.all(Array.from({ length: n }, (_, i) => createMember(`m${i}`, createCountingTask({ samples: 160 }), plan)));
const choicesOf = ({ events }: Member) =>
  events.flatMap((event) => (event.type === 'model' && event.bucketChoice ? [event.bucketChoice] : []));
/** Choices of a codec whose buckets are timed. Those of PowerSGD are not. */
const timedOf = ({ events }: Member) =>
  events.filter((event) => event.type === 'codec' && event.choice.codec !== 'powersgd').length;

test('ranks choose the same bucket size with the codec, again in another world, and stay equal', async () => {
  const all = await createMembers(3, PLAN);
  try {
    expect((await runGeneration(all, { end: { rank: 2, step: CHOSEN_BY + 2, frame: 5 } })).isBroken).toBe(true);
    const { results } = await runGeneration(all.slice(0, 2));
    const choices = all.map(choicesOf);
    expect(choices.map(({ length }) => length)).toEqual(all.map(timedOf));
    expect(choices[1]).toEqual(choices[0]);
    expect(choices[2]).toEqual(choices[0]!.slice(0, choices[2]!.length));
    for (const result of results) expect(result).not.toBeInstanceOf(Error);
    expect(all[0]!.values()).toEqual(all[1]!.values());
  } finally {
    for (const member of all) member.dispose();
  }
});

test.each([
  ['alone', 1, PLAN],
  ['where the codec is named, as rounding is to be the same from run to run,', 2, COUNTING_PLAN],
])('with %s, the bucket size is not chosen', async (_, n, plan) => {
  const all = await createMembers(n, plan);
  try {
    await runGeneration(all);
    expect(all.map(choicesOf)).toEqual(all.map(() => []));
  } finally {
    for (const member of all) member.dispose();
  }
});
