/** Real tabs for tests: a signaling server, a browser, and the events of each tab's engine. */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach } from 'vitest';
import { DIST, ensureBuilt } from '../../launcher/build.ts';
import { launchBrowser } from '../../launcher/browser/browser.ts';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { Nodes } from '../../src/protocol/room.ts';
import { parseJob } from '../../src/spec/job.ts';

/** Deadline for slow machines; a failure names the awaited event. */
const EVENT_TIMEOUT_MS = 60_000;

/** Characters of an event in a failure. */
const STORY_LENGTH = 300;

type EventOf<Type extends EngineEvent['type']> = Extract<EngineEvent, { type: Type }>;

export class Tab {
  readonly page: Page;
  readonly events: EngineEvent[] = [];
  /** Violations of the page's Content-Security-Policy. */
  readonly violations: string[] = [];
  readonly #listeners = new Set<() => void>();

  constructor(page: Page) {
    this.page = page;
    page.on('console', (message) => {
      if (message.text().includes('Content Security Policy')) this.violations.push(message.text());
    });
  }

  /** The latest events and state changes: a run's own events are many, and long. */
  #story(): string {
    const way = this.events.filter(({ type }) => ['state', 'generation', 'failed', 'admitted'].includes(type));
    const last = [...new Set([...way.slice(-6), ...this.events.slice(-3)])];
    return last.map((event) => JSON.stringify(event).slice(0, STORY_LENGTH)).join(', ');
  }

  receive(event: EngineEvent): void {
    this.events.push(event);
    for (const listener of this.#listeners) listener();
  }

  /** Resolves with the first event of `type` that `matches`, past or future. */
  event<Type extends EngineEvent['type']>(
    type: Type,
    matches: (event: EventOf<Type>) => boolean = () => true,
  ): Promise<EventOf<Type>> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const found = this.events.find(
          (event): event is EventOf<Type> => event.type === type && matches(event as EventOf<Type>),
        );
        if (!found) return;
        clearTimeout(timer);
        this.#listeners.delete(look);
        resolve(found);
      };
      const timer = setTimeout(() => {
        this.#listeners.delete(look);
        reject(new Error(`No "${type}" event within ${EVENT_TIMEOUT_MS / 1000} s; the last were ${this.#story()}`));
      }, EVENT_TIMEOUT_MS);
      this.#listeners.add(look);
      look();
    });
  }
}

interface OpenOptions {
  before?: string;
  /** Runs `before` where the page's policy would forbid it. */
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

  static async start(options: ServerOptions = {}): Promise<World> {
    const io = { out: () => {}, err: () => {}, terminal: null, signal: new AbortController().signal };
    await ensureBuilt(io);
    const served = { dist: DIST, ...options };
    return new World(await startSignaling(served), served, await launchBrowser());
  }

  /**
   * Stops the server, waits for `meanwhile`, and starts another at the same address, without the
   * first one's rooms.
   */
  async restartServer(meanwhile: () => Promise<unknown>): Promise<void> {
    const { port } = this.server;
    await this.server.close();
    await meanwhile();
    this.server = await startSignaling({ ...this.#options, port });
  }

  /** Opens a room that starts automatically with `worldSize` ranks; by default it needs as many. */
  createRoom(fields: Parameters<typeof parseJob>[0], worldSize: number, nodes: Nodes | null = null): string {
    return this.server.createRoom({ job: parseJob(fields), startAt: worldSize, nodes });
  }

  /**
   * Opens a tab at `path` behind the server's address, in a new browser profile or in that of the
   * tab `beside` it. `before` runs in the page ahead of everything else.
   */
  async open(
    path: string,
    { before = '', origin = `http://localhost:${this.server.port}`, bypassCSP = false, beside }: OpenOptions = {},
  ): Promise<Tab> {
    const context = beside?.page.context() ?? (await this.#browser.newContext({ bypassCSP }));
    if (beside === undefined) this.#contexts.push(context);
    await context.grantPermissions(['microphone']);
    const page = await context.newPage();
    const tab = new Tab(page);
    await page.exposeBinding('peergradReport', (_source, event: EngineEvent) => tab.receive(event));
    if (before !== '') await page.addInitScript(before);
    await page.goto(`${origin}/${path}`);
    return tab;
  }

  /** Opens a tab that joins `room` automatically. */
  join(room: string, name: string, options: OpenOptions = {}): Promise<Tab> {
    return this.open(`#${room}?name=${name}&auto`, options);
  }

  /** Kills the process of all tabs' GPU devices; the browser starts another. */
  async killGpu(): Promise<void> {
    const cdp = await this.#browser.newBrowserCDPSession();
    const { processInfo } = await cdp.send('SystemInfo.getProcessInfo');
    for (const { type, id } of processInfo) if (type === 'GPU') process.kill(id, 'SIGKILL');
    await cdp.detach();
  }

  /** Closes all tabs; server and browser stay for the next test. */
  async reset(): Promise<void> {
    await Promise.all(this.#contexts.splice(0).map((context) => context.close()));
  }

  async stop(): Promise<void> {
    await this.#browser.close();
    await this.server.close();
  }
}

/**
 * The world of a file's tests: its tabs are closed after each test, and it ends after the last one.
 */
export async function worldOfFile(options: ServerOptions = {}): Promise<World> {
  const world = await World.start(options);
  afterEach(() => world.reset());
  afterAll(() => world.stop());
  return world;
}
