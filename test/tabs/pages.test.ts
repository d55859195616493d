/** What holds for every page, looked at in real tabs with a real run. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DIST, ensureBuilt } from '../../launcher/build.ts';
import { launchBrowser } from '../../launcher/browser.ts';
import { inEveryLook, visitEveryPage } from '../../launcher/tour/visit.ts';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let browser: Browser;
let server: SignalingServer;
beforeAll(async () => {
  await ensureBuilt({ out: () => {}, err: () => {}, terminal: null, signal: new AbortController().signal });
  [server, browser] = await Promise.all([startSignaling({ dist: DIST }), launchBrowser()]);
}, 120_000);
afterAll(async () => {
  await browser.close();
  await server.close();
});

test('no page has anything that axe objects to, in either theme, wide or narrow', async () => {
  const found: string[] = [];
  const t0 = Date.now();
  await visitEveryPage({
    ...{ browser, origin: `http://localhost:${server.port}`, steps: 60, firstLook: 12 },
    visit: async ({ name, part }, page) => {
      console.log(name, Date.now() - t0);
      await page.evaluate(AXE);
      await inEveryLook(page, part, async ({ theme, size }) => {
        const { violations } = await page.evaluate<AxeResults>('axe.run()');
        for (const { id, help, nodes } of violations) {
          const where = nodes.map(({ target, failureSummary }) => `${target.join(' ')} (${failureSummary})`);
          found.push(`${name}, ${theme}, ${size}: ${id} (${help}): ${where.join('; ')}`);
        }
      });
    },
  });
  console.log('end', Date.now() - t0);
  expect(found).toEqual([]);
}, 240_000);
