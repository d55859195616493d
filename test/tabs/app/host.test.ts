/** What a host can do in a room, in real tabs. */
import { expect, test, vi } from 'vitest';
import { formatRoomCode } from '../../../src/protocol/roomCode.ts';
import { type Tab, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 120_000 });

const world = await worldOfFile();

const button = (tab: Tab, name: string) => tab.page.getByRole('button', { name, exact: true });

/** Starts a run while the lobby is scrolled. Expects that the run's page opens at its top. */
async function startFromBottom(host: Tab): Promise<void> {
  await host.page.setViewportSize({ width: 1280, height: 400 });
  await host.page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await button(host, 'Start').click();
  await host.page.getByRole('heading', { name: 'Training' }).waitFor();
  expect(await host.page.evaluate(() => scrollY)).toBe(0);
}

test('the host locks the room, is still host after reopening its tab, removes a member, and stops the run', async () => {
  const ann = await world.open('#new?name=ann&epochs=1000');
  await button(ann, 'Open the room').click();
  const { room } = await ann.event('admitted');
  const ben = await world.join(room, 'ben');
  await ann.event('room', ({ members }) => members.length === 2 && members.every(({ device }) => device !== null));
  await ann.page.setViewportSize({ width: 1280, height: 720 });
  const { y, height } = (await button(ann, 'Start').boundingBox())!;
  expect(y + height).toBeLessThan(720);
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
  await again.event('generation', ({ worldSize }) => worldSize === 2);
  await again.event('step');
  // The lobby is shown first and also has a button with this name, so wait for the training page.
  await again.page.getByRole('heading', { name: 'Training' }).waitFor();

  await again.page.getByRole('button', { name: /^Invite:/ }).click();
  const invitation = again.page.getByRole('dialog', { name: 'Invite' });
  await invitation.getByRole('img', { name: new RegExp(`QR code of http.*#${formatRoomCode(room)}$`) }).waitFor();
  await invitation.getByText('Locked: nobody else can join.').waitFor();
  await button(again, 'Close').click();

  await button(again, 'Remove ben').click();
  const question = again.page.getByRole('group', { name: 'Remove ben?' });
  await question.getByRole('button', { name: 'Keep' }).click();
  await button(again, 'Remove ben').click();
  await question.getByRole('button', { name: 'Remove' }).click();
  expect((await ben.event('failed')).message).toMatch(/^The host has removed this tab/);
  await button(ben, 'The front page').waitFor();
  expect(await ben.page.getByRole('button', { name: /^Join/ }).count()).toBe(0);
  await again.event('generation', ({ worldSize }) => worldSize === 1);

  await button(again, 'Stop the run').click();
  await button(again, 'Stop').click();
  expect((await again.event('failed')).message).toBe('The host has stopped the run.');
  const ended = again.page
    .getByRole('status')
    .filter({ hasText: /Ended after \d+ steps.*The host has stopped the run/ });
  await ended.getByRole('button', { name: 'Save model' }).waitFor();
  expect(await again.page.getByRole('alert').count()).toBe(0);
  await button(again, 'Leave').first().click();
  await button(again, 'Stay').click();
  await button(again, 'Leave').first().click();
  await again.page.getByRole('dialog').getByRole('button', { name: 'Leave' }).click();
  await again.page.getByRole('button', { name: 'Join', exact: true }).waitFor();
});

