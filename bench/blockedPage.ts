/**
 * `bench blocking`: measures how fast the library trains while the page blocks its main thread,
 * in a worker and on the page.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { closeBrowser, launchBrowser, type Browser } from '../launcher/browser/browser.ts';
import { loadPage, openProfile } from '../launcher/browser/tabs.ts';
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import { startSignaling, type SignalingServer } from '../signaling/index.ts';
import { DEFAULT_JOB } from '../src/spec/job.ts';
import { median } from '../src/util/statistics.ts';
import type { Trial, TrialResult } from './blockedPage/page.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { option } from './command/options.ts';
import { buildPage } from '../tools/buildPage.ts';
import { table } from '../tools/report/table.ts';

interface BlockedPageOptions {
  seconds: number;
  rounds: number;
  json?: true;
}

const HTML = 'bench/blockedPage/page.html';
/** Milliseconds for which the page blocks at a time. */
const BLOCK_MS = 2000;
const TABS = 2;

const KINDS: readonly Pick<BlockedPageRow, 'where' | 'page'>[] = [
  { where: 'worker', page: 'idle' },
  { where: 'worker', page: 'blocked' },
  { where: 'page', page: 'idle' },
  { where: 'page', page: 'blocked' },
];

interface BlockedPageRow {
  where: Trial['where'];
  page: 'idle' | 'blocked';
  stepsPerSecond: number;
  /** Steps per second divided by those of the same thread on an idle page. */
  ratio: number;
  /** Share of the time for which the page was blocked. */
  blocked: number;
}

export interface BlockedPageResult {
  tabs: number;
  rows: BlockedPageRow[];
}

/** @throws (rejects) if the page cannot be built or a tab fails. */
async function benchBlockedPage({ seconds, rounds, json }: BlockedPageOptions, io: Io): Promise<void> {
  const { dist, remove } = await buildPage(HTML);
  let server: SignalingServer | null = null;
  let browser: Browser | null = null;
  try {
    server = await startSignaling({ dist });
    browser = await launchBrowser();
    const result = await measure(server, browser, { seconds, rounds }, io);
    io.out(json === undefined ? tableOf(result) : JSON.stringify(result));
  } finally {
    if (browser) await closeBrowser(browser);
    await server?.close();
    await remove();
  }
}

async function measure(
  server: SignalingServer,
  browser: Browser,
  { seconds, rounds }: BlockedPageOptions,
  io: Io,
): Promise<BlockedPageResult> {
  const profile = await openProfile(browser, { onevent: () => {} });
  const slowUrl = `${server.url}/slow`;
  await profile.route(slowUrl, async (route) => {
    await delay(BLOCK_MS);
    await route.fulfill({ body: '' });
  });
  const pages = await Promise.all(Array.from({ length: TABS }, () => profile.newPage()));
  for (const page of pages) await loadPage(page, `${server.url}/${HTML}`);
  const results = KINDS.map((): TrialResult[] => []);
  for (let round = 0; round < rounds; round++) {
    io.err(`round ${round + 1} of ${rounds} ...`);
    const order = round % 2 === 0 ? KINDS : KINDS.toReversed();
    for (const kind of order) {
      const room = server.createRoom({ job: DEFAULT_JOB, startAt: TABS });
      const trial = { room, seconds, where: kind.where, slowUrl: kind.page === 'blocked' ? slowUrl : null };
      const ranks = await Promise.all(pages.map((page) => page.evaluate((given) => globalThis.runTrial(given), trial)));
      results[KINDS.indexOf(kind)]!.push(...ranks);
    }
  }
  return summaryOf(results);
}

/** Returns the medians of all rounds and ranks. @param results in the order of the kinds. */
function summaryOf(results: readonly (readonly TrialResult[])[]): BlockedPageResult {
  const speeds = results.map((trials) => median(trials.map(({ stepsPerSecond }) => stepsPerSecond)));
  const rows = KINDS.map((kind, i) => {
    const idle = KINDS.findIndex(({ where, page }) => where === kind.where && page === 'idle');
    const blocked = median(results[i]!.map((trial) => trial.blocked));
    return { ...kind, stepsPerSecond: speeds[i]!, ratio: speeds[i]! / speeds[idle]!, blocked };
  });
  return { tabs: TABS, rows };
}

function tableOf({ rows }: BlockedPageResult): string {
  return table(
    ['training', 'page', 'steps/s', 'of idle', 'page blocked, %'],
    rows.map(({ where, page, stepsPerSecond, ratio, blocked }) => [
      ...[where === 'worker' ? 'in the worker' : 'on the page', page],
      ...[stepsPerSecond.toFixed(2), ratio.toFixed(2), (blocked * 100).toFixed(0)],
    ]),
  );
}

function section(result: BlockedPageResult): string {
  return `## A page that blocks

\`npm run -s bench -- blocking\`: ${result.tabs} tabs of one browser train a 784-64-10 model with the library over WebRTC, batches of
32 a tab. In turn, they train in a worker that the page hosts, and on the page itself. Every page is idle, or blocks its main thread for ${BLOCK_MS / 1000} s at
a time. It blocks in a synchronous request, which occupies no core: a loop would take one of the two cores from the training. Figures are medians
of rounds and ranks. *of idle* is the speed divided by that of the same thread on an idle page.

${tableOf(result)}

The worker owns its data channels and its connection to the server. It needs the page only to open connections.
`;
}

export const blockedPage = defineBenchmark({
  name: 'blocking',
  description: 'measure the speed of training while the page blocks its main thread, in a worker and on the page',
  options: [
    option('--seconds <s>', 'duration of a measurement', wholeNumber(1, 600), 10),
    option('--rounds <n>', 'number of measurements of each kind', wholeNumber(1, 100), 3),
  ],
  run: benchBlockedPage,
  section,
});
