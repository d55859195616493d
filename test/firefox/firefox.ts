/** Firefox for tests. */
import type { Browser, Page } from 'puppeteer-core';
import { describe, test } from 'vitest';
import { BINDING, eventsOf, reportScript } from '../../launcher/browser/pageEvents.ts';
import { findFirefox, launchFirefox, type Preferences } from '../../tools/firefox.ts';
import { EventLog } from '../tabs/harness/eventLog.ts';

/** Milliseconds for one command of a test. Long for slow machines. */
const COMMAND_MS = 60_000;

/** Like `describe`, but skips the tests if Firefox or lavapipe is not installed. */
export function describeInFirefox(title: string, tests: () => void | Promise<void>): void {
  if (findFirefox() === null) {
    test.skip(`${title}: install firefox-esr and mesa-vulkan-drivers to run these tests`);
  } else {
    describe(title, tests);
  }
}

export class FirefoxTab extends EventLog {
  readonly page: Page;

  constructor(page: Page) {
    super();
    this.page = page;
  }

  /** Clicks the button whose visible text or label is `name`. */
  async press(name: string): Promise<void> {
    await this.page.locator(`::-p-aria([name="${name}"][role="button"])`).click();
  }

  /** Types `text` into the field whose label is `name`. */
  async type(name: string, text: string): Promise<void> {
    await this.page.locator(`::-p-aria([name="${name}"][role="textbox"])`).click();
    await this.page.keyboard.type(text);
  }

  /** Resolves once the page shows `text`. */
  async shows(text: string): Promise<void> {
    await this.page.waitForFunction((wanted: string) => document.body.innerText.includes(wanted), {}, text);
  }
}

export class Firefox {
  readonly #browser: Browser;

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  /** Starts Firefox with WebGPU on lavapipe, or with `preferences` of another Firefox. */
  static async start(preferences?: Preferences): Promise<Firefox> {
    return new Firefox(await launchFirefox(COMMAND_MS, preferences));
  }

  /** Opens a tab in a new profile and records the events of its engine. */
  async open(url: string): Promise<FirefoxTab> {
    const context = await this.#browser.createBrowserContext();
    const page = await context.newPage();
    page.setDefaultTimeout(COMMAND_MS);
    const tab = new FirefoxTab(page);
    await page.exposeFunction(BINDING, (batch: string) => tab.receive(eventsOf(batch)));
    await page.evaluateOnNewDocument(reportScript());
    await page.goto(url);
    return tab;
  }

  async close(): Promise<void> {
    await this.#browser.close();
  }
}
