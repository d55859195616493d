/**
 * Opens ranks in real tabs, without the app. Each tab has connections on its page and a process
 * group in its worker, as in a training run. Experiments run on all ranks at once; `experiments.ts`
 * lists them.
 */
import { closeBrowser, launchBrowser, type Browser } from '../../launcher/browser/browser.ts';
import { loadPage, ownProfile } from '../../launcher/browser/tabs.ts';
import type { Io } from '../../launcher/io.ts';
import { iceServersFor, NO_ICE, type IceOptions } from '../../signaling/ice.ts';
import type { TransportName } from '../../src/spec/names.ts';
import { unlessAborted } from '../../src/util/deadline.ts';
import { errorMessageOf, PeergradError } from '../../src/util/errors.ts';
import { buildPage } from '../../tools/buildPage.ts';
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

const PAGE = 'bench/world/page.html';

export class World {
  /** Serves the page, and links the ranks with the transport `server`. */
  readonly #server: LoadGenerator;
  readonly #transport: TransportName | 'server';
  readonly #signal: AbortSignal;
  /** By rank. */
  readonly #pages: Page[] = [];
  /** Members of the server's room, by rank; none if ranks are not linked through the server. */
  #members: readonly JoinedMember[] = [];

  private constructor(server: LoadGenerator, transport: TransportName | 'server', signal: AbortSignal) {
    this.#server = server;
    this.#transport = transport;
    this.#signal = signal;
  }

  /**
   * Opens a world of `tabs` ranks in one browser, links them to their neighbours, and closes them
   * after `work`.
   *
   * @param io `signal` interrupts the world: when it is aborted, all calls reject with its reason.
   * @throws (rejects) PeergradError if the browser or a page fails; the errors of `work`.
   */
  static async use<Result>(
    tabs: number,
    { signal }: Pick<Io, 'signal'>,
    { transport = 'webrtc', ice = NO_ICE }: WorldOptions,
    work: (world: World) => Promise<Result>,
  ): Promise<Result> {
    const { dist, remove } = await buildPage(PAGE);
    const options: ServerOptions = { dist, rooms: transport === 'server' ? 1 : 0, startAt: tabs };
    const server = new LoadGenerator('./serverProcess.ts', JSON.stringify(options));
    const world = new World(server, transport, signal);
    let browser: Browser | null = null;
    try {
      const reply = await server.next<ServerReply>();
      browser = await launchBrowser();
      const profile = await ownProfile(browser, { onevent: (page, message) => world.#relay(page, message) });
      await unlessAborted(signal, world.#openTabs(profile, tabs, reply, ice));
      return await work(world);
    } finally {
      for (const { member } of world.#members) member.leave();
      await Promise.all([browser && closeBrowser(browser), server.kill(), remove()]);
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
    return this.#transport === 'server' ? (await this.#server.ask<ServerCpu>({ type: 'cpu' })).cpuMs : null;
  }

  /** Sends a signal of a page to the page of another rank. */
  #relay(page: Page, message: unknown): void {
    const { to, signal } = message as { to: number; signal: TabSignal };
    const script = `rankPage.receiveSignal(${this.#pages.indexOf(page)}, ${JSON.stringify(signal)})`;
    // Errors are ignored, because a closed tab needs no signals.
    void this.#call(to, script).catch(() => {});
  }

  async #openTabs(profile: Profile, tabs: number, { url, rooms }: ServerReply, ice: IceOptions): Promise<void> {
    for (let rank = 0; rank < tabs; rank++) {
      const page = await profile.newPage();
      this.#pages.push(page);
      await loadPage(page, `${url}/${PAGE}`);
    }
    const [room] = rooms;
    const served = room === undefined ? [] : await this.#joinRoom(url, room);
    await this.#onAll((rank) => {
      const setup: RankSetup = {
        rank,
        worldSize: tabs,
        transport: this.#transport === 'auto' ? 'auto' : 'webrtc',
        served: served[rank] ?? null,
        iceServers: iceServersFor(`rank-${rank}`, ice, Date.now()),
        relayOnly: ice.relayOnly,
      };
      return `rankPage.start(${JSON.stringify(setup)})`;
    });
  }

  /** Joins a member for each rank to a room. Resolves once the room runs. */
  async #joinRoom(server: string, room: string): Promise<ServedRank[]> {
    const { ranks } = await startRun(server, room, this.size);
    this.#members = ranks;
    return ranks.map(({ token }) => ({ server, room, members: ranks.map(({ id }) => id), token }));
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
}
