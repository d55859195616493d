/**
 * A class in real tabs: a host joins a room, guests follow by its link, and all train. Then the
 * guests of one browser leave at once, and as many join.
 */
import { DIST } from '../../launcher/build.ts';
import type { Io } from '../../launcher/io.ts';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';
import type { AlgorithmName } from '../../src/spec/algorithms.ts';
import { parseJob } from '../../src/spec/job.ts';
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
 * Deadlines in milliseconds: until the host is admitted, steps are taken, and the world has
 * changed. They are about ten times what 30 tabs need on two cores.
 */
const ADMISSION_MS = 60_000;
const STEPS_MS = 600_000;
const CHANGE_MS = 600_000;

/** The run does not end by itself. */
const JOB = { job: 'digits', model: 'mlp', batchSize: 8, epochs: 1000, transport: 'webrtc' };
/** Any number of tabs may leave and join, as in rooms that are opened on the page. */
const ANY_SIZE = { min: 1, max: MAX_WORLD_SIZE };

export class Classroom {
  readonly register: Register;
  readonly #options: ClassOptions;
  readonly #io: Io;
  readonly #server: SignalingServer;
  /** Address of the room. */
  readonly #url: string;
  readonly #groups: TabGroup[] = [];
  /** The different errors of pages, to log each only once. */
  readonly #errors = new Set<string>();

  private constructor(options: ClassOptions, io: Io, server: SignalingServer, room: string) {
    this.#options = options;
    this.#io = io;
    this.#server = server;
    this.#url = `${server.url}/#${room}`;
    this.register = new Register(io.signal);
  }

  /** Opens a room whose run starts when all tabs are ready. */
  static async open(options: ClassOptions, io: Io): Promise<Classroom> {
    const server = await startSignaling({ dist: DIST });
    const job = parseJob({ ...JOB, algorithm: options.algorithm });
    return new Classroom(options, io, server, await server.openRoom({ job, startAt: options.tabs, nodes: ANY_SIZE }));
  }

  /**
   * The host and then all guests join, and the run starts. Resolves with the seconds from the
   * host's admission to the first step.
   *
   * @throws (rejects) as `Register.all`.
   */
  async begin(): Promise<number> {
    const { tabs, groupSize } = this.#options;
    const guests = Array.from({ length: tabs - 1 }, (_, i) => `guest-${i + 1}`);
    // All browsers are started before the measurement, because the machines of a class run already.
    const hostGroup = await this.#launch();
    const groups = [];
    for (let i = 0; i < guests.length; i += groupSize) groups.push(await this.#launch());

    await this.#join(hostGroup, ['host']);
    await this.register.all('were admitted', ADMISSION_MS, ({ isAdmitted }) => isAdmitted);
    const admittedAt = systemClock.now();
    this.#io.err(`${tabs} tabs in ${this.#groups.length} browsers join ${this.#url} ...`);
    await Promise.all(groups.map((group, i) => this.#join(group, guests.slice(i * groupSize, (i + 1) * groupSize))));
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
   * The guests of one browser leave at once. Resolves with their number, and with the seconds until
   * all others have taken a step without them.
   */
  async leave(): Promise<{ left: number; seconds: number }> {
    const [group] = this.#groups.splice(1, 1);
    const { names } = group!;
    this.#io.err(`${names.length} tabs leave ...`);
    const leftAt = systemClock.now();
    for (const name of names) this.register.remove(name);
    await group!.kill();
    await this.#stepTogether();
    return { left: names.length, seconds: (systemClock.now() - leftAt) / 1000 };
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
    const { size } = this.register;
    const isTogether = ({ worldSize, steps }: TabRecord): boolean => worldSize === size && steps > 0;
    await this.register.all(`took a step in a world of ${size} ranks`, CHANGE_MS, isTogether);
  }

  async #launch(): Promise<TabGroup> {
    const group = await TabGroup.launch({
      onevent: (tab, event) => this.register.on(tab, event),
      ondeath: (tab, message) => this.register.fail(tab, message),
      onerror: (tab, message) => this.#note(tab, message),
    });
    this.#groups.push(group);
    return group;
  }

  async #join(group: TabGroup, names: readonly string[]): Promise<void> {
    for (const name of names) this.register.add(name);
    await group.open(names, this.#url);
  }

  #note(tab: string, message: string): void {
    if (!this.#errors.has(message)) this.#io.err(`${tab}: ${message}`);
    this.#errors.add(message);
  }
}
