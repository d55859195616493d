/**
 * `peergrad example`: runs an example of the folder `examples/` in headless tabs and prints the
 * output of its ranks.
 */
import type { Browser } from 'playwright-core';
import { CATALOGUE } from '../../examples/catalogue.ts';
import type { ExampleEvent } from '../../examples/events.ts';
import { systemClock } from '../../src/util/clock.ts';
import { withinDeadline } from '../../src/util/deadline.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { PeergradError, TimeoutError, UsageError } from '../../src/util/errors.ts';
import { closeBrowser, launchBrowser, type GpuMode } from '../browser/browser.ts';
import { DIST, ensureBuilt } from '../build.ts';
import { ensureBrowser } from '../browser/findBrowser.ts';
import type { Io } from '../io.ts';
import { resolveJob } from '../options/jobOptions.ts';
import { loadPage, openProfile, watchPage } from '../browser/tabs.ts';

export interface ExampleOptions {
  tabs?: number;
  /** Folder of IDX files on this machine, or URL of such a folder. */
  data?: string;
  headed?: true;
  browser?: string;
  gpu: GpuMode;
  /** Seconds. */
  timeout: number;
}

export async function example(name: string | undefined, options: ExampleOptions, io: Io): Promise<void> {
  if (name === undefined) {
    const width = Math.max(...CATALOGUE.map((entry) => entry.name.length));
    for (const entry of CATALOGUE) io.out(`${entry.name.padEnd(width)}  ${entry.about}`);
    return;
  }
  const { gpu, headed = false, tabs } = options;
  const { data, served } = await dataOf(name, options.data);
  const executable = await ensureBrowser(options.browser, io.err);
  await ensureBuilt(io);
  // The server's packages load slowly, so they are imported after the arguments are checked.
  const { startSignaling } = await import('../../signaling/index.ts');
  const server = await startSignaling({ dist: DIST, data: served });
  try {
    io.signal.throwIfAborted();
    const browser = await launchBrowser({ executable, gpu, headed, probeUrl: `${server.url}/healthz` });
    try {
      await runInTabs(browser, { server: server.url, name, tabs, data }, options.timeout, io);
    } finally {
      await closeBrowser(browser);
    }
  } finally {
    await server.close();
  }
}

/**
 * Returns the URL of an example's data, and the folder to serve.
 *
 * @throws (rejects) UsageError if the example uses no data, or the folder has no IDX files.
 */
async function dataOf(
  name: string,
  data: string | undefined,
): Promise<{ data: string | undefined; served: string | null }> {
  if (data === undefined) return { data, served: null };
  if (CATALOGUE.find((entry) => entry.name === name)?.takesData !== true) {
    const others = CATALOGUE.filter(({ takesData }) => takesData).map((entry) => entry.name);
    throw new UsageError(`The example ${name} does not use data. Remove --data, or run ${others.join(' or ')}.`);
  }
  const { job, served } = await resolveJob({ job: 'mnist', data });
  return { data: job.data.kind === 'url' ? job.data.url : undefined, served };
}

interface ExampleRun {
  /** Address of the server. */
  server: string;
  name: string;
  /** Number of tabs (default: the example's). */
  tabs?: number | undefined;
  /** URL of the data, absolute or relative to the server. */
  data?: string | undefined;
}

/**
 * Runs an example as a user would: the first tab opens a room and reports the room's code and world
 * size; then the other tabs join.
 *
 * @param timeout seconds.
 * @throws (rejects) PeergradError with the message of the first tab that fails, or TimeoutError
 *   with the names of the tabs that have not finished.
 */
export async function runInTabs(
  browser: Browser,
  { server, name, tabs, data }: ExampleRun,
  timeout: number,
  io: Io,
): Promise<void> {
  const pageFor = (query: Record<string, string>): string => {
    const fields = new URLSearchParams(data === undefined ? query : { ...query, data });
    return `${server}/examples/#${name}?${fields}`;
  };
  const done = createDeferred();
  /** Names of the tabs that still run. A tab with a rank has the name `rank <n>`. */
  const running = new Map<string, string>();
  const fail = (tab: string, message: string): void => {
    const rank = running.get(tab);
    // Failures of a tab that has finished are ignored.
    if (rank !== undefined) done.reject(new PeergradError(`${rank}: ${message.replace(/[^.!?]$/, '$&.')}`));
  };
  const open = async (tab: string, query: Record<string, string>): Promise<void> => {
    running.set(tab, tab);
    // Tabs of different profiles are linked by WebRTC, as the tabs of several users.
    const profile = await openProfile(browser, { onevent: (_, event) => onevent(tab, event as ExampleEvent) });
    const page = await profile.newPage();
    watchPage(page, {
      ondeath: (message) => fail(tab, message),
      onerror: (message) => io.err(`${tab}: ${message}`),
    });
    await loadPage(page, pageFor(query));
  };
  const onevent = (tab: string, event: ExampleEvent): void => {
    switch (event.type) {
      case 'room':
        for (let i = 2; i <= event.worldSize; i++) open(`tab-${i}`, { room: event.room }).catch(done.reject);
        return;
      case 'joined':
        running.set(tab, `rank ${event.rank}`);
        return;
      case 'line':
        return io.out(`[${running.get(tab)}] ${event.line}`);
      case 'finished':
        running.delete(tab);
        if (running.size === 0) done.resolve();
        return;
      case 'failed':
        return fail(tab, event.message);
      default:
        event satisfies never;
    }
  };

  const interrupt = (): void => done.reject(io.signal.reason);
  io.signal.addEventListener('abort', interrupt, { once: true });
  if (io.signal.aborted) interrupt();
  try {
    open('tab-1', tabs === undefined ? {} : { tabs: String(tabs) }).catch(done.reject);
    const late = (): Error =>
      new TimeoutError(
        `Timed out: ${[...running.values()].join(', ')} had not finished after ${timeout} s. Allow more time with --timeout.`,
      );
    await withinDeadline(systemClock, timeout * 1000, done.promise, late);
  } finally {
    io.signal.removeEventListener('abort', interrupt);
  }
}
