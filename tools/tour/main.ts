/**
 * `npm run tour`: takes screenshots of every page of the app during a real run, and writes
 * docs/tour.md with these screenshots.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { startSignaling } from '../../signaling/index.ts';
import { closeBrowser, launchBrowser } from '../../launcher/browser/browser.ts';
import { DIST, ensureBuilt } from '../../launcher/build.ts';
import type { Io } from '../../launcher/io.ts';
import { runProcess } from '../../launcher/process.ts';
import { tourPage } from './tourPage.ts';
import { inEveryLook, STOPS, visitEveryPage } from './visit.ts';

const DOCS = path.resolve(import.meta.dirname, '../../docs');
/**
 * Number of steps of the run. It is enough for falling curves and for a model that recognizes the
 * drawing, and takes a few minutes without a GPU.
 */
const STEPS = 100;
const FIRST_LOOK = 25;
/** WebP quality, 0 .. 100. Below this value, thin lines blur. */
const QUALITY = 80;

async function takeTour(io: Io): Promise<void> {
  await ensureBuilt(io);
  const folder = path.join(DOCS, 'tour');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const server = await startSignaling({ dist: DIST });
  const browser = await launchBrowser();
  try {
    await visitEveryPage({
      browser,
      origin: `http://localhost:${server.port}`,
      steps: STEPS,
      firstLook: FIRST_LOOK,
      visit: async ({ name, part }, page) => {
        io.err(name);
        await inEveryLook(page, part, async ({ theme, size }) => {
          await writeFile(path.join(folder, `${name}-${theme}-${size}.webp`), await photograph(page));
        });
      },
    });
  } finally {
    await closeBrowser(browser);
    await server.close();
  }
  await writeFile(path.join(DOCS, 'tour.md'), tourPage(Object.values(STOPS)));
}

/**
 * Takes a screenshot and encodes it as WebP, which Playwright does not support. It has a third of
 * the bytes of a PNG, and letters stay sharp.
 */
async function photograph(page: Page): Promise<Buffer> {
  const cdp = await page.context().newCDPSession(page);
  const { data } = await cdp.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
  await cdp.detach();
  return Buffer.from(data, 'base64');
}

await runProcess('tour', async (_argv, io) => {
  await takeTour(io);
  return 0;
});
