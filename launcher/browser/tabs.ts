/**
 * Opens the pages of a run in one or more browsers, and forwards their events. Each page is a rank.
 */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { ANIMATION_EVENT_TYPES, type EngineEvent } from '../../src/protocol/events.ts';
import type { ModelFileFormat } from '../../src/spec/modelFile.ts';
import { errorMessageOf, PeergradError } from '../../src/util/errors.ts';
import { VIEWPORT, type LaunchOptions } from './browser.ts';
import { BINDING, eventsOf, reportScript } from './pageEvents.ts';

interface TabsOptions extends Pick<ProfileOptions, 'remote' | 'isSeen'> {
  /** Name and URL of each tab. */
  tabs: readonly { name: string; url: string }[];
  onevent: (tab: string, event: EngineEvent) => void;
  /** The tab has crashed or closed. */
  ondeath: (tab: string, message: string) => void;
  /** The page logged an error; it may continue. */
  onerror: (tab: string, message: string) => void;
  /** A checkpoint from which the first tab's run continues, or weights with which it starts. */
  origin?: Origin | null | undefined;
  /** Whether a run waits after each state comparison until {@link Tabs.release} is called. */
  waitsForCheckpoints?: boolean;
}

export interface Origin {
  name: string;
  content: Blob;
}

export interface Tabs {
  /** Continues the runs that wait after `step`. */
  release(step: number): Promise<void>;
  /** Requests a tab's model. The engine answers with the event `exported`. */
  askForModel(tab: string, format: ModelFileFormat): Promise<void>;
  /** Reads the bytes from..to-1 of the file that a tab exported; fewer at the end of the file. */
  readModel(tab: string, from: number, to: number): Promise<Uint8Array>;
  screenshot(tab: string, file: string): Promise<void>;
}

/**
 * Milliseconds for which the ring animation plays before the screenshot, so that the picture shows
 * moving chunks.
 */
const PLAY_MS = 2_500;
/** Bytes that all tabs of a browser together may store. */
const STORAGE_BYTES = 8 * 1024 ** 3;
/** Milliseconds for a page to load. It is long because 64 pages load slowly on two cores. */
const LOAD_MS = 120_000;

/**
 * Types of events that pages do not report. Only a page draws them, and reporting so many events
 * would slow down the run.
 */
const NOT_REPORTED = [...ANIMATION_EVENT_TYPES, 'segments'] as const;

/**
 * A line of the debug log as a console receives it, with the styles of its parts: `%cSCOPE %c%s%c
 * +TIME STYLE STYLE LINE STYLE`.
 */
const DEBUG_LINE = /^%c(peergrad:\w+) %c%s%c \+\S+ color: \S+ color: inherit (.*) color: \S+$/s;

/**
 * Distributes the tabs evenly over the browsers and opens them.
 *
 * @throws (rejects) PeergradError if a page cannot be loaded.
 */
export async function openTabs(browsers: readonly Browser[], options: TabsOptions): Promise<Tabs> {
  const pages = new Map<string, Page>();
  const share = Math.ceil(options.tabs.length / browsers.length);
  await Promise.all(
    browsers.map((browser, i) => {
      const tabs = options.tabs.slice(i * share, (i + 1) * share);
      return openShare(browser, { ...options, tabs, origin: i === 0 ? options.origin : null }, pages);
    }),
  );
  return {
    async release(step) {
      await Promise.all(
        [...pages.values()].map((page) => page.evaluate(`globalThis.peergradCheckpointSaved(${step})`)),
      );
    },
    async askForModel(tab, format) {
      // The code is passed as text. If it were a function, the transpiler would add calls of
      // helpers that do not exist in the page.
      await pages.get(tab)?.evaluate(`globalThis.peergradExport(${JSON.stringify(format)})`);
    },
    async readModel(tab, from, to) {
      const page = pages.get(tab);
      if (!page) throw new PeergradError(`${tab} has no page.`);
      return page.evaluate<Uint8Array>(`globalThis.peergradModelPart(${from}, ${to})`);
    },
    async screenshot(tab, file) {
      const page = pages.get(tab);
      // The launcher's pages start with a paused ring animation. The Space key starts it.
      await page?.keyboard.press('Space');
      await page?.waitForTimeout(PLAY_MS);
      await page?.screenshot({ path: file, type: 'png' });
    },
  };
}

/** Opens the tabs of one browser and adds their pages to `pages`. */
async function openShare(browser: Browser, options: TabsOptions, pages: Map<string, Page>): Promise<void> {
  const names = new Map<Page, string>();
  const context = await ownProfile(browser, {
    ...options,
    onevent: (page, event) => options.onevent(names.get(page) ?? '?', event as EngineEvent),
  });
  browser.on('disconnected', () => {
    for (const name of names.values()) options.ondeath(name, 'the browser has ended');
  });
  await Promise.all(
    options.tabs.map(({ name, url }, i) =>
      openTab(context, name, url, names, i === 0 ? options : { ...options, origin: null }),
    ),
  );
  for (const [page, name] of names) pages.set(name, page);
}

