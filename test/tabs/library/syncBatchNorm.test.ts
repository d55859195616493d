/** SyncBatchNormalization on WebGPU: compares two tabs with one tab that has all samples. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OwnPage } from '../harness/ownPage.ts';

let page: OwnPage;
beforeAll(async () => {
  page = await OwnPage.start('test/tabs/library/syncBatchNorm.html', 'trainNormalized');
}, 120_000);
afterAll(() => page?.stop());

function expectClose(actual: readonly number[], expected: readonly number[]): void {
  expect(actual.length).toBe(expected.length);
  for (const [i, value] of actual.entries()) expect(Math.abs(value - expected[i]!)).toBeLessThan(1e-4);
}

test('two tabs train the same model as one tab with all samples', { timeout: 120_000 }, async () => {
  const {
    tabs: [host, guest],
    opened,
  } = await page.openTwoTabs();
  const results = await Promise.all([
    host.evaluate(() => window.trainNormalized(null)),
    opened.then((room) => guest.evaluate((code) => window.trainNormalized(code), room)),
  ]);

  for (const { backend, together, alone, leaked } of results) {
    expect(backend).toBe('webgpu');
    expect(leaked).toBe(0);
    expectClose(together.trained, alone.trained);
    expectClose(together.averages, alone.averages);
    expect(together.averages).toEqual(results[0].together.averages);
  }
});