test('a host that only watches can start, pause and stop the run, and sees its steps', async () => {
  // A tab without WebRTC can only watch.
  const ann = await world.open('#new?name=ann&epochs=1000', { before: 'delete globalThis.RTCPeerConnection;' });
  await button(ann, 'Open and only watch').click();
  const { room, member } = await ann.event('admitted');
  await ann.event('room', ({ hosts, members }) => hosts.includes(member) && members.length === 0);
  const tabs = await Promise.all(['ben', 'cid'].map((name) => world.join(room, name)));
  await ann.event('room', ({ members }) => members.length === 2 && members.every(({ device }) => device !== null));
  await startFromBottom(ann);
  await ann.event('generation', ({ rank, worldSize }) => rank === 0 && worldSize === 2);
  await ann.event('step');
  await ann.event('trace');
  await ann.page.getByRole('status').getByText('watching').waitFor();

  await button(ann, 'Pause the run').click();
  await Promise.all([ann, ...tabs].map((tab) => tab.event('room', ({ isPausedByHost }) => isPausedByHost)));
  await tabs[0]!.page.getByText('Paused by the host.').waitFor();
  const before = tabs.map((tab) => tab.events.filter(({ type }) => type === 'step').length);
  await button(ann, 'Resume the run').click();
  const soon = Math.max(...before) + 5;
  await Promise.all([ann, ...tabs].map((tab) => tab.event('step', ({ step }) => step > soon)));
  // All steps together are complete, and no tab repeats a step. One tab may lack a step: a rank
  // that is paused at the end of a step receives the result from another rank, without an event.
  const taken = tabs.map((tab) => tab.events.flatMap((event) => (event.type === 'step' ? [event.step] : [])));
  for (const steps of taken) {
    expect(steps.length).toBeGreaterThan(5);
    expect(steps).toEqual([...new Set(steps)].sort((a, b) => a - b));
  }
  const all = [...new Set(taken.flat())].sort((a, b) => a - b);
  expect(all).toEqual(all.map((_, i) => i));

  await button(ann, 'Stop the run').click();
  await button(ann, 'Stop').click();
  expect((await ann.event('failed')).message).toBe('The host has stopped the run.');
});

test('two tabs find a learning rate, and the host, which only watches, uses this rate for the next run', async () => {
  const ann = await world.open('#new?name=ann&measure=learning-rate&maxSteps=24&batchSize=8');
  await button(ann, 'Open and only watch').click();
  const { room } = await ann.event('admitted');
  const tabs = await Promise.all(['ben', 'cid'].map((name) => world.join(room, name)));
  await ann.event('room', ({ members }) => members.length === 2 && members.every(({ device }) => device !== null));
  await startFromBottom(ann);
  const [one, other] = await Promise.all(tabs.map((tab) => tab.event('finished')));
  const { rateTest, stateHash } = one!.result;
  expect(other!.result).toMatchObject({ rateTest, stateHash });
  expect(rateTest!.suggested).toBeGreaterThan(1e-4);
  expect(rateTest!.suggested).toBeLessThan(0.1);
  await ann.page
    .getByRole('img', { name: /^Loss by learning rate, from 1e-7 to .* The loss falls steepest at/ })
    .waitFor();
  await ann.page.getByRole('button', { name: /^Use / }).click();
  const { suggested: learningRate } = rateTest!;
  await ann.event('room', ({ job }) => job.learningRate === learningRate && job.measure === null);
  await button(ann, 'Start').waitFor();
});

test('two tabs compare strategies, and the host chooses one of these for the next run', async () => {
  const ann = await world.open('#new?name=ann&measure=methods&batchSize=8');
  await button(ann, 'Open the room').click();
  const { room } = await ann.event('admitted');
  const ben = await world.join(room, 'ben');
  await ann.event('room', ({ members }) => members.length === 2 && members.every(({ device }) => device !== null));
  await button(ann, 'Start').click();
  const [one, other] = await Promise.all([ann, ben].map((tab) => tab.event('finished')));
  expect(other!.result.methods).toEqual(one!.result.methods);
  expect(one!.result.methods!.bytesPerMs).toBeGreaterThan(0);
  await ann.page.getByRole('row', { name: /^SparseLoCo/ }).waitFor();
  expect(await ben.page.getByRole('button', { name: /^Use / }).count()).toBe(0);
  await button(ann, 'Use SparseLoCo').click();
  await ann.event('room', ({ job }) => job.strategy === 'sparseloco' && job.optimizer === 'adamw');
  // The lobby still shows what each method costs.
  await button(ann, 'Use DDP, int8').click();
  await ann.event('room', ({ job }) => job.strategy === 'ddp' && job.codec === 'int8');
  await button(ann, 'Start').waitFor();
});
