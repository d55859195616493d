/**
 * Real tabs for tests: starts a signaling server and a browser, opens tabs, and records the events
 * of each tab's engine.
 */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach } from 'vitest';
import { DIST } from '../../../launcher/build.ts';
import { launchBrowser, type LaunchOptions } from '../../../launcher/browser/browser.ts';
import { BINDING, eventsOf, reportScript } from '../../../launcher/browser/pageEvents.ts';
import { startSignaling, type SignalingServer } from '../../../signaling/index.ts';
import type { NodeCountRange } from '../../../src/protocol/room.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { EventLog, PATIENCE_MS } from './eventLog.ts';

export class Tab extends EventLog {
  readonly page: Page;
  /** Messages of the browser about violations of the page's Content-Security-Policy. */
  readonly violations: string[] = [];

  constructor(page: Page) {
    super();
    this.page = page;
    page.on('console', (message) => {
      if (message.text().includes('Content Security Policy')) this.violations.push(message.text());
    });
  }

  /** Clicks a button as a slow hand does, while the page receives events. */
  async press(name: string): Promise<void> {
    await this.page.getByRole('button', { name, exact: true }).click({ delay: 400 });
  }
}

interface OpenOptions {
  before?: string;
  /** Disables the page's Content-Security-Policy, which may forbid `before`. */
  bypassCSP?: boolean;
  origin?: string;
  beside?: Tab;
}

type ServerOptions = NonNullable<Parameters<typeof startSignaling>[0]>;

export class World {
  server: SignalingServer;
  readonly #options: ServerOptions;
  readonly #browser: Browser;
  readonly #contexts: BrowserContext[] = [];

  private constructor(server: SignalingServer, options: ServerOptions, browser: Browser) {
    this.server = server;
    this.#options = options;
    this.#browser = browser;
  }

  /** The tabs compute in WebAssembly by default: WebGPU in software takes far longer to start. */
  static async start(options: ServerOptions = {}, launch: LaunchOptions = {}): Promise<World> {
    const served = { dist: DIST, ...options };
    return new World(await startSignaling(served), served, await launchBrowser({ backend: 'wasm', ...launch }));
  }

  /**
   * Stops the server, waits for `meanwhile`, and starts a new server at the same address. The new
   * server has no rooms.
   */
  async restartServer(meanwhile: () => Promise<unknown>): Promise<void> {
    const { port } = this.server;
    await this.server.close();
    await meanwhile();
    this.server = await startSignaling({ ...this.#options, port });
  }

  /**
   * Opens a room whose run starts automatically when `worldSize` ranks have joined. With `nodes`
   * the run is elastic; by default its world size is fixed.
   */
  createRoom(fields: Parameters<typeof parseJob>[0], worldSize: number, nodes: NodeCountRange | null = null): string {
    return this.server.createRoom({ job: parseJob(fields), startAt: worldSize, nodes });
  }

  /**
   * Opens a tab at the server's address followed by `path`. The tab has a new browser profile, or
   * the profile of the tab `beside`. The script `before` runs in the page before any other script.
   */
  async open(
    path: string,
    { before = '', origin = `http://localhost:${this.server.port}`, bypassCSP = false, beside }: OpenOptions = {},
  ): Promise<Tab> {
    const context = beside?.page.context() ?? (await this.#browser.newContext({ bypassCSP }));
    if (beside === undefined) this.#contexts.push(context);
    context.setDefaultTimeout(PATIENCE_MS);
    await context.grantPermissions(['microphone']);
    const page = await context.newPage();
    const tab = new Tab(page);
    await page.exposeBinding(BINDING, (_source, batch: string) => tab.receive(eventsOf(batch)));
    await page.addInitScript(reportScript());
    if (before !== '') await page.addInitScript(before);
    await page.goto(`${origin}/${path}`);
    return tab;
  }

  /** Opens a tab that joins `room` automatically. */
  join(room: string, name: string, options: OpenOptions = {}): Promise<Tab> {
    return this.open(`#${room}?name=${name}&auto`, options);
  }

  /**
   * Kills the browser's GPU process, so all tabs lose their GPU devices. The browser starts a new
   * GPU process.
   */
  async killGpu(): Promise<void> {
    for (const { type, id } of await this.#processes()) if (type === 'GPU') process.kill(id, 'SIGKILL');
  }

  /**
   * Stops all processes of the browser, as if its machine slept. The returned function wakes them
   * up.
   */
  async sleep(): Promise<() => void> {
    const ids = (await this.#processes()).map(({ id }) => id);
    for (const id of ids) process.kill(id, 'SIGSTOP');
    return () => {
      for (const id of ids) process.kill(id, 'SIGCONT');
    };
  }

  async #processes(): Promise<{ type: string; id: number }[]> {
    const cdp = await this.#browser.newBrowserCDPSession();
    const { processInfo } = await cdp.send('SystemInfo.getProcessInfo');
    await cdp.detach();
    return processInfo;
  }

  /** Closes all tabs. The server and the browser remain for the next test. */
  async reset(): Promise<void> {
    await Promise.all(this.#contexts.splice(0).map((context) => context.close()));
  }

  async stop(): Promise<void> {
    await this.#browser.close();
    await this.server.close();
  }
}

/**
 * Starts a world for all tests of a file. Tabs are closed after each test, and the world after the
 * final test.
 */
export async function worldOfFile(options: ServerOptions = {}, launch: LaunchOptions = {}): Promise<World> {
  const world = await World.start(options, launch);
  afterEach(() => world.reset());
  afterAll(() => world.stop());
  return world;
}
