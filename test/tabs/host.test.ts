/** What a room's host may do, in real tabs. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Tab, World } from './world.ts';

vi.setConfig({ testTimeout: 120_000 });

let world: World;
beforeAll(async () => {
  world = await World.start();
}, 120_000);
afterAll(async () => {
  await world.reset();
  await world.stop();
});

const button = (tab: Tab, name: string) => tab.page.getByRole('button', { name, exact: true });

test('a host locks its room, is its host again after closing the tab, removes a member and stops the run', async () => {
  const ann = await world.open('#new?name=ann');
  await button(ann, 'Open the room').click();
  const { room } = await ann.event('admitted');
  const ben = await world.join(room, 'ben');
  await ann.event('room', ({ members }) => members.length === 2 && members.every(({ device }) => device !== null));
  await button(ann, 'Lock the room').click();
  await ben.page.getByText('Locked: nobody else can join.').waitFor();
  expect((await (await world.join(room, 'cid')).event('failed')).message).toMatch(/^This room is locked/);
  expect(await button(ben, 'Unlock the room').count()).toBe(0);

  await button(ann, 'Start').click();
  await ben.event('step');
  await ann.page.close();
  const again = await world.open(`#${room}?name=ann&auto`, { beside: ann });
  const { member } = await again.event('admitted');
  await again.event('room', ({ hosts }) => hosts.includes(member));
  await again.event('epoch', ({ worldSize }) => worldSize === 2);
  await again.event('step');

  await button(again, 'Remove ben').click();
  const question = again.page.getByRole('group', { name: 'Remove ben?' });
  await question.getByRole('button', { name: 'Keep' }).click();
  await button(again, 'Remove ben').click();
  await question.getByRole('button', { name: 'Remove' }).click();
  expect((await ben.event('failed')).message).toMatch(/^The host has sent this tab out/);
  await again.event('epoch', ({ worldSize }) => worldSize === 1);

  await button(again, 'Stop the run').click();
  await button(again, 'Stop').click();
  expect((await again.event('failed')).message).toBe('The host has stopped the run.');
});
