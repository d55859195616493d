/**
 * A class in real tabs: a host opens a room on the page, guests join by its link, and all train.
 * Then the guests of one browser leave at once, and as many join.
 */
import { DIST } from '../../launcher/build.ts';
import type { Io } from '../../launcher/io.ts';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { AlgorithmName } from '../../src/spec/algorithms.ts';
import { systemClock } from '../../src/util/clock.ts';
import { Register, type TabRecord } from './register.ts';
import { TabGroup } from './tabGroup.ts';

interface ClassOptions {
  tabs: number;
  algorithm: AlgorithmName;
  /** Number of guests in a browser, who leave together. */
  groupSize: number;
}

/**
 * Deadlines in milliseconds: until a button of the page works, all tabs are ready, steps are taken,
 * and the world has changed. They are about ten times what 30 tabs need on two cores.
 */
const PAGE_MS = 60_000;
const READY_MS = 600_000;
const STEPS_MS = 600_000;
const CHANGE_MS = 600_000;

/** Name of the tab that opens the room. */
const HOST = 'host';
/** The run does not end by itself. */
const JOB = { job: 'digits', model: 'mlp', batchSize: '8', epochs: '1000', transport: 'webrtc' };

export class Classroom {
  readonly register: Register;
  readonly #options: ClassOptions;
  readonly #io: Io;
  readonly #server: SignalingServer;
  readonly #groups: TabGroup[] = [];
  /** The different errors of pages, to log each only once. */
  readonly #errors = new Set<string>();
  #room: string | null = null;
  /** Names of the members that the room shows as ready. */
  #ready: ReadonlySet<string> = new Set();

  private constructor(options: ClassOptions, io: Io, server: SignalingServer) {
    this.#options = options;
    this.#io = io;
    this.#server = server;
    this.register = new Register(io.signal);
  }

  static async open(options: ClassOptions, io: Io): Promise<Classroom> {
    return new Classroom(options, io, await startSignaling({ dist: DIST }));
  }

  /**
   * The host opens a room, all guests join, and the host starts the run. Resolves with the seconds
   * from the host's admission to the first step.
   *
   * @throws (rejects) as `Register.until`.
   */
  async begin(): Promise<number> {
    const { tabs, groupSize, algorithm } = this.#options;
    const guests = Array.from({ length: tabs - 1 }, (_, i) => `guest-${i + 1}`);
    // All browsers are started before the measurement, because the machines of a class run already.
    const hostGroup = await this.#launch();
    const groups = [];
    for (let i = 0; i < guests.length; i += groupSize) groups.push(await this.#launch());

    this.register.add(HOST);
    const query = new URLSearchParams({ lang: 'en', name: HOST, ...JOB, algorithm });
    const page = await hostGroup.open(HOST, `${this.#server.url}/#new?${query}`);
    const click = (name: string): Promise<void> =>
      page.getByRole('button', { name, exact: true }).click({ timeout: PAGE_MS });
    await click('Open the room');
    await this.register.until('were admitted', PAGE_MS, () => (this.#room === null ? [HOST] : []));
    const admittedAt = systemClock.now();
    this.#io.err(`${tabs} tabs in ${this.#groups.length} browsers join room ${this.#room} ...`);
    await Promise.all(groups.map((group, i) => this.#join(group, guests.slice(i * groupSize, (i + 1) * groupSize))));
    const unready = (): string[] => this.register.names.filter((name) => !this.#ready.has(name));
    await this.register.until('were ready', READY_MS, unready);
    this.#io.err('All tabs are ready. The host starts the run ...');
    await click('Start');
    await this.register.all('took a step', STEPS_MS, ({ steps }) => steps > 0);
    return (this.register.steps[0]!.seenAt - admittedAt) / 1000;
  }

  /** Resolves when every tab has taken this number of steps in its world. */
  async train(steps: number): Promise<void> {
    await this.register.all(`took ${steps} steps`, STEPS_MS, (tab) => tab.steps >= steps);
  }

  /** Returns the memory of all browsers in bytes. */
  memory(): number {
    return this.#groups.reduce((sum, group) => sum + group.memory(), 0);
  }

  /**
   * The guests of one browser leave at once. Resolves with their names, and with the seconds until
   * all others have taken a step without them.
   */
  async leave(): Promise<{ names: readonly string[]; seconds: number }> {
    const [group] = this.#groups.splice(1, 1);
    const { names } = group!;
    this.#io.err(`${names.length} tabs leave ...`);
    const leftAt = systemClock.now();
    for (const name of names) this.register.remove(name);
    await group!.kill();
    await this.#stepTogether();
    return { names, seconds: (systemClock.now() - leftAt) / 1000 };
  }

  /**
   * Opens `count` tabs in a new browser. Resolves with the seconds until all tabs have taken a step
   * together.
   */
  async grow(count: number): Promise<number> {
    this.#io.err(`${count} tabs join ...`);
    const group = await this.#launch();
    const openedAt = systemClock.now();
    await this.#join(
      group,
      Array.from({ length: count }, (_, i) => `late-${i + 1}`),
    );
    await this.#stepTogether();
    return (systemClock.now() - openedAt) / 1000;
  }

  /** Kills all browsers and stops the server. */
  async close(): Promise<void> {
    await Promise.all(this.#groups.map((group) => group.kill()));
    await this.#server.close();
  }

  async #stepTogether(): Promise<void> {
    const { length } = this.register.names;
    const isTogether = ({ worldSize, steps }: TabRecord): boolean => worldSize === length && steps > 0;
    await this.register.all(`took a step in a world of ${length} ranks`, CHANGE_MS, isTogether);
  }

  async #launch(): Promise<TabGroup> {
    const group = await TabGroup.launch({
      onevent: (tab, event) => this.#onEvent(tab, event),
      ondeath: (tab, message) => this.register.fail(tab, message),
      onerror: (tab, message) => this.#note(tab, message),
    });
    this.#groups.push(group);
    return group;
  }

  async #join(group: TabGroup, names: readonly string[]): Promise<void> {
    for (const name of names) this.register.add(name);
    await Promise.all(names.map((name) => group.open(name, `${this.#server.url}/#${this.#room}?name=${name}&auto`)));
  }

  #onEvent(tab: string, event: EngineEvent): void {
    if (tab === HOST && event.type === 'admitted') this.#room = event.room;
    if (tab === HOST && event.type === 'room') {
      this.#ready = new Set(event.members.filter(({ device }) => device !== null).map(({ name }) => name));
    }
    this.register.on(tab, event);
  }

  #note(tab: string, message: string): void {
    if (!this.#errors.has(message)) this.#io.err(`${tab}: ${message}`);
    this.#errors.add(message);
  }
}
