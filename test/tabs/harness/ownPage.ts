/**
 * Real tabs for tests of the library: builds a page of the tests, starts a server for the page and
 * for signaling, and opens the page in tabs.
 */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { launchBrowser } from '../../../launcher/browser/browser.ts';
import { startSignaling, type SignalingServer } from '../../../signaling/index.ts';
import { createDeferred } from '../../../src/util/deferred.ts';
import { buildPage } from '../../../tools/buildPage.ts';

export class OwnPage {
  readonly server: SignalingServer;
  readonly url: string;
  readonly #remove: () => Promise<void>;
  readonly #ready: string;
  readonly #browser: Browser;

  private constructor(
    remove: () => Promise<void>,
    html: string,
    ready: string,
    server: SignalingServer,
    browser: Browser,
  ) {
    this.server = server;
    this.url = `${server.url}/${html}`;
    this.#remove = remove;
    this.#ready = ready;
    this.#browser = browser;
  }

  /**
   * Builds the page, and starts server and browser.
   *
   * @param html path of the page in the project.
   * @param ready name of a global that the page's script defines; the tab is ready once it exists.
   */
  static async start(html: string, ready: string): Promise<OwnPage> {
    const { dist, remove } = await buildPage(html);
    return new OwnPage(remove, html, ready, await startSignaling({ dist }), await launchBrowser());
  }

  /** Opens a new browser profile. Its tabs belong to one machine. */
  async openContext(): Promise<BrowserContext> {
    const context = await this.#browser.newContext();
    // Without this permission, WebRTC hides local IP addresses behind mDNS names.
    await context.grantPermissions(['microphone']);
    return context;
  }

  async openTab(context: BrowserContext, url = this.url): Promise<Page> {
    const tab = await context.newPage();
    await tab.goto(url);
    await tab.waitForFunction((name) => name in window, this.#ready);
    return tab;
  }

  /**
   * Opens two tabs of one profile. `opened` resolves with the code of the room that the first tab
   * opens.
   */
  async openTwoTabs(): Promise<{ tabs: readonly [Page, Page]; opened: Promise<string> }> {
    const context = await this.openContext();
    const tabs = [await this.openTab(context), await this.openTab(context)] as const;
    const opened = createDeferred<string>();
    await tabs[0].exposeFunction('onroom', opened.resolve);
    return { tabs, opened: opened.promise };
  }

  async stop(): Promise<void> {
    await this.#browser.close();
    await this.server.close();
    await this.#remove();
  }
}
