/**
 * Opens ranks in real tabs, without the app. Each tab has connections on its page and a process
 * group in its worker, as in a training run. Experiments run on all ranks at once; `experiments.ts`
 * lists them.
 */
import { createServer, type ViteDevServer } from 'vite';
import path from 'node:path';
import { closeBrowser, launchBrowser, type Browser } from '../../launcher/browser/browser.ts';
import { loadPage, ownProfile } from '../../launcher/browser/tabs.ts';
import type { Io } from '../../launcher/io.ts';
import { iceServersFor, NO_ICE, type IceOptions } from '../../signaling/ice.ts';
import type { TransportName } from '../../src/spec/names.ts';
import { unlessAborted } from '../../src/util/deadline.ts';
import { errorMessageOf, PeergradError } from '../../src/util/errors.ts';
import { LoadGenerator } from '../signaling/child.ts';
import { startRun, type JoinedMember } from '../signaling/members.ts';
import type { ServerCpu, ServerOptions, ServerReply } from '../signaling/serverProcess.ts';
import type { ArgsOf, ExperimentName, ResultOf } from './experiments.ts';
import type { RankSetup, ServedRank, TabSignal } from './rank.ts';

type Page = Parameters<typeof loadPage>[0];
type Profile = Awaited<ReturnType<typeof ownProfile>>;

interface WorldOptions {
  /** Default: `webrtc`. `server`: only through a signaling server, which runs on this machine. */
  transport?: TransportName | 'server';
  /** TURN server of the tabs. Default: none. */
  ice?: IceOptions;
}

/**
 * Timeout of a page load in milliseconds. During the first load, modules are compiled and packages
 * are bundled on the same cores.
 */
const LOAD_MS = 120_000;

const HOST = '127.0.0.1';
const ROOT = path.resolve(import.meta.dirname, '../..');

export class World {
  /** `null` if ranks are not linked through a server. */
  readonly #room: ServedRoom | null;
  readonly #server: ViteDevServer;
  readonly #signal: AbortSignal;
  /** `null` before it starts. */
  #browser: Browser | null = null;
  /** By rank. */
  readonly #pages: Page[] = [];

  private constructor(server: ViteDevServer, room: ServedRoom | null, signal: AbortSignal) {
    this.#server = server;
    this.#room = room;
    this.#signal = signal;
  }

