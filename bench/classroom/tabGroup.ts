/** Tabs in a browser of their own, as on one laptop of a class. */
import { launchBrowser, type Browser } from '../../launcher/browser/browser.ts';
import { loadPage, ownProfile, watchPage } from '../../launcher/browser/tabs.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import { systemClock } from '../../src/util/clock.ts';
import { withinDeadline } from '../../src/util/deadline.ts';
import { deferred } from '../../src/util/deferred.ts';
import { TimeoutError } from '../../src/util/errors.ts';
import { killTree, memoryOf, processTree } from './processes.ts';

type Profile = Awaited<ReturnType<typeof ownProfile>>;
type Page = Awaited<ReturnType<Profile['newPage']>>;

interface TabListener {
  onevent: (tab: string, event: EngineEvent) => void;
  /** The tab has crashed. */
  ondeath: (tab: string, message: string) => void;
  /** The page logged an error; it may continue. */
  onerror: (tab: string, message: string) => void;
}

/** Milliseconds until a killed browser must have ended, also while all cores are busy. */
const KILL_MS = 30_000;

export class TabGroup {
  readonly names: string[] = [];
  readonly #browser: Browser;
  readonly #pid: number;
  readonly #profile: Profile;
  readonly #pages: Map<Page, string>;
  readonly #listener: TabListener;

  private constructor(
    browser: Browser,
    pid: number,
    shared: { profile: Profile; pages: Map<Page, string>; listener: TabListener },
  ) {
    this.#browser = browser;
    this.#pid = pid;
    ({ profile: this.#profile, pages: this.#pages, listener: this.#listener } = shared);
  }

  /** Starts the browser. @throws (rejects) PeergradError if it does not start. */
  static async launch(listener: TabListener): Promise<TabGroup> {
    const browser = await launchBrowser({ backend: 'wasm' });
    const cdp = await browser.newBrowserCDPSession();
    const { processInfo } = await cdp.send('SystemInfo.getProcessInfo');
    await cdp.detach();
    const pid = processInfo.find(({ type }) => type === 'browser')!.id;
    const pages = new Map<Page, string>();
    const profile = await ownProfile(browser, {
      // Pupils see their pages.
      isSeen: true,
      onevent: (page, event) => listener.onevent(pages.get(page) ?? '?', event as EngineEvent),
    });
    return new TabGroup(browser, pid, { profile, pages, listener });
  }

  /** Opens a tab. @throws (rejects) PeergradError if the page cannot be loaded. */
  async open(name: string, url: string): Promise<Page> {
    this.names.push(name);
    const page = await this.#profile.newPage();
    this.#pages.set(page, name);
    watchPage(page, {
      ondeath: (message) => this.#listener.ondeath(name, message),
      onerror: (message) => this.#listener.onerror(name, message),
    });
    await loadPage(page, url);
    return page;
  }

  /** Returns the memory of all processes of the browser, in bytes. */
  memory(): number {
    return processTree(this.#pid).reduce((sum, pid) => sum + memoryOf(pid), 0);
  }

  /**
   * Kills the browser, as if the laptop had lost power: the tabs send no farewell. Resolves when
   * the browser has ended.
   */
  async kill(): Promise<void> {
    if (!this.#browser.isConnected()) return;
    const ended = deferred();
    this.#browser.on('disconnected', () => ended.resolve());
    killTree(this.#pid);
    const late = (): Error => new TimeoutError(`Process ${this.#pid} did not end within ${KILL_MS / 1000} s.`);
    await withinDeadline(systemClock, KILL_MS, ended.promise, late);
  }
}
