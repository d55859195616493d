/** Ranks of elastic jobs that lose their place in the room, and return when the job is over. */
import { describe, expect, test } from 'vitest';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import type { ElasticOptions } from '../../src/library/elastic/elasticJob.ts';
import { ElasticState } from '../../src/library/elastic/elasticState.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { RunOverError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';
import { inEachTest, type ElasticWorld, type Tab } from './elasticWorld.ts';

let world: ElasticWorld;

inEachTest((one) => (world = one));

/** The server has removed a tab that is away for this time. */
const LONG_MS = 3_000;
/** A rank should know within this time that its job is over. */
const SOON_MS = 10_000;

interface Member {
  tab: Tab<string>;
  /** How often the server has admitted the tab. */
  admissions: number;
  /** World sizes of the calls of the function. */
  calls: number[];
  /** Lets the function return. */
  finish: () => void;
}

/** Starts a rank whose function returns after `finish`. */
function join(options: Partial<ElasticOptions>): Member {
  const state = new ElasticState({ step: 0 });
  const finish = createDeferred();
  const member: Member = { tab: null!, admissions: 0, calls: [], finish: finish.resolve };
  const main = async (_: unknown, group: ProcessGroup): Promise<string> => {
    member.calls.push(group.worldSize);
    const over = await Promise.race([group.failed.then((error) => error), finish.promise]);
    if (over) throw over;
    return 'done';
  };
  const onroom = (room: string): void => {
    world.room = room;
    member.admissions += 1;
  };
  member.tab = world.start({ ...options, onroom }, state, main);
  return member;
}

/** Starts `size` ranks; waits until all of them train. */
async function startAll(size: number, max = 4): Promise<Member[]> {
  const members = [join({ nodes: { min: 1, max }, worldSize: size })];
  await world.until('the room is open', () => world.room !== '');
  while (members.length < size) members.push(join({ room: world.room }));
  await world.until('all ranks train', () => members.every(({ calls }) => calls.at(-1) === size));
  return members;
}

/** Breaks a tab's connection to the server, which forgets the tab. */
async function lose({ tab }: Member, ...others: Member[]): Promise<void> {
  const before = others.map(({ calls }) => calls.length);
  Object.assign(tab.port, { isForgotten: true, isOffline: true });
  tab.port.cutServer();
  if (others.length === 0) return world.pass(LONG_MS);
  await world.until('the others train without it', () => others.every(({ calls }, i) => calls.length > before[i]!));
}

/** Lets a lost tab return; it has another id then. */
async function bringBack(member: Member): Promise<void> {
  member.tab.port.isOffline = false;
  await world.until('the rank is in the room again', () => member.admissions === 2);
}

const endings = (members: readonly Member[]): unknown[] => members.map(({ tab }) => tab.ended);

/** Returns how the job ends for `lost`, which should be soon. */
async function endingOf({ tab }: Member): Promise<unknown> {
  const before = world.clock.now();
  await world.over(tab);
  expect(world.clock.now() - before).toBeLessThan(SOON_MS);
  return tab.ended;
}

async function expectRunOver(lost: Member): Promise<void> {
  await endingOf(lost);
  const error = await errorOf(lost.tab.outcome);
  expect(error).toBeInstanceOf(RunOverError);
  expect(error.message).toBe(
    'The run ended without this tab, which had lost its place in the room: its connection to the server was broken. ' +
      'The tab still has the model of its last step. Save it, or take part in the next run.',
  );
}

