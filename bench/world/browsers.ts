/** Opens a page of a benchmark, in Chromium or in Firefox. */
import { Option } from 'commander';
import { closeBrowser, GPU_MODES, launchBrowser, type GpuMode } from '../../launcher/browser/browser.ts';
import { launchFirefox } from '../../tools/firefox.ts';

/** Deadline of a command of Firefox in milliseconds. */
const COMMAND_MS = 10 * 60_000;
/**
 * Chromium then names the GPU, for example "NVIDIA GeForce RTX 4090" instead of "nvidia lovelace".
 * Timestamps of compute passes need no flag of their own: the launcher's `--enable-unsafe-webgpu`
 * turns off their rounding to 0.1 ms.
 */
const FLAGS = ['--enable-webgpu-developer-features'];

export interface BenchPage {
  /** Name and version. */
  readonly browser: string;
  /**
   * Evaluates an expression in the page. It is text, because the transpiler would add helpers that
   * the page lacks.
   */
  evaluate(expression: string): Promise<unknown>;
  close(): Promise<void>;
}

export interface BrowserChoice {
  /** Path of Chrome, Chromium or Edge, or `firefox`. Default: as of the launcher. */
  browser?: string;
  gpu: GpuMode;
}

/** The options of a benchmark for {@link BrowserChoice}. */
export const BROWSER_OPTIONS = [
  new Option('--browser <path>', 'path of Chrome, Chromium or Edge, or firefox (default: as of the launcher)'),
  new Option('--gpu <mode>', 'device that WebGPU runs on; hardware fails if the adapter computes in software')
    .choices(GPU_MODES)
    .default('auto'),
];

/** Opens the page at `url` in a browser of its own. */
export async function openBenchPage(
  url: string,
  { browser: executable, gpu }: BrowserChoice,
  backend: 'webgpu' | 'wasm' = 'webgpu',
): Promise<BenchPage> {
  if (executable === 'firefox') {
    const firefox = await launchFirefox(COMMAND_MS, backend === 'wasm' ? {} : undefined);
    return openIn(firefox, (await firefox.version()).replace('/', ' '), url, () => firefox.close());
  }
  const options = { ...(executable && { executable }), backend, gpu, flags: FLAGS, probeUrl: url };
  const browser = await launchBrowser(options);
  return openIn(browser, `Chromium ${browser.version()}`, url, () => closeBrowser(browser));
}

type Page = Pick<BenchPage, 'evaluate'> & { goto(url: string): Promise<unknown> };

async function openIn(
  browser: { newPage: () => Promise<Page> },
  name: string,
  url: string,
  close: () => Promise<void>,
): Promise<BenchPage> {
  try {
    const page = await browser.newPage();
    await page.goto(url);
    return { browser: name, evaluate: (expression) => page.evaluate(expression), close };
  } catch (error) {
    await close();
    throw error;
  }
}
