/**
 * Ranks in real tabs without the app and the signaling server: each tab has connections on its page
 * and a process group in its worker, as in a training run. Experiments run on all ranks at once;
 * `experiments.ts` lists them.
 */
import { createServer, type ViteDevServer } from 'vite';
import path from 'node:path';
import { closeBrowser, launchBrowser } from '../../launcher/browser/browser.ts';
import { loadPage, openProfile } from '../../launcher/browser/tabs.ts';
import { selfSignedCertificate } from '../../signaling/index.ts';
import type { TransportName } from '../../src/spec/job.ts';
import { messageOf, PeergradError } from '../../src/util/errors.ts';
import type { ArgsOf, ExperimentName, ResultOf } from './experiments.ts';
import type { TabSignal } from './signals.ts';

type Browser = Awaited<ReturnType<typeof launchBrowser>>;
type Page = Parameters<typeof loadPage>[0];

interface WorldOptions {
  /** Default: all tabs are in one browser. */
  hosts?: Hosts | null;
  /** Default: `webrtc`. */
  transport?: TransportName;
}

/** Separate hosts, one per tab. */
export interface Hosts {
  /** Executables that start a browser on each host; as many as tabs. */
  executables: readonly string[];
  /** Address of this machine for the hosts. */
  address: string;
}

/**
 * Milliseconds for a page to load: the first one compiles its modules and bundles packages, on
 * shared cores.
 */
const LOAD_MS = 120_000;

const ROOT = path.resolve(import.meta.dirname, '../..');

export class World {
  readonly #server: ViteDevServer;
  readonly #browsers: Browser[] = [];
  /** By rank. */
  readonly #pages: Page[] = [];

  private constructor(server: ViteDevServer) {
    this.#server = server;
  }

  /**
   * Opens a world of `tabs` ranks, linked to their neighbours: in one browser, or each in its own
   * browser on `hosts`.
   *
   * @throws (rejects) PeergradError if a browser or a page fails; none is left running then.
   */
  static async open(tabs: number, { hosts = null, transport = 'webrtc' }: WorldOptions = {}): Promise<World> {
    const address = hosts?.address ?? '127.0.0.1';
    const server = await createServer({
      root: ROOT,
      configFile: path.join(ROOT, 'vite.config.ts'),
      logLevel: 'error',
      server: { port: 0, host: address, hmr: false, watch: null, ...(hosts && { https: await tlsOf() }) },
      // Listed from the start: a package found later would be bundled, and all pages reloaded,
      // while they run.
      optimizeDeps: { entries: ['bench/world/page.html', 'bench/world/worker.ts'] },
    });
    const world = new World(server);
    try {
      await server.listen();
      const scheme = hosts ? 'https' : 'http';
      const url = `${scheme}://${address}:${portOf(server)}/bench/world/page.html`;
      await world.#openTabs(url, tabs, { hosts, transport });
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
   * Runs an experiment on all ranks at once; resolves with their results by rank.
   *
   * @throws (rejects) PeergradError of the first rank that fails.
   */
  run<Name extends ExperimentName>(name: Name, args: ArgsOf<Name>): Promise<ResultOf<Name>[]> {
    return this.#onAll<ResultOf<Name>>(() => `rankPage.run(${JSON.stringify(name)}, ${JSON.stringify(args)})`);
  }

  async #openTabs(url: string, tabs: number, { hosts, transport }: Required<WorldOptions>): Promise<void> {
    const onevent = (page: Page, message: unknown): void => {
      const { to, signal } = message as { to: number; signal: TabSignal };
      // A closed tab needs no signals.
      void this.#call(to, `rankPage.receiveSignal(${this.#pages.indexOf(page)}, ${JSON.stringify(signal)})`).catch(
        () => {},
      );
    };
    const anyCertificate = hosts !== null;
    const openProfileOf = async (executable?: string) => {
      const browser = await launchBrowser({
        anyCertificate,
        ...(executable !== undefined && { executable }),
      });
      this.#browsers.push(browser);
      return openProfile(browser, { anyCertificate, onevent });
    };
    const profiles = await Promise.all(hosts ? hosts.executables.map(openProfileOf) : [openProfileOf()]);
    for (let rank = 0; rank < tabs; rank++) {
      const page = await profiles[rank % profiles.length]!.newPage();
      this.#pages.push(page);
      await loadPage(page, url);
      await page.waitForFunction('"rankPage" in window', undefined, { timeout: LOAD_MS });
    }
    await this.#onAll((rank) => `rankPage.start(${JSON.stringify({ rank, worldSize: tabs, transport })})`);
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
    await this.#server.close();
  }
}

/** WebGPU needs a secure context, which http from another machine is not. */
async function tlsOf(): Promise<{ key: string; cert: string }> {
  const { key, cert } = await selfSignedCertificate();
  return { key, cert };
}

function portOf({ httpServer }: ViteDevServer): number {
  return (httpServer!.address() as { port: number }).port;
}
