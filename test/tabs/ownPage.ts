/**
 * Real tabs for tests of the library: a page of the tests, built, served beside the signaling
 * server, and opened.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { launchBrowser } from '../../launcher/browser/browser.ts';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';
import { deferred } from '../../src/util/deferred.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

export class OwnPage {
  readonly server: SignalingServer;
  readonly url: string;
  readonly #dist: string;
  readonly #ready: string;
  readonly #browser: Browser;

  private constructor(dist: string, html: string, ready: string, server: SignalingServer, browser: Browser) {
    this.server = server;
    this.url = `${server.url}/${html}`;
    this.#dist = dist;
    this.#ready = ready;
    this.#browser = browser;
  }

  /**
   * Builds the page, and starts server and browser.
   *
   * @param html its path in the project.
   * @param ready global that its script sets; a tab is open once it exists.
   */
  static async start(html: string, ready: string): Promise<OwnPage> {
    const dist = await mkdtemp(path.join(tmpdir(), 'peergrad-page-'));
    // Loaded only if needed: most conformance runs have no tabs.
    const { build } = await import('vite');
    const input = path.join(ROOT, html);
    await build({ root: ROOT, logLevel: 'error', build: { outDir: dist, rolldownOptions: { input } } });
    return new OwnPage(dist, html, ready, await startSignaling({ dist }), await launchBrowser());
  }

  /** A new browser profile, for tabs of one machine. */
  async openContext(): Promise<BrowserContext> {
    const context = await this.#browser.newContext();
    // Without it, addresses are hidden behind names of the local network.
    await context.grantPermissions(['microphone']);
    return context;
  }

  async openTab(context: BrowserContext, url = this.url): Promise<Page> {
    const tab = await context.newPage();
    await tab.goto(url);
    await tab.waitForFunction((name) => name in window, this.#ready);
    return tab;
  }

  /** Two tabs of a profile, and the code of the room that the first one opens. */
  async openTwoTabs(): Promise<{ tabs: readonly [Page, Page]; opened: Promise<string> }> {
    const context = await this.openContext();
    const tabs = [await this.openTab(context), await this.openTab(context)] as const;
    const opened = deferred<string>();
    await tabs[0].exposeFunction('onroom', opened.resolve);
    return { tabs, opened: opened.promise };
  }

  async stop(): Promise<void> {
    await this.#browser.close();
    await this.server.close();
    await rm(this.#dist, { recursive: true });
  }
}
