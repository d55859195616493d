/** A tab in its own browser, so that faults of the browser's processes affect one rank only. */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import type { EngineEvent } from '../../src/protocol/events.ts';
import { errorMessageOf } from '../../src/util/errors.ts';
import { closeBrowser, launchBrowser, type LaunchOptions } from '../../launcher/browser/browser.ts';
import { loadPage, ownProfile } from '../../launcher/browser/tabs.ts';

interface LiveTabOptions {
  launch: LaunchOptions;
  onevent: (tab: string, event: EngineEvent) => void;
  /** Called when the page threw an error. The page may continue. */
  onerror: (tab: string, message: string) => void;
  /** Called when the page's renderer process has ended. */
  oncrash: (tab: string) => void;
}

/** Chromium's process types, as in CDP's `SystemInfo.getProcessInfo`. */
export type ProcessType = 'renderer' | 'network.mojom.NetworkService';

export class LiveTab {
  readonly name: string;
  readonly page: Page;
  readonly #browser: Browser;
  /** Names of the tabs in this browser: the tab and its copies. */
  readonly #names: Map<Page, string>;
  readonly #options: LiveTabOptions;
  readonly #isCopy: boolean;

  private constructor(
    name: string,
    page: Page,
    shared: { browser: Browser; names: Map<Page, string>; options: LiveTabOptions; isCopy: boolean },
  ) {
    this.name = name;
    this.page = page;
    this.#browser = shared.browser;
    this.#names = shared.names;
    this.#options = shared.options;
    this.#isCopy = shared.isCopy;
    shared.names.set(page, name);
    page.on('crash', () => shared.options.oncrash(name));
    page.on('pageerror', (error) => shared.options.onerror(name, errorMessageOf(error)));
  }

  /** @throws (rejects) PeergradError if the browser does not start or the page cannot be loaded. */
  static async open(name: string, url: string, options: LiveTabOptions): Promise<LiveTab> {
    const browser = await launchBrowser(options.launch);
    try {
      const names = new Map<Page, string>();
      const context: BrowserContext = await ownProfile(browser, {
        onevent: (page, event) => options.onevent(names.get(page) ?? name, event as EngineEvent),
      });
      const tab = new LiveTab(name, await context.newPage(), { browser, names, options, isCopy: false });
      await loadPage(tab.page, url);
      return tab;
    } catch (error) {
      await closeBrowser(browser);
      throw error;
    }
  }

  /**
   * Duplicates the tab as the browser's "Duplicate" does: the copy has the same URL and a copy of
   * sessionStorage. It is in the same browser and ends with it.
   */
  async duplicate(name: string): Promise<LiveTab> {
    const shared = { browser: this.#browser, names: this.#names, options: this.#options, isCopy: true };
    const [page] = await Promise.all([
      this.page.context().waitForEvent('page'),
      this.page.evaluate('void window.open(location.href)'),
    ]);
    return new LiveTab(name, page, shared);
  }

  /** Returns the ids of all processes of this type in this tab's browser. */
  async processes(type: ProcessType): Promise<number[]> {
    const session = await this.#browser.newBrowserCDPSession();
    try {
      const { processInfo } = await session.send('SystemInfo.getProcessInfo');
      return processInfo.filter((each) => each.type === type).map(({ id }) => id);
    } finally {
      await session.detach();
    }
  }

  /** Closes the browser, or only the page of a copy. Works with a crashed page. Never rejects. */
  async dispose(): Promise<void> {
    if (!this.#isCopy) await closeBrowser(this.#browser).catch(() => {});
    else await this.page.close().catch(() => {});
  }
}
