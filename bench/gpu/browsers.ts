/** Opens the page of `bench gpu`, in Chromium or in Firefox. */
import { closeBrowser, launchBrowser, type GpuMode } from '../../launcher/browser/browser.ts';
import { loadPage } from '../../launcher/browser/tabs.ts';
import { launchFirefox } from '../../tools/firefox.ts';
import type { ArgsOf, MeasurementName, ResultOf } from './worker.ts';

/** Deadline of a command of Firefox in milliseconds. */
const COMMAND_MS = 10 * 60_000;
/**
 * Chromium then names the GPU, for example "NVIDIA GeForce RTX 4090" instead of "nvidia lovelace".
 * Timestamps of compute passes need no flag of their own: the launcher's `--enable-unsafe-webgpu`
 * turns off their rounding to 0.1 ms.
 */
const FLAGS = ['--enable-webgpu-developer-features'];

/** A page in a browser of its own. */
export interface GpuPage {
  /** Name and version. */
  readonly browser: string;
  /** @throws (rejects) Error if the page has no WebGPU, or the measurement fails. */
  measure<Name extends MeasurementName>(name: Name, args: ArgsOf<Name>): Promise<ResultOf<Name>>;
  close(): Promise<void>;
}

export interface BrowserChoice {
  /** Path of Chrome, Chromium or Edge, or `firefox`. Default: as of the launcher. */
  browser?: string;
  gpu: GpuMode;
}

export async function openGpuPage(url: string, { browser, gpu }: BrowserChoice): Promise<GpuPage> {
  return browser === 'firefox'
    ? openInFirefox(url)
    : openInChromium(url, { gpu, ...(browser && { executable: browser }) });
}

async function openInChromium(url: string, options: { executable?: string; gpu: GpuMode }): Promise<GpuPage> {
  const browser = await launchBrowser({ ...options, flags: FLAGS, probeUrl: url });
  try {
    const page = await browser.newPage();
    await loadPage(page, url);
    return pageOf(
      `Chromium ${browser.version()}`,
      (script) => page.evaluate(script),
      () => closeBrowser(browser),
    );
  } catch (error) {
    await closeBrowser(browser);
    throw error;
  }
}

async function openInFirefox(url: string): Promise<GpuPage> {
  const browser = await launchFirefox(COMMAND_MS);
  try {
    const page = await browser.newPage();
    await page.goto(url);
    return pageOf(
      (await browser.version()).replace('/', ' '),
      (script) => page.evaluate(script),
      () => browser.close(),
    );
  } catch (error) {
    await browser.close();
    throw error;
  }
}

/** The code is passed as text, because the transpiler would add helpers that the page lacks. */
function pageOf(browser: string, evaluate: (script: string) => Promise<unknown>, close: GpuPage['close']): GpuPage {
  return {
    browser,
    measure: async <Name extends MeasurementName>(name: Name, args: ArgsOf<Name>) =>
      (await evaluate(`measureGpu(${JSON.stringify(name)}, ${JSON.stringify(args)})`)) as ResultOf<Name>,
    close,
  };
}
