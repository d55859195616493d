/** Tabs without a browser: sessions that share a server, a network, a clock and one storage. */
import { expect } from 'vitest';
import type { BlobStore } from '../../src/engine/storage/blobStore.ts';
import { Checkpoints } from '../../src/engine/storage/checkpoints.ts';
import { Session } from '../../src/engine/session.ts';
import type { EngineCommand } from '../../src/protocol/commands.ts';
import type { EngineEvent, EventOf } from '../../src/protocol/events.ts';
import { DtypeCode, FRAME_HEADER_BYTES, FrameKind, OpCode, readFrameHeader } from '../../src/protocol/frame.ts';
import { parseJob, type JobSpec } from '../../src/spec/job.ts';
import { DeviceError } from '../../src/util/errors.ts';
import type { GpuKernelChoice } from '../../src/spec/names.ts';
import { SignalingWorld, type Port } from './signalingWorld.ts';
import { ThreadActivity } from '../../src/util/activity.ts';
// A session loads these files when it needs them. The tests' clock would not wait for that.
import '../../src/engine/model/modelFiles.ts';
import '../../src/engine/model/origin.ts';
import '../../src/engine/run/run.ts';
import '../../src/engine/tasks/inspection.ts';
import '../../src/jobs/index.ts';

/** Milliseconds that a device takes to open. */
const DEVICE_MS = 500;
const SERVER = 'http://server';

/** A run of twelve steps. It compares states after every fourth step. */
export const JOB: JobSpec = parseJob({
  job: 'table',
  data: { kind: 'files' },
  hidden: 4,
  batchSize: 4,
  epochs: 1000,
  maxSteps: 12,
  hashEvery: 4,
});

/** The steps of {@link JOB}. */
export const ALL_STEPS = Array.from({ length: JOB.maxSteps! }, (_, step) => step);
/** A run that is long enough for a test to do something during it. */
export const LONG = { ...JOB, maxSteps: 48, hashEvery: 16 };
export const LONG_STEPS = Array.from({ length: LONG.maxSteps }, (_, step) => step);

/** A table of 40 rows. Tables with different `seed` have different rows. */
export function tableOf(seed = 37): File[] {
  const rows = Array.from({ length: 40 }, (_, i) => {
    const x = (i * seed) % 100;
    return `${x},${(i * 53) % 7},${x < 50 ? 'low' : 'high'}`;
  });
  return [new File([`x,noise,kind\n${rows.join('\n')}`], 'own.csv')];
}

type Create = Extract<EngineCommand, { type: 'create' }>;
type Join = Extract<EngineCommand, { type: 'join' }>;

/** A tab that records the events of its session. */
export class Tab {
  readonly name: string;
  readonly events: EngineEvent[] = [];
  /** The kernels with which it has started to open its device, each time. */
  readonly devicesOpened: GpuKernelChoice[] = [];
  readonly #session: Session;
  readonly #port: Port;
  #isGpuLost = false;
  #hasGpu = true;

  constructor(name: string, world: SessionWorld) {
    this.name = name;
    this.#port = world.plug();
    this.#session = new Session({
      clock: world.clock,
      activity: new ThreadActivity(world.clock),
      random: () => 0.5,
      today: () => world.clock.now(),
      openSocket: this.#port.openSocket,
      connectPeer: this.#port.connectPeer,
      connectTab: () => {
        throw new Error('Tabs of this world are of different browsers.');
      },
      browserId: () => Promise.resolve(`browser-of-${name}`.padEnd(16, '-')),
      openDevice: async (clock, kernels) => {
        this.devicesOpened.push(kernels);
        await new Promise<void>((resolve) => clock.after(DEVICE_MS, resolve));
        if (!this.#hasGpu) throw new DeviceError(`${name} has no GPU.`);
        this.#isGpuLost = false;
        const check = (): void => {
          if (this.#isGpuLost) throw new DeviceError(`The GPU of ${name} was lost.`);
        };
        return { device: { backend: 'cpu', adapter: 'test' }, note: null, check };
      },
      openCheckpoints: () => Promise.resolve(world.checkpoints),
      whileAlone: (_, task) => task(),
      emit: (event) => this.events.push(event),
      baseUrl: 'http://localhost/',
    });
  }

