/** Newcomers of elastic jobs receive the latest commit while the others run their function. */
import * as tf from '@tensorflow/tfjs';
import { expect, test, vi } from 'vitest';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import type { ElasticOptions } from '../../src/library/elastic/elasticJob.ts';
import { ElasticState } from '../../src/library/elastic/elasticState.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { MismatchError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';
import { inEachTest, type ElasticWorld, type Tab } from './elasticWorld.ts';

const SIZE = 50_000;

let world: ElasticWorld;

inEachTest((one) => (world = one));

interface Member {
  tab: Tab<string>;
  state: ReturnType<typeof createState>;
  /** The commit with which each call of the function began: its step, weight, and world size. */
  begun: [step: number, weight: number, worldSize: number][];
  /** Kinds of the server's messages about generations and feeds. */
  heard: string[];
  finish: () => void;
}

function createState(size: number) {
  const weights = tf.tidy(() => tf.variable(tf.zeros([size])));
  const optimizer = createOptimizer('adam', { learningRate: 1 }, size);
  return new ElasticState({ model: [weights], optimizer, step: 0, log: new Map<number, string>() });
}

/** Joins; its function commits every 500 ms, until `finish`. */
function join({
  size = SIZE,
  min = 1,
  ...options
}: Partial<ElasticOptions> & { size?: number; min?: number } = {}): Member {
  const state = createState(size);
  const finish = createDeferred();
  let isOver = false;
  const member: Member = { tab: null!, state, begun: [], heard: [], finish: () => ((isOver = true), finish.resolve()) };
  const [weights] = state.model as [tf.Variable];
  const main = async (_: unknown, group: ProcessGroup): Promise<string> => {
    member.begun.push([state.step, weights.dataSync()[0]!, group.worldSize]);
    for (;;) {
      const [votes] = await group.allReduce(Float32Array.of(isOver ? 1 : 0));
      if (votes! > 0) return 'done';
      await new Promise<void>((resolve) => world.clock.after(500, resolve));
      state.step += 1;
      state.log.set(state.step, 'a step');
      tf.tidy(() => weights.assign(weights.add(1)));
      await state.commit();
    }
  };
  const opening = world.room === '' ? { nodes: { min, max: 4 }, worldSize: 2 } : { room: world.room };
  member.tab = world.start({ ...opening, ...options }, state, main);
  member.tab.port.isLost = (text) => {
    const { type } = JSON.parse(text) as { type: string };
    if (['feed', 'prepare', 'suspended'].includes(type)) member.heard.push(type);
    return false;
  };
  return member;
}

async function startTwo(min = 1): Promise<[Member, Member]> {
  const first = join({ min });
  await world.until('the room is open', () => world.room !== '');
  const second = join();
  await world.until('both have made steps', () => [first, second].every(({ state }) => state.step >= 3));
  return [first, second];
}

async function finishAll(...members: Member[]): Promise<void> {
  for (const { finish } of members) finish();
  await world.over(...members.map(({ tab }) => tab));
  for (const { state } of members) tf.dispose(state.model);
}

test('a newcomer has the state of the latest commit before it takes part', async () => {
  const [first, second] = await startTwo();
  const late = join();
  await world.until('the newcomer trains', () => late.begun.length === 1);
  expect(late.heard).toEqual(['feed', 'prepare']);
  const [step, weight, worldSize] = late.begun[0]!;
  expect([weight, worldSize, late.state.log.size]).toEqual([step, 3, step]);
  // The others were called again once, with the same commit.
  for (const { begun } of [first, second]) expect(begun).toEqual([[0, 0, 2], late.begun[0]]);
  await finishAll(first, second, late);
  expect([first, second, late].map(({ tab }) => tab.ended)).toEqual([0, 1, 2].map(() => ({ result: 'done' })));
});

test('a newcomer reports how much of the state it has received until it has the whole state', async () => {
  const [first, second] = await startTwo();
  const progress: { received: number; total: number; trains: boolean }[] = [];
  const late = join({
    onprogress: (received, total) => progress.push({ received, total, trains: late.begun.length > 0 }),
  });
  await world.until('the newcomer trains', () => late.begun.length === 1);
  const { total } = progress[0]!;
  // Parameters and two averages of Adam.
  expect(total).toBeGreaterThan(3 * 4 * SIZE);
  expect(progress[0]!.received).toBeLessThan(total);
  expect(progress.map(({ received }) => received)).toEqual(
    progress.map(({ received }) => received).toSorted((a, b) => a - b),
  );
  expect(progress.at(-1)).toEqual({ received: total, total, trains: false });
  await finishAll(first, second, late);
});

test('a newcomer takes part even if its progress callback throws; the error is reported', async () => {
  const reported: unknown[] = [];
  vi.stubGlobal('reportError', (error: unknown) => reported.push(error));
  const [first, second] = await startTwo();
  let calls = 0;
  const late = join({
    onprogress: () => {
      calls += 1;
      throw new RangeError('No bar.');
    },
  });
  await world.until('the newcomer trains', () => late.begun.length === 1);
  expect(late.heard).toEqual(['feed', 'prepare']);
  await finishAll(first, second, late);
  expect([first, second, late].map(({ tab }) => tab.ended)).toEqual([0, 1, 2].map(() => ({ result: 'done' })));
  expect(reported).toEqual(Array.from({ length: calls }, () => new RangeError('No bar.')));
  expect(calls).toBeGreaterThan(1);
});

test('a newcomer that receives the rest of the state after it has joined also reports when it has the whole state', async () => {
  const [first, second] = await startTwo(2);
  const progress: [number, number][] = [];
  const late = join({ onprogress: (...report) => progress.push(report) });
  await world.until('the newcomer receives', () => progress.length === 1);
  // The other rank needs the newcomer at once.
  first.tab.port.close();
  await world.until('the newcomer trains', () => late.begun.length === 1);
  expect(progress.at(-1)![0]).toBe(progress[0]![1]);
  await finishAll(second, late);
  first.finish();
  await world.over(first.tab);
  tf.dispose(first.state.model);
});

test('a newcomer asks for another feeder when its feeder leaves', async () => {
  const [first, second] = await startTwo();
  const late = join();
  await world.until('the newcomer has a feeder', () => late.heard.includes('feed'));
  first.tab.port.close();
  await world.until('the newcomer trains', () => late.begun.length > 0 && second.begun.length > 1);
  const [step, weight] = late.begun.at(-1)!;
  expect(weight).toBe(step);
  await finishAll(second, late);
  expect([second, late].map(({ tab }) => tab.ended)).toEqual([0, 1].map(() => ({ result: 'done' })));
  first.finish();
  await world.over(first.tab);
  tf.dispose(first.state.model);
});

test('a newcomer with a different model gets a MismatchError, and the other ranks continue', async () => {
  const [first, second] = await startTwo();
  const late = join({ size: SIZE + 1 });
  await world.over(late.tab);
  const error = await errorOf(late.tab.outcome);
  expect(error).toBeInstanceOf(MismatchError);
  tf.dispose(late.state.model);
  await finishAll(first, second);
  expect([first, second].map(({ tab }) => tab.ended)).toEqual([0, 1].map(() => ({ result: 'done' })));
});
