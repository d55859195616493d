/** DataParallel in workers of a real tab, each with a device of its own. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Page } from 'playwright-core';
import { OwnPage } from '../harness/ownPage.ts';

let own: OwnPage;
let page: Page;
beforeAll(async () => {
  own = await OwnPage.start('test/tabs/library/dataParallel.html', 'trainReplicas');
  page = await own.openTab(await own.openContext());
}, 120_000);
afterAll(() => own?.stop());

test('1, 2 and 3 replicas of 30, 15 and 10 samples each have the same loss curve', { timeout: 60_000 }, async () => {
  const curves: number[][] = [];
  for (const replicas of [1, 2, 3]) {
    const { backend, losses, rows, leaked } = await page.evaluate((n) => window.trainReplicas(n, 32, 30, 5), replicas);
    expect(backend).toBe('webgpu');
    expect(leaked).toBe(0);
    expect(rows.map(({ replica, batch }) => [replica, batch])).toEqual(
      Array.from({ length: replicas }, (_, replica) => [replica, 30 / replicas]),
    );
    const [first, ...others] = rows.map(({ bytes }) => bytes);
    for (const bytes of others) expect(first).toBeGreaterThan(bytes);
    curves.push(losses);
  }
  const [one, ...others] = curves;
  expect(one!.at(-1)).toBeLessThan(one![0]!);
  for (const curve of others) {
    for (const [step, loss] of curve.entries()) expect(Math.abs(loss - one![step]!)).toBeLessThan(1e-5);
  }
});

test('the error for a worker that cannot be loaded names its replica', { timeout: 30_000 }, async () => {
  expect(await page.evaluate(() => window.failReplica())).toMatch(/^PeergradError: Replica 1 stopped/);
});

test('a page keeps its open device, and gets a new one when the GPU is lost', { timeout: 30_000 }, async () => {
  const reopened = await page.evaluate(() => window.reopenDevice());
  expect(reopened).toEqual({ isSame: true, before: [2, 2], after: [3, 3] });
});