describe('a rank that returns as a new member learns that the job has ended', () => {
  test.each([0, 1_000, 2_500, 4_000, 7_000])(
    'when it is away for %i ms, and the others finish after its return',
    async (ms) => {
      const [first, lost] = (await startAll(2)) as [Member, Member];
      Object.assign(lost.tab.port, { isForgotten: true, isOffline: true });
      lost.tab.port.cutServer();
      await world.pass(ms);
      await bringBack(lost);
      // If the room includes it in a generation, it takes part in the job again.
      for (const { finish } of [first, lost]) finish();
      await world.over(first.tab);
      expect(first.tab.ended).toEqual({ result: 'done' });
      if (lost.calls.length === 1) await expectRunOver(lost);
      else expect(await endingOf(lost)).toEqual({ result: 'done' });
    },
  );

  test.each([false, true])(
    'when the room was full at its return, and the others finish later (restart of the server: %s)',
    async (restarts) => {
      const [first, second, lost] = (await startAll(3, 3)) as [Member, Member, Member];
      await lose(lost, first, second);
      const late = join({ room: world.room });
      await world.until('the newcomer trains', () => late.calls.at(-1) === 3);
      if (restarts) {
        world.stopServer();
        world.startServer();
        await world.pass(LONG_MS);
      }
      await bringBack(lost);
      const rest = [first, second, late];
      for (const { finish } of rest) finish();
      await world.over(...rest.map(({ tab }) => tab));
      await expectRunOver(lost);
      expect(endings(rest)).toEqual([0, 1, 2].map(() => ({ result: 'done' })));
    },
  );

  test('when the room was full at its return, and the server restarts while the others finish', async () => {
    const [first, second, lost] = (await startAll(3, 3)) as [Member, Member, Member];
    await lose(lost, first, second);
    const late = join({ room: world.room });
    await world.until('the newcomer trains', () => late.calls.at(-1) === 3);
    await bringBack(lost);
    const rest = [first, second, late];
    world.stopServer();
    for (const { finish } of rest) finish();
    await world.pass(100);
    world.startServer();
    await world.over(...rest.map(({ tab }) => tab));
    await expectRunOver(lost);
  });

  test('when the others have finished, and one of them has not left yet', async () => {
    const [first, second, lost] = (await startAll(3)) as [Member, Member, Member];
    await lose(lost, first, second);
    second.finish();
    await world.pass(100);
    second.tab.port.isOffline = true;
    second.tab.port.cutServer();
    first.finish();
    await world.over(first.tab);
    await bringBack(lost);
    await expectRunOver(lost);
    second.tab.port.isOffline = false;
    expect(await endingOf(second)).toEqual({ result: 'done' });
  });

  test('when the others have finished and left', async () => {
    const [first, second, lost] = (await startAll(3)) as [Member, Member, Member];
    await lose(lost, first, second);
    for (const { finish } of [first, second]) finish();
    await world.over(first.tab, second.tab);
    await bringBack(lost);
    await expectRunOver(lost);
  });

  test('when the next job in the room has begun', async () => {
    const [first, lost] = (await startAll(2)) as [Member, Member];
    await lose(lost, first);
    first.finish();
    await world.over(first.tab);
    const next = [join({ room: world.room }), join({ room: world.room })];
    await world.until('the next job has begun', () => next.every(({ calls }) => calls.length === 1));
    await bringBack(lost);
    await expectRunOver(lost);
    for (const { finish } of next) finish();
    await world.over(...next.map(({ tab }) => tab));
    expect(endings(next)).toEqual([0, 1].map(() => ({ result: 'done' })));
  });
});

test('a rank whose function has returned resolves with the result when it returns as a new member', async () => {
  const [first, lost] = (await startAll(2)) as [Member, Member];
  lost.finish();
  await world.pass(100);
  await lose(lost);
  first.finish();
  await world.over(first.tab);
  await bringBack(lost);
  expect(await endingOf(lost)).toEqual({ result: 'done' });
});

test('a rank whose function has returned resolves with the result even if the server never answers again', async () => {
  const [first, second] = (await startAll(2)) as [Member, Member];
  second.finish();
  await world.pass(100);
  world.stopServer();
  await world.over(second.tab);
  expect(second.tab.ended).toEqual({ result: 'done' });
  first.finish();
  await world.over(first.tab);
});
