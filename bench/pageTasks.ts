/**
 * `bench page`: measures the tasks of the page's main thread while the page plays a simulated
 * run, and while tabs train.
 */
import { closeBrowser, launchBrowser, type Browser } from '../launcher/browser/browser.ts';
import { loadPage, openProfile } from '../launcher/browser/tabs.ts';
import { DIST, ensureBuilt } from '../launcher/build.ts';
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import { startSignaling, type SignalingServer } from '../signaling/index.ts';
import type { EngineEvent } from '../src/protocol/events.ts';
import { parseJob } from '../src/spec/job.ts';
import { systemClock } from '../src/util/clock.ts';
import { within } from '../src/util/deadline.ts';
import { deferred } from '../src/util/deferred.ts';
import { PeergradError, TimeoutError } from '../src/util/errors.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { option } from './command/options.ts';
import { LONG_TASK_MS, measureMainThread, type MainThreadTasks } from './pageTasks/mainThread.ts';
import { table } from '../tools/report/table.ts';

interface PageBenchOptions {
  seconds: number;
  json?: true;
}

interface PageRow extends MainThreadTasks {
  run: 'simulated' | 'real';
  /** Width of the window in CSS pixels. */
  width: number;
}

export interface PageResult {
  seconds: number;
  rows: PageRow[];
}

/** Widths of a laptop and of the narrowest phone. */
const WIDTHS = [1280, 360] as const;
const HEIGHT = 800;
const SIMULATED_RANKS = 32;
const TABS = 4;
/** The run does not end by itself. */
const JOB = { epochs: 1000, transport: 'webrtc' };
/** Step after which a real run is measured: its shaders are compiled, and its charts have lines. */
const FIRST_STEP = 10;
/** Milliseconds until this step, which is ten times what four tabs need on two cores. */
const FIRST_STEP_MS = 240_000;

/** @throws (rejects) if the page cannot be built or a tab fails. */
async function benchPage({ seconds, json }: PageBenchOptions, io: Io): Promise<void> {
  await ensureBuilt(io);
  let server: SignalingServer | null = null;
  let browser: Browser | null = null;
  try {
    server = await startSignaling({ dist: DIST });
    browser = await launchBrowser();
    const rows: PageRow[] = [];
    for (const width of WIDTHS) {
      io.err(`${SIMULATED_RANKS} simulated ranks play at ${width} pixels ...`);
      rows.push({ run: 'simulated', width, ...(await measureSimulated(browser, server, width, seconds)) });
    }
    io.err(`${TABS} tabs train ...`);
    rows.push({ run: 'real', width: WIDTHS[0], ...(await measureReal(browser, server, seconds)) });
    const result: PageResult = { seconds, rows };
    io.out(json === undefined ? tableOf(result) : JSON.stringify(result));
  } finally {
    if (browser) await closeBrowser(browser);
    await server?.close();
  }
}

/** Measures the page with all panels unfolded. */
async function measureSimulated(
  browser: Browser,
  server: SignalingServer,
  width: number,
  seconds: number,
): Promise<MainThreadTasks> {
  const page = await browser.newPage({ viewport: { width, height: HEIGHT } });
  await loadPage(page, `${server.url}/#simulated?ranks=${SIMULATED_RANKS}`);
  // Ranks are listed after their first report, which follows two steps.
  await page
    .locator('.lanes li')
    .nth(SIMULATED_RANKS - 1)
    .waitFor({ state: 'attached' });
  const folded = page.locator('details.panel:not([open]) > summary');
  while ((await folded.count()) > 0) await folded.first().click();
  const tasks = await measureMainThread(browser, page, seconds * 1000);
  await page.close();
  return tasks;
}

/** Measures the page of rank 0, which plays the ring. */
async function measureReal(browser: Browser, server: SignalingServer, seconds: number): Promise<MainThreadTasks> {
  const trains = deferred();
  const onevent = (event: EngineEvent): void => {
    if (event.type === 'failed') trains.reject(new PeergradError(event.message));
    if (event.type === 'step' && event.step >= FIRST_STEP) trains.resolve();
  };
  const profile = await openProfile(browser, { onevent: (_page, event) => onevent(event as EngineEvent) });
  const room = server.createRoom({ job: parseJob(JOB), startAt: TABS });
  const late = (): Error =>
    new TimeoutError(`The ${TABS} tabs did not take step ${FIRST_STEP} within ${FIRST_STEP_MS / 1000} s.`);
  const pages = await Promise.all(Array.from({ length: TABS }, () => profile.newPage()));
  const loaded = pages.map((page, rank) =>
    loadPage(page, `${server.url}/#${room}?name=rank-${rank}&rank=${rank}&auto`),
  );
  await within(systemClock, FIRST_STEP_MS, Promise.all([trains.promise, ...loaded]), late);
  // The ring of a page whose events are forwarded is paused at first. The Space key starts it.
  const [first] = pages;
  await first!.bringToFront();
  await first!.keyboard.press('Space');
  const tasks = await measureMainThread(browser, first!, seconds * 1000);
  await profile.close();
  return tasks;
}

function tableOf({ rows }: PageResult): string {
  return table(
    ['run', 'width, px', 'tasks', `${LONG_TASK_MS} ms or more`, 'longest, ms of CPU time', 'longest, ms'],
    rows.map(({ run, width, tasks, longTasks, longestCpuMs, longestMs }) => [
      run === 'simulated' ? `${SIMULATED_RANKS} simulated ranks` : `${TABS} tabs that train`,
      ...[width, tasks, longTasks].map(String),
      ...[longestCpuMs, longestMs].map((ms) => ms.toFixed(1)),
    ]),
  );
}

function section(result: PageResult): string {
  return `## Tasks of the page

\`npm run -s bench -- page\`: Chromium's trace of the page's main thread for ${result.seconds} s while the ring plays and charts grow. Users notice tasks of
${LONG_TASK_MS} ms or more. The limit applies to CPU time: wall-clock time also has the wait for cores that the training tabs use.

${tableOf(result)}
`;
}

export const pageTasks = defineBenchmark({
  name: 'page',
  description: "measure the tasks of the page's main thread while 32 simulated ranks play, and while four tabs train",
  options: [option('--seconds <s>', 'duration of a measurement', wholeNumber(1, 60), 10)],
  run: benchPage,
  section,
});
