/**
 * Opens ranks in real tabs, without the app. Each tab has connections on its page and a process
 * group in its worker, as in a training run. Experiments run on all ranks at once; `experiments.ts`
 * lists them.
 */
import { createServer, type ViteDevServer } from 'vite';
import path from 'node:path';
import { closeBrowser, launchBrowser, type Browser } from '../../launcher/browser/browser.ts';
import { loadPage, ownProfile } from '../../launcher/browser/tabs.ts';
import { iceServersFor, NO_ICE, type IceOptions } from '../../signaling/ice.ts';
import { selfSignedCertificate } from '../../signaling/index.ts';
import type { TransportName } from '../../src/spec/names.ts';
import { messageOf, PeergradError } from '../../src/util/errors.ts';
import type { ArgsOf, ExperimentName, ResultOf } from './experiments.ts';
import type { RankSetup } from './rank.ts';
import { Relays } from './relays.ts';
import type { TabSignal } from './signals.ts';

type Page = Parameters<typeof loadPage>[0];

interface WorldOptions {
  /** Hosts for the tabs. By default, all tabs are in one browser. */
  hosts?: Hosts | null;
  /** Default: `webrtc`. `server`: only through a signaling server, which runs on this machine. */
  transport?: TransportName | 'server';
  /** TURN server of the tabs. Default: none. */
  ice?: IceOptions;
  /** Number of WebRTC connections of a link. Default: depends on the distance. */
  connections?: number | null;
}

/** Test hosts, one for each tab. */
export interface Hosts {
  /** Executables that start a browser on a host, one for each tab. */
  executables: readonly string[];
  /** Address of this machine in the network of the hosts. */
  address: string;
}

/**
 * Timeout of a page load in milliseconds. During the first load, modules are compiled and packages
 * are bundled on the same cores.
 */
const LOAD_MS = 120_000;

const ROOT = path.resolve(import.meta.dirname, '../..');

export class World {
  /** `null` if ranks are not linked through a server. */
  readonly relays: Relays | null;
  readonly #server: ViteDevServer;
  readonly #browsers: Browser[] = [];
  /** By rank. */
  readonly #pages: Page[] = [];

  private constructor(server: ViteDevServer, relays: Relays | null) {
    this.#server = server;
    this.relays = relays;
  }

  /**
   * Opens a world of `tabs` ranks and links them to their neighbours. All are in one browser, or
   * each is in its own browser on `hosts`.
   *
   * @throws (rejects) PeergradError if a browser or a page fails. All browsers are closed then.
   */
  static async open(
    tabs: number,
    { hosts = null, transport = 'webrtc', ice = NO_ICE, connections = null }: WorldOptions = {},
  ): Promise<World> {
    const address = hosts?.address ?? '127.0.0.1';
    const server = await createServer({
      root: ROOT,
      configFile: path.join(ROOT, 'vite.config.ts'),
      logLevel: 'error',
      server: { port: 0, host: address, hmr: false, watch: null, ...(hosts && { https: await tlsOf() }) },
      // All entries are listed here, because Vite would otherwise find a package later, bundle it,
      // and reload all pages while they run.
      optimizeDeps: { entries: ['bench/world/page.html', 'bench/world/worker.ts'] },
    });
    const world = new World(server, transport === 'server' ? new Relays(tabs) : null);
    try {
      await server.listen();
      const scheme = hosts ? 'https' : 'http';
      const url = `${scheme}://${address}:${portOf(server)}/bench/world/page.html`;
      await world.#openTabs(url, tabs, { hosts, transport, ice, connections });
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

  async #openTabs(
    url: string,
    tabs: number,
    { hosts, transport, ice, connections }: Required<WorldOptions>,
  ): Promise<void> {
    const onevent = (page: Page, message: unknown): void => {
      const { to, signal } = message as { to: number; signal: TabSignal };
      // Errors are ignored, because a closed tab needs no signals.
      void this.#call(to, `rankPage.receiveSignal(${this.#pages.indexOf(page)}, ${JSON.stringify(signal)})`).catch(
        () => {},
      );
    };
    const openProfileOf = async (executable?: string) => {
      const browser = await launchBrowser({
        anyCertificate: hosts !== null,
        ...(executable !== undefined && { executable }),
      });
      this.#browsers.push(browser);
      return ownProfile(browser, { onevent });
    };
    const profiles = await Promise.all(hosts ? hosts.executables.map(openProfileOf) : [openProfileOf()]);
    for (let rank = 0; rank < tabs; rank++) {
      const page = await profiles[rank % profiles.length]!.newPage();
      this.#pages.push(page);
      await loadPage(page, url);
      await page.waitForFunction('"rankPage" in window', undefined, { timeout: LOAD_MS });
    }
    const served = await this.relays?.open();
    await this.#onAll((rank) => {
      const iceServers = iceServersFor(`rank-${rank}`, ice, Date.now());
      const setup: RankSetup = {
        rank,
        worldSize: tabs,
        transport: transport === 'auto' ? 'auto' : 'webrtc',
        served: served?.[rank] ?? null,
        iceServers,
        relayOnly: ice.relayOnly,
        connections,
      };
      return `rankPage.start(${JSON.stringify(setup)})`;
    });
  }

  #onAll<Result>(script: (rank: number) => string): Promise<Result[]> {
    return Promise.all(this.#pages.map((_, rank) => this.#call<Result>(rank, script(rank))));
  }

  async #call<Result>(rank: number, script: string): Promise<Result> {
    try {
      return await this.#pages[rank]!.evaluate<Result>(script);
    } catch (error) {
      throw new PeergradError(`Rank ${rank}: ${messageOf(error)}`);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#browsers.map(closeBrowser));
    await this.relays?.close();
    await this.#server.close();
  }
}

/**
 * Creates a certificate. WebGPU needs a secure context, and a page over plain http from another
 * machine has none.
 */
async function tlsOf(): Promise<{ key: string; cert: string }> {
  const { key, cert } = await selfSignedCertificate();
  return { key, cert };
}

function portOf({ httpServer }: ViteDevServer): number {
  return (httpServer!.address() as { port: number }).port;
}
