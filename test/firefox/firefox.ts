/**
 * Firefox for tests, controlled by WebDriver BiDi. It computes WebGPU in software with Mesa's
 * lavapipe, which is another WebGPU implementation than Chromium's.
 */
import { accessSync, constants, readdirSync } from 'node:fs';
import path from 'node:path';
import puppeteer, { type Browser, type Page } from 'puppeteer-core';
import { describe, test } from 'vitest';
import type { EngineEvent } from '../../src/protocol/events.ts';
import { EventLog } from '../tabs/eventLog.ts';

/** Milliseconds for Firefox to start, and for one command of a test. Long for slow machines. */
const START_MS = 60_000;
const COMMAND_MS = 60_000;

const DRIVERS = '/usr/share/vulkan/icd.d';
const NAMES = ['firefox', 'firefox-esr'];

const programs = (process.env['PATH'] ?? '')
  .split(path.delimiter)
  .flatMap((folder) => NAMES.map((name) => path.join(folder, name)));

/** The path of an installed Firefox; `null` if Firefox is not installed. */
const firefox = programs.find(isProgram) ?? null;
/** File name of lavapipe's driver manifest, which contains the processor's architecture. */
const lavapipe = fileNames(DRIVERS).find((name) => /^lvp_icd\b.*\.json$/.test(name)) ?? null;

/** Like `describe`, but skips the tests if Firefox or lavapipe is not installed. */
export function describeInFirefox(title: string, tests: () => void | Promise<void>): void {
  if (firefox === null || lavapipe === null) {
    test.skip(`${title}: install firefox-esr and mesa-vulkan-drivers to run these tests`);
  } else {
    describe(title, tests);
  }
}

const WITH_WEBGPU = {
  'dom.webgpu.enabled': true,
  'dom.webgpu.workers.enabled': true,
  'gfx.webgpu.ignore-blocklist': true,
};
/** A machine without a network can run the tests too. */
const LOOPBACK = { 'media.peerconnection.ice.loopback': true };

type Preferences = Record<string, boolean | number | string>;

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
  static async start(preferences: Preferences = WITH_WEBGPU): Promise<Firefox> {
    const driver = path.join(DRIVERS, lavapipe!);
    const browser = await puppeteer.launch({
      browser: 'firefox',
      executablePath: firefox!,
      headless: true,
      timeout: START_MS,
      protocolTimeout: COMMAND_MS,
      env: { ...process.env, VK_DRIVER_FILES: driver, VK_ICD_FILENAMES: driver },
      extraPrefsFirefox: { ...LOOPBACK, ...preferences },
    });
    return new Firefox(browser);
  }

  /** Opens a tab in a new profile and records the events of its engine. */
  async open(url: string): Promise<FirefoxTab> {
    const context = await this.#browser.createBrowserContext();
    const page = await context.newPage();
    page.setDefaultTimeout(COMMAND_MS);
    const tab = new FirefoxTab(page);
    await page.exposeFunction('peergradReport', (event: EngineEvent) => tab.receive(event));
    await page.goto(url);
    return tab;
  }

  async close(): Promise<void> {
    await this.#browser.close();
  }
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function fileNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
