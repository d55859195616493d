/**
 * Saves checkpoints from a worker and reads them on the page, in both kinds of storage of a real
 * browser: the private file system and IndexedDB.
 */
import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { CHECKPOINTS_KEPT } from '../../../src/engine/storage/checkpoints.ts';
import type { CheckpointMeta } from '../../../src/formats/checkpoint.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { OwnPage } from '../harness/ownPage.ts';

let page: OwnPage;
beforeAll(async () => {
  page = await OwnPage.start('test/tabs/files/checkpoints.html', 'spoil');
}, 120_000);
afterAll(() => page?.stop());

let context: BrowserContext;
let tab: Page;
beforeEach(async () => {
  context = await page.openContext();
  tab = await page.openTab(context);
});
afterEach(() => context.close());

function metaOf(id: string, fields: Partial<CheckpointMeta> = {}): CheckpointMeta {
  return {
    id,
    room: 'K7F3QX',
    job: parseJob({}),
    savedAt: 1_700_000_000_000,
    step: 20,
    worldSize: 4,
    position: { epoch: 1, offset: 640 },
    evaluateEvery: 5,
    verdicts: [],
    trainedMs: 0,
    losses: [2.5, 1.25, 1 / 3],
    stateHash: '0123456789abcdef',
    ...fields,
  };
}

test('checkpoints are stored in the origin private file system if the browser has one', async () => {
  expect(await tab.evaluate(() => window.preferredMedium())).toBe('opfs');
});

describe.each(['opfs', 'indexeddb'] as const)('checkpoints in %s', (medium) => {
  const save = (meta: CheckpointMeta, { to = tab, first = 0, count = 1000 } = {}): Promise<string> =>
    to.evaluate(([where, about, from, numbers]) => window.save(where, about, from, numbers), [
      medium,
      meta,
      first,
      count,
    ] as const);
  const list = () => tab.evaluate((where) => window.list(where), medium);
  const load = (id: string) => tab.evaluate(([where, name]) => window.load(where, name), [medium, id] as const);
  const sizeOf = (id: string) => tab.evaluate(([where, name]) => window.sizeOf(where, name), [medium, id] as const);
  const spoil = (id: string, kept: number, changed?: number) =>
    tab.evaluate(([where, name, bytes, at]) => window.spoil(where, name, bytes, at), [
      medium,
      id,
      kept,
      changed,
    ] as const);
  const idsOf = async () => (await list()).checkpoints.map(({ id }) => id);

  test('can be loaded, even after the tab that saved them was closed', async () => {
    const meta = metaOf('first');
    expect(await list()).toEqual({ checkpoints: [], damaged: [] });
    expect(await save(meta, { first: 5, count: 1001 })).toBe('saved');
    await tab.close();
    tab = await page.openTab(context);
    expect(await list()).toEqual({ checkpoints: [meta], damaged: [] });
    const numbers = Array.from({ length: 1001 }, (_, i) => 5 + i);
    expect(await load('first')).toEqual({
      meta,
      arrays: [
        ['Float32Array', numbers],
        ['Uint8Array', [1, 2, 3]],
        ['Float64Array', numbers.map(Math.sqrt)],
      ],
    });
    await tab.evaluate((where) => window.remove(where, 'first'), medium);
    await tab.evaluate((where) => window.remove(where, 'never-there'), medium);
    expect(await list()).toEqual({ checkpoints: [], damaged: [] });
    expect(await load('first')).toMatch(/^DataError: There is no checkpoint first/);
  });

  test('are reported if they are damaged, and are then not in the list of usable checkpoints', async () => {
    for (const id of ['whole', 'short', 'header', 'stub', 'garbled', 'changed']) {
      await save(metaOf(id, { room: `room-${id}` }));
    }
    await spoil('short', (await sizeOf('short')) - 1);
    await spoil('header', 300);
    await spoil('stub', 7);
    // The changed byte makes the header of 'garbled' invalid JSON.
    await spoil('garbled', await sizeOf('garbled'), 20);
    const size = await sizeOf('changed');
    await spoil('changed', size, size - 5);
    const { checkpoints, damaged } = await list();
    expect(checkpoints.map(({ id }) => id)).toEqual(expect.arrayContaining(['whole', 'changed']));
    expect(checkpoints).toHaveLength(2);
    expect(Object.fromEntries(damaged.map(({ id, reason }) => [id, reason]))).toEqual({
      short: expect.stringMatching(
        /^Checkpoint short is damaged \(it has \d+ bytes instead of \d+\)\. Remove this checkpoint/,
      ) as string,
      header: expect.stringContaining('it is cut off') as string,
      stub: expect.stringContaining('it is cut off') as string,
      garbled: expect.stringContaining('its header cannot be read') as string,
    });
    expect(await load('short')).toMatch(/^DataError: Checkpoint short is damaged/);
    expect(await load('changed')).toMatch(/^DataError: .*its bytes are not those that were saved/);
    expect(await load('whole')).toHaveProperty('meta.id', 'whole');
  });

  test('are kept only if they are the latest of their room and job, and are listed from the latest to the oldest', async () => {
    await save(metaOf('other-room', { room: 'AAAAAA', savedAt: 1 }));
    await save(metaOf('other-job', { job: parseJob({ batchSize: 64 }), savedAt: 2 }));
    for (let i = 0; i <= CHECKPOINTS_KEPT; i++) await save(metaOf(`at-${i}`, { savedAt: 10 + i }));
    expect(await idsOf()).toEqual(['at-3', 'at-2', 'at-1', 'other-job', 'other-room']);
    // A new checkpoint is kept even if its time is earlier, as after a clock was set back. A
    // previous checkpoint is removed instead. Jobs whose fields have another order are equal.
    const job = Object.fromEntries(Object.entries(parseJob({})).toReversed()) as CheckpointMeta['job'];
    await save(metaOf('early', { savedAt: 5, job }));
    expect(await idsOf()).toEqual(['at-3', 'at-2', 'early', 'other-job', 'other-room']);
  });

  test('of one run can be saved by two tabs at the same time', async () => {
    const other = await page.openTab(context);
    const saved = await Promise.all([
      save(metaOf('mine'), { count: 5_000 }),
      save(metaOf('theirs'), { to: other, first: 1, count: 5_000 }),
    ]);
    expect(saved).toEqual(['saved', 'saved']);
    expect((await idsOf()).toSorted()).toEqual(['mine', 'theirs']);
    for (const id of ['mine', 'theirs']) expect(await load(id)).toHaveProperty('meta.id', id);
  });

  test('stay unchanged if a save fails because the storage is full or an argument is invalid', async () => {
    const devtools = await context.newCDPSession(tab);
    // An empty database takes 72 KiB of this quota.
    await devtools.send('Storage.overrideQuotaForOrigin', { origin: new URL(page.url).origin, quotaSize: 500_000 });
    const before = metaOf('before');
    await save(before);
    for (const id of ['before', 'large']) {
      expect(await save(metaOf(id, { step: 40 }), { count: 100_000 })).toMatch(
        /^StorageError: This browser's storage is full and could not keep a checkpoint of 1\.1 MiB\. Remove/,
      );
    }
    expect(await save(metaOf('../up'))).toMatch(/^UsageError: The checkpoint cannot be saved: id: /);
    expect(await list()).toEqual({ checkpoints: [before], damaged: [] });
    expect(await load('before')).toHaveProperty('meta.step', 20);
  });
});
