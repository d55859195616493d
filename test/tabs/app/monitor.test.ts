/**
 * Monitoring of a run in real tabs: its timeline, its exports, and a recording that the player
 * opens.
 */
import { readFile } from 'node:fs/promises';
import type { Download } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import type { ChromeTrace } from '../../../src/app/monitor/chromeTrace.ts';
import type { FlightRecording } from '../../../src/protocol/flightRecording.ts';
import { type Tab, worldOfFile } from '../harness/world.ts';

// Long enough for two slow cores. Each wait in a test has a shorter deadline and a better message.
vi.setConfig({ testTimeout: 150_000 });

const world = await worldOfFile();

/** Clicks a button and returns the file that it downloads. */
async function saved({ page }: Tab, name: string | RegExp): Promise<{ download: Download; text: string }> {
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name }).click()]);
  return { download, text: await readFile(await download.path(), 'utf8') };
}

test('during a run of two tabs, the timeline shows both ranks, exports are valid, and recordings can be played', async () => {
  const room = world.createRoom({ maxSteps: 12, hashEvery: 4, batchSize: 4 }, 2);
  const [ada, ben] = await Promise.all([world.join(room, 'ada'), world.join(room, 'ben')]);
  await Promise.all([ada, ben].map((tab) => tab.event('finished')));
  const [{ rank }, { ranks }] = await Promise.all([
    ada.event('generation'),
    ada.event('telemetry', ({ step }) => step === 11),
  ]);
  expect(ranks.map(({ lanes }) => lanes.map(({ step }) => step))).toEqual([
    [8, 9, 10, 11],
    [8, 9, 10, 11],
  ]);
  expect(ranks[1 - rank]).toMatchObject({ isHidden: false, right: { route: 'direct' } });

  // The page draws an event a moment after it arrives.
  await ada.page.getByText('are classified correctly').waitFor();

  // Arrow keys select a segment of the timeline, and its description is shown.
  const timeline = ada.page.getByRole('img', { name: /^Timeline of the last steps of 2 ranks/ });
  await timeline.focus();
  await timeline.press('ArrowRight');
  await timeline.press('+');
  expect(await ada.page.locator('.timeline-note').textContent()).toMatch(
    /^(ada|ben) \(rank 0\): .* of step \d+\.( The GPU received \d+ dispatches in \d+ submits in this step\.)?$/,
  );

  const csv = (await saved(ada, 'Curves (CSV)')).text.split('\r\n');
  expect(csv[0]).toBe('step,time_s,loss,accuracy,world_size,event');
  expect(csv).toHaveLength(1 + 12 + 1);
  expect(csv[12]).toMatch(/^12,\d+\.\d{3},\d+\.\d+,0?\.?\d+,2,$/);

  // The picture has the curves that are chosen.
  await ada.page.getByRole('button', { name: 'held-out loss' }).click();
  await ada.page.getByRole('button', { name: 'log', exact: true }).click();
  await ada.page.getByRole('img', { name: /^Held-out loss by step: \d/ }).waitFor();
  expect((await saved(ada, 'Curves (PNG)')).text).toMatch(/^.PNG/);

  const { traceEvents } = JSON.parse((await saved(ada, 'Timeline (Perfetto)')).text) as ChromeTrace;
  const complete = traceEvents.filter(({ ph }) => ph === 'X');
  expect(new Set(complete.map(({ pid }) => pid))).toEqual(new Set([0, 1]));
  expect(complete.every(({ ts, dur }) => Number.isInteger(ts) && dur! >= 0)).toBe(true);

  const files = await Promise.all([ada, ben].map((tab) => saved(tab, 'Download flight recording')));
  const recordings = files.map(({ text }) => JSON.parse(text) as FlightRecording);
  expect(recordings.map(({ version, lanes, traces }) => [version, lanes.length, traces.length])).toEqual([
    [3, 12, 12],
    [3, 12, 12],
  ]);

  const { page } = await world.open('#recording');
  const chooser = page.getByLabel('Choose recordings', { exact: true });
  await chooser.setInputFiles({ name: 'broken.json', mimeType: 'application/json', buffer: Buffer.from('{"format":') });
  await page
    .getByRole('alert')
    .getByText(/^✕ broken\.json cannot be shown: it is not valid JSON/)
    .waitFor();
  await chooser.setInputFiles(
    files.map(({ text }, i) => ({ name: `${i}.json`, mimeType: 'application/json', buffer: Buffer.from(text) })),
  );
  await page.getByText('Every recorded rank took part').waitFor();
  await page.getByRole('img', { name: /^Timeline of the last steps of 2 ranks/ }).waitFor();
  const place = page.getByLabel('Position in the round');
  await page.getByRole('button', { name: 'One step forward' }).click();
  expect(Number(await place.inputValue())).toBeGreaterThan(0);
  expect(await page.locator('table.collectives tbody tr').count()).toBeGreaterThan(12);
});

test('a run with a pipeline shows its ranks, each tick of its plan, and the passes of all ranks', async () => {
  const job = { maxSteps: 8, hashEvery: 4, batchSize: 4, strategy: 'pipeline', microBatches: 4 };
  const room = world.createRoom(job, 2);
  const [ada, ben] = await Promise.all([world.join(room, 'ada'), world.join(room, 'ben')]);
  await Promise.all([ada, ben].map((tab) => tab.event('finished')));
  const { page } = ada;
  await page.getByText('2 stages, 4 micro-batches').waitFor();
  await page.getByRole('img', { name: /^A pipeline of 2 ranks, 4 micro-batches, schedule 1F1B\./ }).waitFor();

  // The arrow keys move the plan, whose ticks are those of (S - 1) + M forward and backward passes.
  const place = page.getByLabel('Position in the round');
  await page.keyboard.press('Home');
  expect(await place.getAttribute('aria-valuetext')).toBe('0 of 10 ticks');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  expect(await place.getAttribute('aria-valuetext')).toBe('1 of 10 ticks');
  await page
    .getByText(/^Tick 2 of 10\. You .* ranks? computes?\.$|^Tick 2 of 10\. You .* All ranks compute\.$/)
    .waitFor();

  await page.getByText(/^In step 8, ranks waited for \d+ % of the time\. The plan predicts 20 %/).waitFor();
  expect(
    await page
      .getByRole('table')
      .filter({ hasText: 'stage' })
      .locator('td')
      .filter({ hasText: /layers?$/ })
      .count(),
  ).toBe(2);
  const timeline = page.getByRole('img', { name: /^Timeline of the last steps of 2 ranks/ });
  await timeline.focus();
  const noted: string[] = [];
  for (let i = 0; i < 12; i++) {
    await timeline.press('ArrowRight');
    noted.push((await page.locator('.timeline-note').textContent())!);
  }
  const pass = /^(ada|ben) \(rank 0\): forward pass of micro-batch \d in stage 0 .* of step 8\./;
  expect(noted.filter((text) => pass.test(text)).length, noted.join('\n')).toBeGreaterThan(0);
});
