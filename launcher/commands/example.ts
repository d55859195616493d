/**
 * `peergrad example`: runs an example of the folder `examples/` in headless tabs and prints the
 * output of its ranks.
 */
import type { Browser } from 'playwright-core';
import { CATALOGUE } from '../../examples/catalogue.ts';
import type { ExampleEvent } from '../../examples/events.ts';
import { startSignaling } from '../../signaling/index.ts';
import { systemClock } from '../../src/util/clock.ts';
import { within } from '../../src/util/deadline.ts';
import { deferred } from '../../src/util/deferred.ts';
import { PeergradError, TimeoutError } from '../../src/util/errors.ts';
import { closeBrowser, launchBrowser, type GpuMode } from '../browser/browser.ts';
import { DIST, ensureBuilt } from '../build.ts';
import { ensureBrowser } from '../browser/findBrowser.ts';
import type { Io } from '../io.ts';
import { openTabs } from '../browser/tabs.ts';

export const EXAMPLE_NAMES: readonly string[] = CATALOGUE.map(({ name }) => name);

export interface ExampleOptions {
  tabs?: number;
  headed?: true;
  browser?: string;
  gpu: GpuMode;
  /** Seconds. */
  timeout: number;
}

export async function example(name: string | undefined, options: ExampleOptions, io: Io): Promise<void> {
  if (name === undefined) {
    const width = Math.max(...EXAMPLE_NAMES.map(({ length }) => length));
    for (const entry of CATALOGUE) io.out(`${entry.name.padEnd(width)}  ${entry.about}`);
    return;
  }
  const { gpu, headed = false } = options;
  const executable = await ensureBrowser(options.browser, io.err);
  await ensureBuilt(io);
  const server = await startSignaling({ dist: DIST });
  try {
    io.signal.throwIfAborted();
    const browser = await launchBrowser({ executable, gpu, headed, probeUrl: `${server.url}/healthz` });
    try {
      await runInTabs(browser, `${server.url}/examples/#${name}`, options, io);
    } finally {
      await closeBrowser(browser);
    }
  } finally {
    await server.close();
  }
}

/**
 * Runs an example as a user would: the first tab opens a room and reports the room's code and world
 * size; then the other tabs join.
 *
 * @throws (rejects) PeergradError with the message of the first tab that fails, or TimeoutError
 *   with the names of the tabs that have not finished.
 */
export async function runInTabs(
  browser: Browser,
  page: string,
  options: Pick<ExampleOptions, 'tabs' | 'timeout'>,
  io: Io,
): Promise<void> {
  const done = deferred();
  /** Names of the tabs that still run. A tab with a rank has the name `rank <n>`. */
  const running = new Map<string, string>();
  const fail = (tab: string, message: string): void => {
    const rank = running.get(tab);
    // Failures of a tab that has finished are ignored.
    if (rank !== undefined) done.reject(new PeergradError(`${rank}: ${message.replace(/[^.!?]$/, '$&.')}`));
  };
  const warn = (tab: string, message: string): void => io.err(`${tab}: ${message}`);
  const open = (name: string, url: string): void => {
    running.set(name, name);
    const tabs = [{ name, url }];
    openTabs<ExampleEvent>([browser], { tabs, onevent, ondeath: fail, onerror: warn }).catch(done.reject);
  };
  const onevent = (tab: string, event: ExampleEvent): void => {
    switch (event.type) {
      case 'room':
        for (let i = 2; i <= event.worldSize; i++) open(`tab-${i}`, `${page}?room=${event.room}`);
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
    open('tab-1', options.tabs === undefined ? page : `${page}?tabs=${options.tabs}`);
    const { timeout } = options;
    const late = (): Error =>
      new TimeoutError(
        `Timed out: ${[...running.values()].join(', ')} had not finished after ${timeout} s. Allow more time with --timeout.`,
      );
    await within(systemClock, timeout * 1000, done.promise, late);
  } finally {
    io.signal.removeEventListener('abort', interrupt);
  }
}
