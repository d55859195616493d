/** `npm run tour`: takes pictures of every page of a real run, and writes the page that shows them, docs/tour.md. */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { startSignaling } from '../../signaling/index.ts';
import { closeBrowser, launchBrowser } from '../browser.ts';
import { DIST, ensureBuilt } from '../build.ts';
import type { Io } from '../io.ts';
import { runProcess } from '../process.ts';
import { shrinkPng } from './smallPng.ts';
import { tourPage } from './tourPage.ts';
import { inEveryLook, STOPS, visitEveryPage } from './visit.ts';

const DOCS = path.resolve(import.meta.dirname, '../../docs');
/** Steps of the run: enough that curves fall and the model reads what is drawn, and a few minutes without a GPU. */
const STEPS = 100;
const FIRST_LOOK = 25;

async function takeTour(io: Io): Promise<void> {
  await ensureBuilt(io);
  const folder = path.join(DOCS, 'tour');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const server = await startSignaling({ dist: DIST });
  const browser = await launchBrowser();
  try {
    await visitEveryPage({
      ...{ browser, origin: `http://localhost:${server.port}`, steps: STEPS, firstLook: FIRST_LOOK },
      visit: async ({ name, part }, page) => {
        io.err(name);
        await inEveryLook(page, part, async ({ theme, size }) => {
          await writeFile(path.join(folder, `${name}-${theme}-${size}.png`), shrinkPng(await page.screenshot()));
        });
      },
    });
  } finally {
    await closeBrowser(browser);
    await server.close();
  }
  await writeFile(path.join(DOCS, 'tour.md'), tourPage(Object.values(STOPS)));
}

await runProcess('tour', async (_argv, io) => {
  await takeTour(io);
  return 0;
});
