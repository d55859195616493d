/** Checks every page in real tabs with a real run: accessibility, and size of the scripts. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';
import type { AxeResults } from 'axe-core';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DIST } from '../../../launcher/build.ts';
import { launchBrowser } from '../../../launcher/browser/browser.ts';
import { inEveryLook, visitEveryPage, type Look } from '../../../tools/tour/visit.ts';
import { startSignaling, type SignalingServer } from '../../../signaling/index.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** Most gzipped bytes of JavaScript that the page may load before the user enters a room. */
const FIRST_LOAD = 151_000;

let browser: Browser;
let server: SignalingServer;
/** Gzipped bytes of each script that was loaded before a room was entered. */
const loaded = new Map<string, number>();
/** Texts of the pages of two tabs that have checked their network. */
const checked: string[] = [];
/** Violations that axe found, one text for each. */
const objections: string[] = [];

beforeAll(async () => {
  [server, browser] = await Promise.all([startSignaling({ dist: DIST }), launchBrowser()]);
  const origin = `http://localhost:${server.port}`;
  await weigh(origin);
  await inspectPipelineLesson(origin);
  await inspectNetworkCheck(origin);
  await visitEveryPage({
    browser,
    origin,
    steps: 24,
    firstLook: 10,
    visit: async ({ name, part }, page) => {
      await page.evaluate(AXE);
      await page.evaluate(withoutTransitions);
      await inEveryLook(page, part, (look) => inspect(page, name, look));
    },
  });
}, 300_000);
afterAll(async () => {
  await browser.close();
  await server.close();
});

/** Loads the front page and stores the sizes of its scripts in `loaded`. */
async function weigh(origin: string): Promise<void> {
  const page = await browser.newPage();
  const bodies: Promise<unknown>[] = [];
  page.on('response', (response) => {
    const file = new URL(response.url()).pathname;
    if (!file.endsWith('.js')) return;
    bodies.push(response.body().then((body) => loaded.set(file, gzipSync(body).length)));
  });
  await page.goto(origin, { waitUntil: 'networkidle' });
  await Promise.all(bodies);
  await page.close();
}

/** Opens a page in a new profile, which stands for another device. */
async function openNetworkCheck(origin: string, name: string): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  await page.goto(`${origin}/#network?name=${name}`);
  return page;
}

/** Resolves with the text of the page when it gives this advice. */
async function resultsOf(page: Page, advice: RegExp): Promise<string> {
  await page.getByRole('status').filter({ hasText: advice }).waitFor();
  return page.locator('main').innerText();
}

/** The tour does not visit this page. */
async function inspectNetworkCheck(origin: string): Promise<void> {
  const page = await openNetworkCheck(origin, 'ada');
  await resultsOf(page, /Open this page on a second device/);
  const other = await openNetworkCheck(origin, 'bob');
  for (const one of [page, other]) checked.push(await resultsOf(one, /Everything works/));
  await page.evaluate(AXE);
  await inEveryLook(page, null, (look) => inspect(page, 'network check', look));
  await Promise.all([page, other].map((one) => one.context().close()));
}

/** The tour does not visit this page. */
async function inspectPipelineLesson(origin: string): Promise<void> {
  const page = await browser.newPage();
  await page.goto(`${origin}/#pipeline?page=6`);
  await page.getByRole('button', { name: 'All ticks' }).click();
  await page.evaluate(AXE);
  await inEveryLook(page, null, (look) => inspect(page, 'pipeline lesson', look));
  await page.close();
}

/** Runs in the page. A colour between those of two states of a button has no contrast to check. */
function withoutTransitions(): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync('* { transition: none !important }');
  document.adoptedStyleSheets.push(sheet);
}

async function inspect(page: Page, name: string, { theme, size }: Look): Promise<void> {
  // The dark theme changes only colours, so only the rules about colours are checked again.
  const options = theme === 'dark' ? { runOnly: ['color-contrast', 'link-in-text-block'] } : {};
  const { violations } = await page.evaluate<AxeResults>(`axe.run(${JSON.stringify(options)})`);
  for (const { id, help, nodes } of violations) {
    const where = nodes.map(({ target, failureSummary }) => `${target.join(' ')} (${failureSummary})`);
    objections.push(`${name}, ${theme}, ${size}: ${id} (${help}): ${where.join('; ')}`);
  }
}

test('axe finds no accessibility problem on any page, in both themes and in wide and narrow windows', () => {
  expect(objections, objections.join('\n')).toEqual([]);
});

test('the front page loads little JavaScript and no TensorFlow.js', () => {
  const total = [...loaded.values()].reduce((sum, bytes) => sum + bytes, 0);
  const files = [...loaded].sort(([, a], [, b]) => b - a).map(([file, bytes]) => `${file} ${bytes}`);
  expect(loaded.size).toBeGreaterThan(0);
  expect(total, `Bytes, gzipped: ${files.join(', ')}`).toBeLessThan(FIRST_LOAD);
});

const SPEED = String.raw`works, \d[\d.]* [kMG]?B/s, round trip \d[\d.]* m?s`;

test('two tabs with the page #network measure a data channel and a link through the server', () => {
  const [ada, bob] = checked;
  expect(ada).toMatch(new RegExp(`Data channel to bob: ${SPEED}`));
  expect(ada).toMatch(new RegExp(`Link through the server to bob: ${SPEED}\\s+Encrypted`));
  expect(bob).toMatch(new RegExp(`Data channel to ada: ${SPEED}`));
  expect(bob).toMatch(new RegExp(`Link through the server to ada: ${SPEED}\\s+Encrypted`));
});

test('with --server-links off, the page #network says so', async () => {
  const without = await startSignaling({ dist: DIST, serverLinks: 'off' });
  try {
    const origin = `http://localhost:${without.port}`;
    const [page, other] = [await openNetworkCheck(origin, 'ada'), await openNetworkCheck(origin, 'bob')];
    const text = await resultsOf(page, /Everything works/);
    expect(text).toMatch(
      /Link through the server to bob: not tried\s+The server was started with --server-links off\./,
    );
    await Promise.all([page, other].map((one) => one.context().close()));
  } finally {
    await without.close();
  }
});
