/**
 * Tabs that are kept in somebody else's room: opened, followed, and opened anew where they are
 * lost.
 */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import type { EngineEvent } from '../src/protocol/events.ts';
import { isChosenByTabs } from '../src/spec/job.ts';
import { systemClock } from '../src/util/clock.ts';
import { deferred } from '../src/util/deferred.ts';
import { messageOf, TimeoutError } from '../src/util/errors.ts';
import { awaitServer } from './awaitServer.ts';
import { closeBrowser, launchBrowser, launchBrowsers, type LaunchOptions } from './browser/browser.ts';
import type { Io } from './io.ts';
import { createLog, errorsOf, type Log } from './output/log.ts';
import { Door, keepComing, type Stay } from './rejoin.ts';
import { hearPage, loadPage, openProfile } from './browser/tabs.ts';
import { type TabOutcome, Visit } from './browser/visit.ts';

/** What tabs learn from, where each brings its own. */
export interface GivenData {
  path: string;
  isFolder: boolean;
}

interface AttendanceOptions extends LaunchOptions {
  tabs: readonly { name: string; url: string }[];
  /** `null`: they have none to bring. */
  data: GivenData | null;
  /** Also for runs that follow the first. */
  stays: boolean;
  /** For all of it; `null`: it has all the time. */
  timeoutMs: number | null;
  /** The server's origin. */
  origin: string;
}

/** Milliseconds that a machine's other tabs have to hear the room's last word, too. */
const FAREWELL_MS = 10_000;
/** Folders with left-out pictures that are named. */
const MOST_NAMED = 4;

/** A browser, and the profile that all of its tabs share. */
interface TabSlot {
  browser: Browser;
  profile: BrowserContext;
}

/**
 * Keeps the tabs in their room until its last word; a tab that is just on its way back then is not
 * waited for.
 *
 * @returns what tabs heard, in their order.
 * @throws (rejects) PeergradError where no browser starts; TimeoutError; the reason of `io.signal`.
 */
export async function attend(options: AttendanceOptions, io: Io): Promise<TabOutcome[]> {
  io.signal.throwIfAborted();
  const log = createLog(io, options.tabs[0]!.name, systemClock);
  const fleet = await Fleet.launch(options, log, io.signal);
  const over = deferred();
  const interrupt = (): void => over.reject(io.signal.reason);
  io.signal.addEventListener('abort', interrupt);
  const outcomes = new Map<number, TabOutcome>();
  // Ends the tabs that are still coming once the others are through.
  const ended = new AbortController();
  const signal = AbortSignal.any([io.signal, ended.signal]);
  const { timeoutMs } = options;
  const cancels: (() => void)[] = [];
  if (timeoutMs !== null) {
    const late = new TimeoutError(`The room was not over within ${timeoutMs / 1000} s: allow more with --timeout.`);
    cancels.push(systemClock.after(timeoutMs, () => over.reject(late)));
  }
  const door = new Door();
  const attendances = options.tabs.map(async ({ name }, i) => {
    const outcome = await keepComing({
      ...{ enter: () => fleet.open(i), door, clock: systemClock, random: Math.random, signal },
      onpause: (why, pauseMs) => {
        const line = `${why} Trying again in ${Math.round(pauseMs / 1000)} s.`;
        log.tell('lost', { tab: name, pauseMs: Math.round(pauseMs) }, line);
      },
    });
    outcomes.set(i, outcome);
    if (outcome.kind === 'removed') log.tell('removed', { tab: name }, `${name}: ${outcome.message}`);
    else cancels.push(systemClock.after(FAREWELL_MS, () => over.resolve()));
  });
  Promise.all(attendances).then(() => over.resolve(), over.reject);
  try {
    if (io.signal.aborted) interrupt();
    await over.promise;
    return [...outcomes].sort(([a], [b]) => a - b).map(([, outcome]) => outcome);
  } finally {
    for (const cancel of cancels) cancel();
    io.signal.removeEventListener('abort', interrupt);
    ended.abort();
    log.stop();
    await fleet.close();
  }
}

class Fleet {
  readonly #options: AttendanceOptions;
  readonly #log: Log;
  readonly #slots: TabSlot[] = [];
  readonly #visits = new Map<Page, (event: EngineEvent) => void>();
  readonly #onerror: (tab: string, message: string) => void;
  readonly #signal: AbortSignal;

  private constructor(options: AttendanceOptions, log: Log, signal: AbortSignal) {
    this.#options = options;
    this.#log = log;
    this.#onerror = errorsOf(log);
    this.#signal = signal;
  }

