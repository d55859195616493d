/**
 * A language model in real tabs: two tabs train it, show its samples, and let it continue a prompt.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test, vi } from 'vitest';
import { openWeights } from '../../../src/formats/weights/weightsFile.ts';
import { worldOfFile } from '../harness/world.ts';
import { writeFables } from '../../../src/jobs/gpt/fables.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';

vi.setConfig({ testTimeout: 120_000 });

const folder = await mkdtemp(path.join(tmpdir(), 'peergrad-text-'));
afterAll(() => rm(folder, { recursive: true }));
const text = path.join(folder, 'a few fables.txt');
// The evaluation at the end uses all held-out text, so the text is short.
await writeFile(text, writeFables().slice(0, 2000));
const world = await worldOfFile({ data: text }, { backend: 'webgpu' });

test('two tabs train a model on a text, show samples and continue a prompt', async () => {
  const gpt = { ...DEFAULT_JOB.gpt, width: 16, context: 8, prompt: 'The ' };
  const data = { kind: 'url', url: '/data/a%20few%20fables.txt' };
  const room = world.createRoom({ job: 'gpt', gpt, data, maxSteps: 6, batchSize: 2, hashEvery: 2 }, 2);
  const [ann, ben] = await Promise.all([world.join(room, 'ann'), world.join(room, 'ben')]);
  const results = await Promise.all([ann, ben].map((tab) => tab.event('finished')));
  const [{ result }] = results as [(typeof results)[0]];
  expect(new Set(results.flatMap((one) => one.result.stateHash)).size).toBe(1);
  expect(result.losses[0]).toBeCloseTo(Math.log(40), 0);
  expect(result.losses.at(-1)!).toBeLessThan(result.losses[0]!);
  expect(result.samples!.map(({ steps }) => steps)).toEqual([1, 2, 5, 6]);
  expect(result.bigramLoss!).toBeLessThan(result.valLoss!);
  expect(result.memoryBytesPerRank.every((bytes) => bytes > 0)).toBe(true);
  const memory = ann.events.flatMap((event) => (event.type === 'ranks' ? [event.ranks[0]!.memoryBytes] : []));
  expect(new Set(memory).size).toBe(1);
  const commands = ann.events.flatMap((event) =>
    event.type === 'ranks' ? event.ranks.map((one) => one.commands) : [],
  );
  // Each step gives the GPU the same work, and both ranks have the same model.
  expect(new Set(commands.map((one) => one!.dispatches)).size).toBe(1);
  expect(commands[0]!.dispatches).toBeGreaterThan(commands[0]!.submits);
  expect(commands[0]!.submits).toBeGreaterThan(0);

  const { page } = ann;
  await page.getByText('after 6 steps, loss').waitFor();
  await page.getByLabel('Prompt').fill('An old ');
  await page.getByRole('button', { name: 'Generate', exact: true }).click();
  const { answer } = await ann.event('generated');
  expect(answer!.steps).toBe(6);
  expect(answer!.text).toHaveLength(160);
  await page.locator('.generation [role=status] strong', { hasText: 'An old' }).waitFor();
  // No panel for images is shown.
  expect(await page.getByText('Draw a digit').count()).toBe(0);
  expect([ann, ben].flatMap(({ violations }) => violations)).toEqual([]);
});

test('two tabs with half of a model each continue a prompt during the run, and the tab of rank 0 saves the model', async () => {
  const gpt = { ...DEFAULT_JOB.gpt, width: 16, context: 8, prompt: 'The ' };
  const data = { kind: 'url', url: '/data/a%20few%20fables.txt' };
  const fields = { job: 'gpt', gpt, data, strategy: 'pipeline', microBatches: 2, maxSteps: 60, batchSize: 2 };
  const room = world.createRoom(fields, 2);
  const tabs = await Promise.all([world.join(room, 'ann'), world.join(room, 'ben')]);
  const ranks = await Promise.all(tabs.map((tab) => tab.event('generation')));
  const first = tabs[ranks.findIndex(({ rank }) => rank === 0)]!;
  const second = tabs.find((tab) => tab !== first)!;

  await second.page.getByLabel('Prompt').fill('An old ');
  await second.page.getByRole('button', { name: 'Generate', exact: true }).click();
  const { answer } = await second.event('generated');
  expect(answer!.text).toHaveLength(160);
  await second.page.locator('.generation [role=status] strong', { hasText: 'An old' }).waitFor();

  const [ended] = await Promise.all(tabs.map((tab) => tab.event('finished')));
  expect(answer!.steps).toBeLessThanOrEqual(60);
  expect(ended!.result.samples!.map(({ steps }) => steps)).toEqual([1, 2, 5, 10, 20, 50, 60]);
  const [file] = await Promise.all([first.page.waitForEvent('download'), first.press('Save model')]);
  expect(file.suggestedFilename()).toBe('peergrad-gpt-mlp-step-60.safetensors');
  const { entries, vocabulary } = await openWeights('saved', new Blob([await readFile(await file.path())]));
  expect(entries).toHaveLength(9);
  expect(vocabulary!.tokens).toBe('characters');
  await second.press('Save model');
  await second.page.getByText('only the tab with rank 0 has its model. Save it there.').waitFor();
  expect(tabs.flatMap(({ violations }) => violations)).toEqual([]);
});
