/** Newcomers of elastic jobs receive the latest commit beside the functions of the others. */
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { ElasticState } from '../../src/library/elastic/elasticState.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { deferred } from '../../src/util/deferred.ts';
import { MismatchError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';
import { ElasticWorld, type Tab } from './elasticWorld.ts';

const SIZE = 50_000;

let world: ElasticWorld;

beforeEach(async () => {
  await tf.setBackend('cpu');
  vi.stubGlobal('addEventListener', () => {});
  vi.stubGlobal('removeEventListener', () => {});
  world = new ElasticWorld();
});

afterEach(() => {
  vi.unstubAllGlobals();
  world.stopServer();
});

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
function join(size = SIZE): Member {
  const state = createState(size);
  const finish = deferred();
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
  const opening = world.room === '' ? { nodes: { min: 1, max: 4 }, worldSize: 2 } : { room: world.room };
  member.tab = world.start(opening, state, main);
  member.tab.port.isLost = (text) => {
    const { type } = JSON.parse(text) as { type: string };
    if (['feed', 'prepare', 'suspended'].includes(type)) member.heard.push(type);
    return false;
  };
  return member;
}

async function startTwo(): Promise<[Member, Member]> {
  const first = join();
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

test('a newcomer has the latest commit before it takes part', async () => {
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

test('a newcomer with another model is named, and the others continue', async () => {
  const [first, second] = await startTwo();
  const late = join(SIZE + 1);
  await world.over(late.tab);
  const error = await errorOf(late.tab.outcome);
  expect(error).toBeInstanceOf(MismatchError);
  tf.dispose(late.state.model);
  await finishAll(first, second);
  expect([first, second].map(({ tab }) => tab.ended)).toEqual([0, 1].map(() => ({ result: 'done' })));
});
