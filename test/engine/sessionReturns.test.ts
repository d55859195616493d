/** Tabs that lose their place in the room during a run, and return with another id. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectOneModel, JOB, LONG, SessionWorld, type Tab } from './sessionWorld.ts';

let world: SessionWorld;
beforeEach(() => {
  world = new SessionWorld();
});
afterEach(() => world.close());

const ENDLESS = { ...LONG, maxSteps: 10_000 };
const LOST = { type: 'failed', name: 'RunOverError', fatal: false, notice: { code: 'lost-place' } };

/** Loses `lost`; resolves when `others` train without it. */
async function lose(lost: Tab, others: readonly Tab[]): Promise<void> {
  const size = others.length;
  lost.lose();
  await world.until('the others train without it', () =>
    others.every((tab) => tab.last('generation')!.worldSize === size),
  );
}

async function bringBack(lost: Tab): Promise<void> {
  lost.bringBack();
  await world.until('it is in the room again', () => lost.all('admitted').length === 2);
}

describe('a rank that returns as a new member learns that its run has ended without it', () => {
  test('when the host has stopped the run', async () => {
    const [ada, bo] = (await world.run(['Ada', 'Bo'], { job: ENDLESS, steps: 3 })) as [Tab, Tab];
    await lose(bo, [ada]);
    ada.command({ type: 'stop' });
    await world.failed(ada);
    await bringBack(bo);
    expect(await world.failed(bo)).toMatchObject(LOST);
    expect(bo.finished).toBe(0);
    await world.counted([ada, bo]);
    ada.command({ type: 'configure', job: JOB });
    ada.command({ type: 'start' });
    await world.finished([ada, bo]);
    expectOneModel([ada, bo]);
    expect(bo.all('failed')).toHaveLength(1);
  });

  test('when the others have finished and left', async () => {
    const [ada, bo] = (await world.run(['Ada', 'Bo'], { job: LONG, steps: 3 })) as [Tab, Tab];
    await lose(bo, [ada]);
    await world.finished([ada]);
    ada.command({ type: 'leave' });
    await bringBack(bo);
    expect(await world.failed(bo)).toMatchObject(LOST);
  });

  test('when the next run has begun', async () => {
    const [ada, bo, cy] = (await world.run(['Ada', 'Bo', 'Cy'], { job: ENDLESS, steps: 3 })) as [Tab, Tab, Tab];
    await lose(bo, [ada, cy]);
    ada.command({ type: 'stop' });
    await world.failed(ada);
    ada.command({ type: 'start' });
    await world.until('the next run is on', () => ada.last('generation')!.run > bo.last('generation')!.run);
    await bringBack(bo);
    expect(await world.failed(bo)).toMatchObject(LOST);
    await world.until('it takes part', () => bo.last('generation')!.run === ada.last('generation')!.run);
    expect(bo.all('failed')).toHaveLength(1);
  });

  test('when the room was full at its return, and the host stops the run later', async () => {
    const room = world.openRoom({ job: ENDLESS, startAt: 3, nodes: { min: 1, max: 3 } });
    const [ada, bo, cy, dan] = ['Ada', 'Bo', 'Cy', 'Dan'].map((name) => world.tab(name)) as [Tab, Tab, Tab, Tab];
    for (const tab of [ada, bo, cy]) tab.join(room);
    await world.stepped([ada, bo, cy], 3);
    await lose(bo, [ada, cy]);
    dan.join(room);
    await world.until('the newcomer trains', () => dan.step >= 0);
    await bringBack(bo);
    await world.pass(1_000);
    expect(bo.all('failed')).toEqual([]);
    const host = [ada, cy, dan].find(({ member }) => ada.last('room')!.hosts.includes(member))!;
    host.command({ type: 'stop' });
    expect(await world.failed(bo)).toMatchObject({ name: 'RunOverError', message: 'The host has stopped the run.' });
  });
});

test('a rank that returns as a new member takes part again if its run continues', async () => {
  const [ada, bo, cy] = (await world.run(['Ada', 'Bo', 'Cy'], { job: ENDLESS, steps: 3 })) as [Tab, Tab, Tab];
  await lose(bo, [ada, cy]);
  await bringBack(bo);
  await world.until('it takes part', () => ada.last('generation')!.worldSize === 3);
  expect(bo.all('failed')).toEqual([]);
  ada.command({ type: 'stop' });
  expect(await world.failed(bo)).toMatchObject({ message: (await world.failed(ada)).message });
});

test('a rank that returns as a new member has the result of its run if it has trained to the end', async () => {
  const [ada, bo] = (await world.run(['Ada', 'Bo'], { job: LONG, steps: 3 })) as [Tab, Tab];
  bo.hearNoEnd();
  await world.finished([ada]);
  bo.lose();
  await world.pass(3_000);
  expect(bo.finished).toBe(0);
  await bringBack(bo);
  await world.finished([bo]);
  expect(bo.all('failed')).toEqual([]);
  expectOneModel([ada, bo]);
});
