/** Keeps tabs in a room of another server: opens them, follows them, and reopens lost ones. */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import type { EngineEvent } from '../src/protocol/events.ts';
import { isDataChosenInTabs } from '../src/spec/job.ts';
import { systemClock } from '../src/util/clock.ts';
import { createDeferred } from '../src/util/deferred.ts';
import { errorMessageOf, TimeoutError } from '../src/util/errors.ts';
import { awaitServer } from './awaitServer.ts';
import { closeBrowser, launchBrowser, launchBrowsers, type LaunchOptions } from './browser/browser.ts';
import type { Io } from './io.ts';
import { createLog, errorsOf, type Log } from './output/log.ts';
import { AdmissionQueue, keepTabInRoom, type AdmittedTab } from './rejoin.ts';
import { watchPage, loadPage, ownProfile } from './browser/tabs.ts';
import { type TabOutcome, Visit } from './browser/visit.ts';

/** Training data of tabs in a room where each tab brings its own. */
export interface TabData {
  path: string;
  isFolder: boolean;
}

interface JoinTabsOptions extends LaunchOptions {
  tabs: readonly { name: string; url: string }[];
  /** `null`: the tabs have no data of their own. */
  data: TabData | null;
  /** Whether the tabs also take part in the runs after the first. */
  stays: boolean;
  /** Milliseconds until all tabs must have ended; `null`: no limit. */
  timeoutMs: number | null;
  /** The server's origin. */
  origin: string;
}

/**
 * Milliseconds to wait for this machine's other tabs after the first tab has received the end of
 * the run.
 */
const LAST_EVENT_MS = 10_000;

/** A browser, and the profile that all its tabs share. */
interface TabSlot {
  browser: Browser;
  profile: BrowserContext;
}

/**
 * Keeps the tabs in their room until the run has ended or they are removed. At the end, it does not
 * wait for tabs that are still reconnecting.
 *
 * @returns the outcomes, in the order of the tabs.
 * @throws (rejects) PeergradError if no browser starts; TimeoutError when the time is up; the
 *   reason of `io.signal` when it is aborted.
 */
export async function joinTabs(options: JoinTabsOptions, io: Io): Promise<TabOutcome[]> {
  io.signal.throwIfAborted();
  const log = createLog(io, options.tabs[0]!.name, systemClock);
  const pool = await BrowserPool.launch(options, log, io.signal);
  const over = createDeferred();
  const interrupt = (): void => over.reject(io.signal.reason);
  io.signal.addEventListener('abort', interrupt);
  const outcomes = new Map<number, TabOutcome>();
  // Aborts the attempts of tabs that are still reconnecting at the end.
  const ended = new AbortController();
  const signal = AbortSignal.any([io.signal, ended.signal]);
  const { timeoutMs } = options;
  const cancels: (() => void)[] = [];
  if (timeoutMs !== null) {
    const late = new TimeoutError(`The run did not end within ${timeoutMs / 1000} s. Allow more time with --timeout.`);
    cancels.push(systemClock.after(timeoutMs, () => over.reject(late)));
  }
  const queue = new AdmissionQueue();
  const stays = options.tabs.map(async ({ name }, i) => {
    const outcome = await keepTabInRoom({
      enter: () => pool.open(i),
      queue,
      clock: systemClock,
      random: Math.random,
      signal,
      onpause: (why, pauseMs) => {
        const line = `${why} Trying again in ${Math.round(pauseMs / 1000)} s.`;
        log.event('lost', { tab: name, pauseMs: Math.round(pauseMs) }, line);
      },
    });
    outcomes.set(i, outcome);
    if (outcome.kind === 'removed') log.event('removed', { tab: name }, `${name}: ${outcome.message}`);
    else cancels.push(systemClock.after(LAST_EVENT_MS, () => over.resolve()));
  });
  Promise.all(stays).then(() => over.resolve(), over.reject);
  try {
    if (io.signal.aborted) interrupt();
    await over.promise;
    return [...outcomes].sort(([a], [b]) => a - b).map(([, outcome]) => outcome);
  } finally {
    for (const cancel of cancels) cancel();
    io.signal.removeEventListener('abort', interrupt);
    ended.abort();
    log.stop();
    await pool.close();
  }
}

class BrowserPool {
  readonly #options: JoinTabsOptions;
  readonly #log: Log;
  readonly #slots: TabSlot[] = [];
  readonly #visits = new Map<Page, (event: EngineEvent) => void>();
  readonly #onerror: (tab: string, message: string) => void;
  readonly #signal: AbortSignal;

