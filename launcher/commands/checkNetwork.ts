/**
 * `peergrad check-network`: checks the network between this machine, a server and other devices, as
 * the page `#network` does.
 */
import { hostname } from 'node:os';
import type { Browser, Page } from 'playwright-core';
import { NETWORK_ADVICE, type NetworkCheckEvent } from '../../src/protocol/networkCheck.ts';
import { systemClock } from '../../src/util/clock.ts';
import { unlessAborted, withinDeadline } from '../../src/util/deadline.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { PeergradError, TimeoutError, UsageError } from '../../src/util/errors.ts';
import { closeBrowser, launchBrowser } from '../browser/browser.ts';
import { ensureBrowser } from '../browser/findBrowser.ts';
import { loadPage, ownProfile, watchPage } from '../browser/tabs.ts';
import type { Io } from '../io.ts';
import { shortened } from './join.ts';

export interface CheckNetworkOptions {
  json?: true;
  browser?: string;
  /** Seconds. */
  timeout: number;
}

export async function checkNetwork(address: string, options: CheckNetworkOptions, io: Io): Promise<void> {
  const page = pageOf(address);
  const executable = await ensureBrowser(options.browser, io.err);
  io.signal.throwIfAborted();
  // The server is usually on another machine, and nobody could confirm an exception for its
  // certificate.
  const browser = await launchBrowser({ executable, backend: 'wasm', remote: true, anyCertificate: true });
  try {
    const late = (): Error =>
      new TimeoutError(`The checks took longer than ${options.timeout} s. Allow more time with --timeout.`);
    const checks = unlessAborted(io.signal, checkInTabs(browser, page, io));
    const event = await withinDeadline(systemClock, options.timeout * 1000, checks, late);
    if (options.json === true) io.out(JSON.stringify({ advice: event.advice, text: event.text, ...event.report }));
    else for (const line of tableOf(event)) io.out(line);
    // The error is the advice.
    if (NETWORK_ADVICE[event.advice] !== true) throw new PeergradError(event.text);
    if (options.json !== true) io.out(event.text);
  } finally {
    await closeBrowser(browser);
  }
}

/** Opens the page in a tab, and in a second one if no other device shows the page. */
async function checkInTabs(browser: Browser, page: string, io: Io): Promise<NetworkCheckEvent> {
  const name = shortened(hostname());
  const first = createDeferred<NetworkCheckEvent>();
  const done = createDeferred<NetworkCheckEvent>();
  // A page may end before the result is awaited.
  done.promise.catch(() => {});
  const pages: Page[] = [];
  const profile = await ownProfile(browser, {
    remote: true,
    onevent: (from, event) => {
      const { advice, report } = event as NetworkCheckEvent;
      if (from !== pages[0] || advice === 'wait') return;
      first.resolve(event as NetworkCheckEvent);
      if (advice !== 'alone' || report.socket.verdict === 'fails') done.resolve(event as NetworkCheckEvent);
    },
  });
  const open = async (tab: string): Promise<void> => {
    const one = await profile.newPage();
    pages.push(one);
    watchPage(one, {
      ondeath: (message) => done.reject(new PeergradError(`The page that checks the network failed: ${message}.`)),
      onerror: (message) => io.err(message),
    });
    await loadPage(one, `${page}#network?lang=en&name=${encodeURIComponent(tab)}`);
  };
  await open(name);
  const { advice } = await Promise.race([first.promise, done.promise]);
  if (advice === 'alone') {
    io.err(
      'No other device shows the page #network. A second tab of this machine is opened, which checks the link through ' +
        'the server, but not the network between devices.',
    );
    await open(`${name}-2`);
  }
  return done.promise;
}

/** Returns a line for each result. */
export function tableOf({ rows }: Pick<NetworkCheckEvent, 'rows'>): string[] {
  const [names, results] = [rows.map(({ name }) => name.length), rows.map(({ result }) => result.length)];
  return rows.map(({ name, result, note }) =>
    `${name.padEnd(Math.max(...names))}  ${result.padEnd(Math.max(...results))}  ${note}`.trimEnd(),
  );
}

/**
 * Returns the address of the page without room and settings.
 *
 * @throws UsageError if it is not the address of a page.
 */
export function pageOf(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`"${address}" is not the address of a page. Pass one such as https://192.168.1.5:8080.`);
  }
  return `${url.origin}${url.pathname}`;
}