  /** Starts the browsers once the server is there. */
  static async launch(options: AttendanceOptions, log: Log, signal: AbortSignal): Promise<Fleet> {
    const fleet = new Fleet(options, log, signal);
    await fleet.#serverIsThere();
    for (const browser of await launchBrowsers(options.tabs.length, options)) {
      fleet.#slots.push(await fleet.#moor(browser));
    }
    return fleet;
  }

  async close(): Promise<void> {
    await Promise.all(this.#slots.map(({ browser }) => closeBrowser(browser)));
  }

  /**
   * Opens a tab, in a new browser if its own has ended. @throws (rejects) PeergradError where the
   * room does not let it in.
   */
  async open(i: number): Promise<Stay> {
    const { tabs, stays } = this.#options;
    const { name, url } = tabs[i]!;
    const { browser, profile } = await this.#berthOf(i);
    const page = await profile.newPage();
    const visit = new Visit({ name, stays, clock: systemClock });
    const ondeath = (): void => visit.fail('the browser has ended');
    let isAsked = false;
    this.#visits.set(page, (event) => {
      this.#log.on(name, event);
      if (event.type === 'room' && isChosenByTabs(event.job.data) && !isAsked) {
        isAsked = true;
        // Where it could not be given, the room's next word is another chance.
        void this.#giveData(page, name).then((isGiven) => (isAsked = isGiven));
      }
      if (event.type === 'preview' && event.problem !== null) {
        this.#log.tell('unfit-data', { tab: name }, `${name}: ${event.problem}`);
      }
      if (event.type === 'preview' && event.preview?.kind === 'images' && event.preview.leftOut.length > 0) {
        const { leftOut } = event.preview;
        const count = leftOut.reduce((sum, { pictures }) => sum + pictures, 0);
        const folders = leftOut.slice(0, MOST_NAMED).map(({ folder }) => `${folder}/`);
        const some = `${folders.join(', ')}${leftOut.length > folders.length ? ', ...' : ''}`;
        const line = `${name}: ${count} pictures are left out, as their folder is not a class: ${some}.`;
        this.#log.tell('left-out', { tab: name }, line);
      }
      if (event.type === 'admitted') this.#log.tell('admitted', { tab: name }, `${name} is in the room.`);
      if (event.type === 'finished' || event.type === 'failed') this.#log.stop();
      if (event.type === 'finished' && stays) {
        const line = `${name}: the run has finished after ${event.result.steps} steps. Waiting for the next one.`;
        this.#log.tell('waiting', { tab: name }, line);
      }
      visit.on(event);
    });
    hearPage(page, { ondeath: (message) => visit.fail(message), onerror: (message) => this.#onerror(name, message) });
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

  /** As people do, on the page. Never rejects. */
  async #giveData(page: Page, tab: string): Promise<boolean> {
    const { data } = this.#options;
    if (data === null) {
      this.#log.tell('no-data', { tab }, `${tab}: tabs of this room bring files, so join it with --data.`);
      return true;
    }
    const input = data.isFolder ? 'input[webkitdirectory]' : 'input[type=file]:not([webkitdirectory])';
    try {
      await page.locator(`.drop ${input}`).first().setInputFiles(data.path);
      return true;
    } catch (error) {
      this.#log.tell(
        'no-data',
        { tab },
        `${tab}: ${data.path} could not be given: ${messageOf(error).split('\n', 1)[0]}`,
      );
      return false;
    }
  }

  async #berthOf(i: number): Promise<TabSlot> {
    const k = Math.floor(i / Math.ceil(this.#options.tabs.length / this.#slots.length));
    const slot = this.#slots[k]!;
    if (slot.browser.isConnected()) return slot;
    await this.#serverIsThere();
    return (this.#slots[k] = await this.#moor(await launchBrowser(this.#options)));
  }

  /** A browser that starts before would find no WebGPU, which it tries on a page of the server. */
  async #serverIsThere(): Promise<void> {
    const { origin, timeoutMs } = this.#options;
    this.#log.note(`Waiting for the server at ${origin} ...`);
    await awaitServer(origin, timeoutMs ?? Number.POSITIVE_INFINITY, this.#signal);
  }

  async #moor(browser: Browser): Promise<TabSlot> {
    const { remote = false, anyCertificate = false } = this.#options;
    const onevent = (page: Page, event: unknown): void => this.#visits.get(page)?.(event as EngineEvent);
    return { browser, profile: await openProfile(browser, { remote, anyCertificate, onevent }) };
  }
}