  private constructor(options: JoinTabsOptions, log: Log, signal: AbortSignal) {
    this.#options = options;
    this.#log = log;
    this.#onerror = errorsOf(log);
    this.#signal = signal;
  }

  /** Starts the browsers when the server answers. */
  static async launch(options: JoinTabsOptions, log: Log, signal: AbortSignal): Promise<BrowserPool> {
    const pool = new BrowserPool(options, log, signal);
    await pool.#awaitServer();
    for (const browser of await launchBrowsers(options.tabs.length, options)) {
      pool.#slots.push(await pool.#createSlot(browser));
    }
    return pool;
  }

  async close(): Promise<void> {
    await Promise.all(this.#slots.map(({ browser }) => closeBrowser(browser)));
  }

  /**
   * Opens a tab. If the tab's browser has ended, a new one is started.
   *
   * @throws (rejects) PeergradError if the room does not admit it.
   */
  async open(i: number): Promise<AdmittedTab> {
    const { tabs, stays } = this.#options;
    const { name, url } = tabs[i]!;
    const { browser, profile } = await this.#slotOf(i);
    const page = await profile.newPage();
    const visit = new Visit({ name, stays, clock: systemClock });
    const ondeath = (): void => visit.fail('the browser has ended');
    let isAsked = false;
    this.#visits.set(page, (event) => {
      this.#log.on(name, event);
      if (event.type === 'room' && isDataChosenInTabs(event.job.data) && !isAsked) {
        isAsked = true;
        // If the upload failed, it is tried again at the next `room` event.
        void this.#uploadData(page, name).then((isUploaded) => (isAsked = isUploaded));
      }
      if (event.type === 'preview' && event.problem !== null) {
        this.#log.event('unfit-data', { tab: name }, `${name}: ${event.problem}`);
      }
      if (event.type === 'admitted') this.#log.event('admitted', { tab: name }, `${name} is in the room.`);
      if (event.type === 'finished' || event.type === 'failed') this.#log.stop();
      if (event.type === 'finished' && stays) {
        const line = `${name}: the run has finished after ${event.result.steps} steps. Waiting for the next one.`;
        this.#log.event('waiting', { tab: name }, line);
      }
      visit.on(event);
    });
    watchPage(page, { ondeath: (message) => visit.fail(message), onerror: (message) => this.#onerror(name, message) });
    browser.on('disconnected', ondeath);
    const close = async (): Promise<void> => {
      visit.close();
      browser.off('disconnected', ondeath);
      this.#visits.delete(page);
      await page.close().catch(() => {});
    };
    try {
      await Promise.all([loadPage(page, url), visit.admitted]);
    } catch (error) {
      await close();
      throw error;
    }
    return { over: visit.over, close };
  }

  /**
   * Chooses the data files on the page, as a user does. Resolves with `false` if this failed. Never
   * rejects.
   */
  async #uploadData(page: Page, tab: string): Promise<boolean> {
    const { data } = this.#options;
    if (data === null) {
      this.#log.event('no-data', { tab }, `${tab}: in this room each tab has its own files. Pass them with --data.`);
      return true;
    }
    const input = data.isFolder ? 'input[webkitdirectory]' : 'input[type=file]:not([webkitdirectory])';
    try {
      await page.locator(`.drop ${input}`).first().setInputFiles(data.path);
      return true;
    } catch (error) {
      this.#log.event(
        'no-data',
        { tab },
        `${tab}: the page could not open ${data.path}. (${errorMessageOf(error).split('\n', 1)[0]})`,
      );
      return false;
    }
  }

  async #slotOf(i: number): Promise<TabSlot> {
    const k = Math.floor(i / Math.ceil(this.#options.tabs.length / this.#slots.length));
    const slot = this.#slots[k]!;
    if (slot.browser.isConnected()) return slot;
    await this.#awaitServer();
    return (this.#slots[k] = await this.#createSlot(await launchBrowser(this.#options)));
  }

  /**
   * Waits for the server before a browser starts, because the launcher tries WebGPU on a page of
   * the server.
   */
  async #awaitServer(): Promise<void> {
    const { origin, timeoutMs } = this.#options;
    this.#log.note(`Waiting for the server at ${origin} ...`);
    await awaitServer(origin, timeoutMs ?? Number.POSITIVE_INFINITY, {
      clock: systemClock,
      signal: this.#signal,
      note: (line) => this.#log.note(line),
    });
  }

  async #createSlot(browser: Browser): Promise<TabSlot> {
    const { remote = false, headed = false } = this.#options;
    const onevent = (page: Page, event: unknown): void => this.#visits.get(page)?.(event as EngineEvent);
    return { browser, profile: await ownProfile(browser, { remote, isSeen: headed, onevent }) };
  }
}