  command(command: EngineCommand): void {
    this.#session.command(command);
  }

  create(more: Partial<Create> = {}): void {
    this.command({ type: 'create', server: SERVER, name: this.name, job: JOB, startAt: null, ...more });
  }

  join(room: string, more: Partial<Join> = {}): void {
    this.command({ type: 'join', server: SERVER, name: this.name, room, ...more });
  }

  /** All events of one type, oldest first. */
  all<Type extends EngineEvent['type']>(type: Type): EventOf<Type>[] {
    return this.events.filter((event): event is EventOf<Type> => event.type === type);
  }

  /** The latest event of one type. */
  last<Type extends EngineEvent['type']>(type: Type): EventOf<Type> | undefined {
    return this.events.findLast((event): event is EventOf<Type> => event.type === type);
  }

  /** The code of the tab's room. */
  get room(): string {
    return this.last('admitted')!.room;
  }

  get member(): string {
    return this.last('admitted')!.member;
  }

  /** The numbers of the steps that this tab has taken, in all runs. */
  get steps(): number[] {
    return this.all('step').map(({ step }) => step);
  }

  /** The number of the latest step; -1 before the first step. */
  get step(): number {
    return this.last('step')?.step ?? -1;
  }

  /** How often a run has finished. */
  get finished(): number {
    return this.all('finished').length;
  }

  /** Whether the tab's latest state says that the server cannot be reached. */
  get isServerAway(): boolean {
    return this.last('state')?.isServerAway ?? false;
  }

  /** Whether the room's latest message since the tab's admission counts the tab as ready. */
  get isCounted(): boolean {
    const admitted = this.last('admitted');
    const known = this.events.slice(admitted === undefined ? 0 : this.events.indexOf(admitted));
    const room = known.findLast((event) => event.type === 'room');
    return room?.members.some(({ member, device }) => member === admitted?.member && device !== null) ?? false;
  }

  /** Describes the tab for the message of a failed test. */
  describe(): string {
    const { phase, members = [] } = this.last('room') ?? {};
    const here = members.map(({ name, device }) => (device === null ? `${name} (not ready)` : name));
    const failures = this.all('failed').map(({ message }) => message);
    const { state, detail } = this.last('state') ?? {};
    return `${this.name}: ${state} (${detail}), step ${this.step}; room ${phase}: ${here.join(', ')}; ${failures.join(' ')}`;
  }

  /** Breaks the tab's device until the tab opens it again. */
  loseGpu(): void {
    this.#isGpuLost = true;
  }

  /** Removes the tab's device. */
  removeGpu(): void {
    this.#isGpuLost = true;
    this.#hasGpu = false;
  }

  /** Makes the tab's device available again. */
  restoreGpu(): void {
    this.#hasGpu = true;
  }

  /** Breaks the tab's connection to the server. */
  cutServer(): void {
    this.#port.cutServer();
  }

  /** Breaks the tab's connection to the server, which forgets the tab. */
  lose(): void {
    Object.assign(this.#port, { isForgotten: true, isOffline: true });
    this.#port.cutServer();
  }

  /** Loses the server's messages that a run has ended. */
  hearNoEnd(): void {
    this.#port.isLost = (text) => text.includes('"type":"ended"');
  }

  /** Lets a lost tab return; it has another id then. */
  bringBack(): void {
    this.#port.isOffline = false;
  }

  /** Closes the tab like its user or a crash. */
  close(): void {
    this.#port.close();
  }

  /** Changes the next sum that this rank receives to a wrong value. */
  miscalculate(): void {
    const lastHop = 2 * this.last('generation')!.worldSize - 3;
    this.#port.onframe = (frame) => {
      const { kind, op, dtype, step } = readFrameHeader(frame);
      const isSum = kind === FrameKind.DATA && op === OpCode.ALL_REDUCE && dtype === DtypeCode.FLOAT32;
      if (!isSum || step !== lastHop) return;
      new Float32Array(frame, FRAME_HEADER_BYTES)[0]! += 1;
      this.#port.onframe = null;
    };
  }
}