  /**
   * Opens a world of `tabs` ranks in one browser and links them to their neighbours.
   *
   * @param io `signal` interrupts the world: when it is aborted, all calls reject with its reason.
   * @throws (rejects) PeergradError if the browser or a page fails. The browser is closed then.
   */
  static async open(
    tabs: number,
    { signal }: Pick<Io, 'signal'>,
    { transport = 'webrtc', ice = NO_ICE }: WorldOptions = {},
  ): Promise<World> {
    const server = await createServer({
      root: ROOT,
      configFile: path.join(ROOT, 'vite.config.ts'),
      logLevel: 'error',
      server: { port: 0, host: HOST, hmr: false, watch: null },
      // All entries are listed here, because Vite would otherwise find a package later, bundle it,
      // and reload all pages while they run.
      optimizeDeps: { entries: ['bench/world/page.html', 'bench/world/worker.ts'] },
    });
    const world = new World(server, transport === 'server' ? new ServedRoom(tabs) : null, signal);
    try {
      await server.listen();
      const { port } = server.httpServer!.address() as { port: number };
      world.#browser = await launchBrowser();
      const profile = await ownProfile(world.#browser, { onevent: (page, message) => world.#relay(page, message) });
      const url = `http://${HOST}:${port}/bench/world/page.html`;
      await unlessAborted(signal, world.#openTabs(profile, url, tabs, { transport, ice }));
      return world;
    } catch (error) {
      await world.close();
      throw error;
    }
  }

  get size(): number {
    return this.#pages.length;
  }

  /**
   * Runs an experiment on all ranks at once. Resolves with the results in the order of ranks.
   *
   * @throws (rejects) PeergradError of the first rank that fails.
   */
  run<Name extends ExperimentName>(name: Name, args: ArgsOf<Name>): Promise<ResultOf<Name>[]> {
    return this.#onAll<ResultOf<Name>>(() => `rankPage.run(${JSON.stringify(name)}, ${JSON.stringify(args)})`);
  }

  /**
   * Resolves with the processor time of the server that links ranks, in milliseconds since it
   * began; `null` if ranks are not linked through a server.
   */
  async serverCpuMs(): Promise<number | null> {
    return this.#room && this.#room.cpuMs();
  }

  /** Sends a signal of a page to the page of another rank. */
  #relay(page: Page, message: unknown): void {
    const { to, signal } = message as { to: number; signal: TabSignal };
    const script = `rankPage.receiveSignal(${this.#pages.indexOf(page)}, ${JSON.stringify(signal)})`;
    // Errors are ignored, because a closed tab needs no signals.
    void this.#call(to, script).catch(() => {});
  }

  async #openTabs(
    profile: Profile,
    url: string,
    tabs: number,
    { transport, ice }: Required<WorldOptions>,
  ): Promise<void> {
    for (let rank = 0; rank < tabs; rank++) {
      const page = await profile.newPage();
      this.#pages.push(page);
      await loadPage(page, url);
      await page.waitForFunction('"rankPage" in window', undefined, { timeout: LOAD_MS });
    }
    const served = await this.#room?.open();
    await this.#onAll((rank) => {
      const iceServers = iceServersFor(`rank-${rank}`, ice, Date.now());
      const setup: RankSetup = {
        rank,
        worldSize: tabs,
        transport: transport === 'auto' ? 'auto' : 'webrtc',
        served: served?.[rank] ?? null,
        iceServers,
        relayOnly: ice.relayOnly,
      };
      return `rankPage.start(${JSON.stringify(setup)})`;
    });
  }

  #onAll<Result>(script: (rank: number) => string): Promise<Result[]> {
    return Promise.all(this.#pages.map((_, rank) => this.#call<Result>(rank, script(rank))));
  }

  async #call<Result>(rank: number, script: string): Promise<Result> {
    try {
      return await unlessAborted(this.#signal, this.#pages[rank]!.evaluate<Result>(script));
    } catch (error) {
      this.#signal.throwIfAborted();
      throw new PeergradError(`Rank ${rank}: ${errorMessageOf(error)}`);
    }
  }

  async close(): Promise<void> {
    if (this.#browser) await closeBrowser(this.#browser);
    await this.#room?.close();
    await this.#server.close();
  }
}

/** A server in a process of its own, with a running room whose tabs are linked through it. */
class ServedRoom {
  readonly #n: number;
  readonly #server: LoadGenerator;
  #members: readonly JoinedMember[] = [];

  /** @param n number of tabs. */
  constructor(n: number) {
    this.#n = n;
    const options: ServerOptions = { rooms: 1, startAt: n };
    this.#server = new LoadGenerator('./serverProcess.ts', JSON.stringify(options));
  }

  /** Resolves with the setup of each rank once the room runs. */
  async open(): Promise<ServedRank[]> {
    const { url: server, rooms } = await this.#server.next<ServerReply>();
    const [room] = rooms as [string];
    const { ranks } = await startRun(server, room, this.#n);
    this.#members = ranks;
    return ranks.map(({ token }) => ({ server, room, members: ranks.map(({ id }) => id), token }));
  }

  /** Resolves with the server's processor time since it began, milliseconds. */
  async cpuMs(): Promise<number> {
    return (await this.#server.ask<ServerCpu>({ type: 'cpu' })).cpuMs;
  }

  async close(): Promise<void> {
    for (const { member } of this.#members) member.leave();
    await this.#server.stop();
  }
}
