/** What the figures were measured on. */
import { cpus, totalmem } from 'node:os';
import { closeBrowser, launchBrowser } from '../../launcher/browser/browser.ts';
import { table } from '../table.ts';

const GIB = 2 ** 30;

/** Machine, browser and WebGPU adapter. */
export async function machineTable(): Promise<string> {
  const cores = cpus();
  const browser = await launchBrowser();
  try {
    const page = await browser.newPage();
    // Any address of a secure context, without a server.
    await page.goto('chrome://version');
    const adapter = await page.evaluate(async () => {
      const info = (await navigator.gpu?.requestAdapter())?.info;
      return info ? `${info.vendor} ${info.architecture} ${info.description}`.trim() : 'none';
    });
    return table(
      ['machine', 'kind'],
      [
        ['processor', `${cores.length} x ${cores[0]?.model ?? 'unknown'}`],
        ['memory', `${Math.round(totalmem() / GIB)} GiB`],
        ['WebGPU adapter', adapter],
        ['browser', `Chromium ${browser.version()}, headless`],
        ['Node', process.version],
        ['date', new Date().toISOString().slice(0, 10)],
      ],
    );
  } finally {
    await closeBrowser(browser);
  }
}