export class SessionWorld extends SignalingWorld {
  readonly checkpoints = new Checkpoints(memoryStore());
  readonly #tabs: Tab[] = [];

  /** Opens a tab whose user has chosen `files`. */
  tab(name: string, files = tableOf()): Tab {
    const tab = new Tab(name, this);
    this.#tabs.push(tab);
    if (files.length > 0) tab.command({ type: 'files', files });
    return tab;
  }

  /**
   * Opens a tab for each name. The first tab creates a room, and the other tabs join it. Resolves
   * when all are ready.
   */
  async room(names: readonly string[], create: Partial<Create> = {}): Promise<Tab[]> {
    const tabs = names.map((name) => this.tab(name));
    const [host, ...guests] = tabs as [Tab, ...Tab[]];
    host.create(create);
    await this.admitted(host);
    for (const guest of guests) {
      guest.join(host.room);
      await this.admitted(guest);
    }
    await this.counted(tabs);
    return tabs;
  }

  /**
   * Like {@link room}, but the host also starts the run. Resolves when all tabs have taken `steps`
   * steps.
   */
  async run(
    names: readonly string[],
    { steps = 1, ...create }: Partial<Create> & { steps?: number } = {},
  ): Promise<Tab[]> {
    const tabs = await this.room(names, create);
    tabs[0]!.command({ type: 'start' });
    await this.stepped(tabs, steps);
    return tabs;
  }

  async admitted(tab: Tab): Promise<void> {
    await this.until(`${tab.name} is admitted`, () => tab.last('admitted') !== undefined);
  }

  async counted(tabs: readonly Tab[]): Promise<void> {
    await this.until('all are ready', () => tabs.every(({ isCounted }) => isCounted));
  }

  async stepped(tabs: readonly Tab[], steps: number): Promise<void> {
    await this.until(`all take ${steps} steps`, () => tabs.every(({ step }) => step >= steps - 1));
  }

  /** Resolves when all of `tabs` have finished `runs` runs. */
  async finished(tabs: readonly Tab[], runs = 1): Promise<void> {
    await this.until(`${runs} runs finish`, () => tabs.every(({ finished }) => finished >= runs));
  }

  async failed(tab: Tab): Promise<EventOf<'failed'>> {
    await this.until(`${tab.name} fails`, () => tab.last('failed') !== undefined);
    return tab.last('failed')!;
  }

  protected override describe(): string {
    return this.#tabs.map((tab) => tab.describe()).join('\n');
  }

  /** Makes all tabs leave. */
  close(): void {
    for (const tab of this.#tabs) tab.command({ type: 'leave' });
  }
}

function memoryStore(): BlobStore {
  const blobs = new Map<string, Blob>();
  return {
    names: () => Promise.resolve([...blobs.keys()]),
    read: (name) => Promise.resolve(blobs.get(name) ?? null),
    write: async (name, bytes) => void blobs.set(name, new Blob([bytes])),
    remove: async (name) => void blobs.delete(name),
  };
}

/**
 * Returns the final state hashes of all ranks, as the result of a tab's latest run contains them.
 */
const hashesOf = (tab: Tab): string[] => tab.last('finished')!.result.stateHash;

/** Expects that all tabs have the same result, and that `ranks` ranks ended with the same state. */
export function expectOneModel(tabs: readonly Tab[], ranks = tabs.length): void {
  const [hash] = hashesOf(tabs[0]!);
  for (const tab of tabs) expect(hashesOf(tab)).toEqual(Array.from({ length: ranks }, () => hash));
}