interface ProfileOptions extends Pick<LaunchOptions, 'remote'> {
  /** Whether somebody sees the pages, or a picture of them. Default: nobody does. */
  isSeen?: boolean;
  /** Receives the engine events of the profile's pages. */
  onevent: (page: Page, event: unknown) => void;
}

/**
 * Returns the browser's own profile, in which pages access stored files fast. Call it once for each
 * browser.
 */
export async function ownProfile(browser: Browser, options: ProfileOptions): Promise<BrowserContext> {
  return prepare(browser.contexts()[0]!, options);
}

/** Opens a private profile, whose pages are not linked to other profiles by message ports. */
export async function openProfile(browser: Browser, options: ProfileOptions): Promise<BrowserContext> {
  return prepare(await browser.newContext({ viewport: VIEWPORT }), options);
}

async function prepare(
  context: BrowserContext,
  { remote = false, isSeen = false, onevent }: ProfileOptions,
): Promise<BrowserContext> {
  // Chromium uses all network interfaces for WebRTC only if the page may use the microphone.
  // Without this permission, it finds only the interface of the default route.
  if (!remote) await context.grantPermissions(['microphone']);
  await context.exposeBinding(BINDING, ({ page }, batch: string) => {
    for (const event of eventsOf(batch)) onevent(page, event);
  });
  await context.addInitScript(reportScript(NOT_REPORTED));
  if (!isSeen) await context.addInitScript('globalThis.peergradUnseen = true;');
  // If DEBUG turns on the debug log of this process, it also turns on the debug logs of the tabs.
  // Their lines contain the tab's rank and member id.
  const patterns = process.env['DEBUG'];
  if (patterns !== undefined) {
    await context.addInitScript(`try { localStorage.debug = ${JSON.stringify(patterns)}; } catch {}`);
    context.on('console', (message) => {
      const line = DEBUG_LINE.exec(message.text());
      if (line) console.error(new Date().toISOString(), line[1], line[2]);
    });
  }
  return context;
}

async function openTab(
  context: BrowserContext,
  name: string,
  url: string,
  names: Map<Page, string>,
  {
    ondeath,
    onerror,
    origin,
    waitsForCheckpoints = false,
  }: Pick<TabsOptions, 'ondeath' | 'onerror' | 'origin' | 'waitsForCheckpoints'>,
): Promise<void> {
  const page = await context.newPage();
  names.set(page, name);
  // The quota of a small disk is too small for a pipeline, in which ranks store copies of other
  // ranks' layers.
  const cdp = await context.newCDPSession(page);
  await cdp.send('Storage.overrideQuotaForOrigin', { origin: new URL(url).origin, quotaSize: STORAGE_BYTES });
  watchPage(page, { ondeath: (message) => ondeath(name, message), onerror: (message) => onerror(name, message) });
  if (origin) {
    const { name: file, content } = origin;
    await page.exposeBinding('peergradOrigin', () => ({ name: file, size: content.size }));
    await page.exposeBinding(
      'peergradOriginPart',
      async (_source, from: number, to: number) => new Uint8Array(await content.slice(from, to).arrayBuffer()),
    );
  }
  if (waitsForCheckpoints) await page.addInitScript('globalThis.peergradCheckpointBarrier = true;');
  await loadPage(page, url);
}

/** Reports when a page crashes, and the errors that the page logs. */
export function watchPage(
  page: Page,
  { ondeath, onerror }: { ondeath: (message: string) => void; onerror: (message: string) => void },
): void {
  page.on('crash', () => ondeath('the tab crashed. It may have run out of memory'));
  page.on('pageerror', (error) => onerror(errorMessageOf(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') onerror(message.text());
  });
}

/** @throws (rejects) PeergradError if the page cannot be loaded. */
export async function loadPage(page: Page, url: string): Promise<void> {
  let status: number | undefined;
  try {
    status = (await page.goto(url, { timeout: LOAD_MS, waitUntil: 'domcontentloaded' }))?.status();
  } catch (error) {
    const reason = /net::(ERR_\w+)/.exec(errorMessageOf(error))?.[1] ?? errorMessageOf(error).split('\n', 1)[0];
    throw new PeergradError(
      `The page at ${new URL(url).origin} could not be loaded (${reason}). Check the address, and check that the server runs.`,
    );
  }
  if (status !== undefined && status >= 400) {
    throw new PeergradError(
      `The server at ${new URL(url).origin} answered with HTTP status ${status} instead of the page. Check the address.`,
    );
  }
}
