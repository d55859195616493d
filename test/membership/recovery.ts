/**
 * Tabs that train, break off and come together again, as random schedules: production's recovery,
 * dealing and progress over histories in place of arrays of numbers, and over collectives any of
 * which may break with some of its ranks done. What must never happen is checked on the way and
 * thrown as {@link Violation}.
 */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { PartitionedDataAssigner } from '../../src/engine/training/data/partitionedDataAssigner.ts';
import { ReplicatedDataAssigner } from '../../src/engine/training/data/replicatedDataAssigner.ts';
import type { SampleAssigner, GradientStore, StepAssignment } from '../../src/engine/training/data/sampleAssigner.ts';
import type { CursorPosition } from '../../src/parallel/data/cursor.ts';
import { currentGradients, type RetainedGradient } from '../../src/parallel/recovery/sampleReassignment.ts';
import { advance, isRunOver, startOfRun, type Progress } from '../../src/parallel/recovery/progress.ts';
import { recover, type StateTransfer } from '../../src/parallel/recovery/recover.ts';
import type { PeerState } from '../../src/parallel/recovery/stateElection.ts';
import { messageOf, PeerGoneError } from '../../src/util/errors.ts';
import { createRng, mixSeed, type Rng } from '../../src/util/rng.ts';
import { Violation } from './violation.ts';

/** `replicated`: every tab has all samples. `federated`: every tab has its own. */
export type DataKind = 'replicated' | 'federated';

export type Arriving = PeerState & { note: { retained: RetainedGradient | null } };

/** A fault put into one of the parts; see mutants.test.ts. */
export interface Faults {
  /** Changes what a rank learns of all ranks' states. */
  states?: (states: Arriving[]) => Arriving[];
  /** Changes how a tab's state is taken over. */
  replica?: (replica: TabReplica, tab: Tab) => TabReplica;
  assigner?: (assigner: SampleAssigner) => SampleAssigner;
  holdingsThatCount?: typeof currentGradients;
  /** Changes a tab after a step, or after its GPU was set up again. */
  stepped?: (tab: Tab) => void;
  reloaded?: (tab: Tab) => void;
  /** Leaves out contributions to an all-reduce. */
  contributions?: (parts: Part[]) => Part[];
}
export type TabReplica = StateTransfer<object, Sum, History>;

const PASSES = 2;
const BOUNDS = { epochs: PASSES, maxSteps: null, maxMinutes: null, patience: null };
const MOST_TABS = 4;

/** What an all-reduce gave the ranks that completed it, as numbers stand for a gradient. */
interface Sum {
  readonly generation: number;
  /** Position before and after, as numbers. */
  readonly from: number;
  readonly to: number;
  readonly isEndOfPass: boolean;
  /** Samples by tab, one bit each; where every tab has all, those of all tabs at index 0. */
  readonly learned: readonly number[];
  /** Bits of tabs that took part. */
  readonly tabs: number;
}

/** A rank's contribution to it. */
interface Part {
  readonly tab: Tab;
  readonly turn: StepAssignment;
}

function numberOf({ epoch, offset, parts = 0 }: CursorPosition): number {
  return (epoch * 4096 + offset) * 4096 + parts;
}

/**
 * Stands for parameters and optimizer state: two are the same object exactly if the same steps made
 * them from the same start.
 */
class History {
  readonly id: number;
  readonly steps: number;
  /** The last step. */
  readonly sum: Sum | null;
  readonly before: History | null;
  /** Position after the last step. */
  readonly at: number;
  /** The current pass: samples learned, by tab, and tabs that took part in each step. */
  readonly learned: readonly number[];
  readonly tabs: number;
  readonly #world: Schedule;
  readonly #after = new Map<Sum, History>();

  constructor(world: Schedule, before: History | null = null, sum: Sum | null = null) {
    this.#world = world;
    this.id = ++world.states;
    this.before = before;
    this.steps = before === null ? 0 : before.steps + 1;
    this.sum = sum;
    this.at = sum?.to ?? 0;
    const isNewPass = sum === null || sum.isEndOfPass;
    this.learned = isNewPass ? [] : sum.learned.map((bits, i) => bits | (before?.learned[i] ?? 0));
    this.tabs = isNewPass ? -1 : before!.tabs & sum.tabs;
  }

  /** The state that a step makes of this one. */
  after(sum: Sum): History {
    const known = this.#after.get(sum);
    if (known) return known;
    if (sum.from !== this.at) throw new Violation('R1', `a step from ${sum.from} was applied at ${this.at}`);
    const learned = sum.learned.map((bits, i) => {
      const before = this.learned[i] ?? 0;
      if ((bits & before) !== 0) throw new Violation('R1', `a sample of tab ${i} was learned twice in a pass`);
      return bits | before;
    });
    this.#world.checkLearned(learned, this.tabs & sum.tabs, sum);
    const next = new History(this.#world, this, sum);
    this.#after.set(sum, next);
    return next;
  }

  /** What it was after so many steps. */
  until(steps: number): History {
    return this.steps > steps ? this.before!.until(steps) : this;
  }
}

/** One tab's part in the run. */
export class Tab implements GradientStore {
  readonly slot: number;
  readonly samples: number;
  isFresh = true;
  progress: Progress = startOfRun();
  history: History;
  keepsGradient = false;
  kept: Sum | null = null;
  /** Samples whose gradients it holds. */
  held: number[] = [];
  turn: StepAssignment | null = null;
  assigner: SampleAssigner | null = null;
  /** Its state as it came to the latest world. */
  arrived: History;
  readonly #world: Schedule;

  constructor(world: Schedule, slot: number, samples: number) {
    this.#world = world;
    this.slot = slot;
    this.samples = samples;
    this.history = this.arrived = new History(world);
  }

  get name(): string {
    return 'abcde'[this.slot]!;
  }

  get heldSamples(): number {
    return this.held.length;
  }

  drop(): void {
    this.held = [];
  }

  /** Both history and progress, which belong together. */
  digest(): string {
    const { step, appliedIn, position } = this.progress;
    const { history } = this;
    if (step !== history.steps || numberOf(position) !== history.at) {
      throw new Violation('R1', `${this.name} is at step ${step} with parameters of step ${history.steps}`);
    }
    this.#world.checkName(this);
    return (history.id * 64 + appliedIn).toString(16).padStart(8, '0');
  }

  reconnectState(): Arriving {
    const { step, appliedIn, previousAppliedIn, verdicts } = this.progress;
    const { isFresh, keepsGradient } = this;
    const note = { retained: this.assigner!.retainedGradient(this) };
    return { isFresh, step, appliedIn, previousAppliedIn, verdicts, digest: this.digest(), keepsGradient, note };
  }

  replicaIn(world: World): TabReplica {
    return {
      digest: () => Promise.resolve(this.digest()),
      head: () => ({}),
      broadcastGradient: async (gradientSource) => (await world.exchange('gradient', this, this.kept))[gradientSource]!,
      catchUp: (sum) => {
        this.drop();
        this.history = this.history.after(sum);
        this.kept = sum;
        this.keepsGradient = true;
        this.#world.seen.caughtUp++;
      },
      distrust: () => (this.isFresh = true),
      gather: async (_, sources) => (await world.exchange('state', this, this.history))[sources[0]!]!,
      load: (history) => {
        this.drop();
        this.history = history;
        this.keepsGradient = false;
        this.isFresh = false;
        this.#world.seen.loaded++;
      },
    };
  }
}

interface Call {
  rank: number;
  value: unknown;
  resolve: (values: never[]) => void;
  reject: (error: Error) => void;
}

/**
 * One generation's collectives. The last of them breaks: some ranks complete it, the others do not,
 * and none completes another.
 */
class World {
  readonly generation: number;
  readonly tabs: readonly Tab[];
  readonly #rng: Rng;
  readonly #trace: ((what: string) => void) | null;
  #left: number;
  #calls: Call[] = [];
  #what = '';
  #isBroken = false;
  /** Whether the collective that broke was completed by any rank. */
  wasCompleted = false;

  constructor(
    generation: number,
    tabs: readonly Tab[],
    left: number,
    rng: Rng,
    trace: ((what: string) => void) | null,
  ) {
    this.generation = generation;
    this.tabs = tabs;
    this.#left = left;
    this.#rng = rng;
    this.#trace = trace;
  }

  /**
   * All ranks' values, by rank, of a collective that every rank calls. `complete` is called first,
   * once all have.
   */
  exchange<T>(what: string, tab: Tab, value: T, complete?: (values: T[]) => void): Promise<T[]> {
    const rank = this.tabs.indexOf(tab);
    return new Promise<T[]>((resolve, reject) => {
      if (this.#isBroken) return reject(gone);
      if (this.#calls.length > 0 && what !== this.#what) {
        throw new Violation('R2', `${tab.name} calls ${what}, and others call ${this.#what}`);
      }
      this.#what = what;
      this.#calls.push({ rank, value, resolve, reject });
      if (this.#calls.length < this.tabs.length) return;
      const calls = this.#calls.sort((a, b) => a.rank - b.rank);
      const values = calls.map((call) => call.value as never);
      complete?.(values);
      this.#calls = [];
      if (this.#left-- > 0) {
        for (const call of calls) call.resolve(values);
        return;
      }
      this.#isBroken = true;
      const isDone = calls.map(() => this.#rng.below(2) === 0);
      this.wasCompleted = isDone.includes(true);
      this.#trace?.(
        `breaks at ${what}, completed by [${this.tabs
          .filter((_, i) => isDone[i])
          .map(({ name }) => name)
          .join('')}]`,
      );
      for (const [i, call] of calls.entries()) {
        if (isDone[i]) call.resolve(values);
        else call.reject(gone);
      }
    });
  }

  /** Ends it for all, as one rank fails. */
  abort(): void {
    this.#isBroken = true;
    for (const { reject } of this.#calls.splice(0)) reject(gone);
  }
}

/** What production uses of a rank's group. */
class Group {
  readonly generation: number;
  readonly rank: number;
  readonly worldSize: number;
  readonly ranks: readonly number[];
  readonly #world: World;
  readonly #tab: Tab;

  constructor(world: World, tab: Tab) {
    this.#world = world;
    this.#tab = tab;
    this.generation = world.generation;
    this.rank = world.tabs.indexOf(tab);
    this.worldSize = world.tabs.length;
    this.ranks = RANKS;
  }

  allGatherObject<T>(value: T): Promise<T[]> {
    return this.#world.exchange('objects', this.#tab, value);
  }

  allGather(value: Uint8Array): Promise<Uint8Array[]> {
    return this.#world.exchange('digests', this.#tab, value);
  }

  async broadcastObject<T>(value: T, source: number): Promise<T> {
    return (await this.#world.exchange('object', this.#tab, value))[source]!;
  }
}

const RANKS = Array.from({ length: MOST_TABS }, (_, rank) => rank);

/** The same for all: making one takes as long as a world. */
const gone = new PeerGoneError('A link broke.');

class Schedule {
  readonly #kind: DataKind;
  readonly #faults: Faults;
  readonly #rng: Rng;
  readonly #trace: ((what: string) => void) | null;
  readonly #tabs: Tab[] = [];
  readonly #samples: number;
  readonly #sizes: number[];
  readonly #batchSize: number;
  /** Whether passes change the model's buffers, which follow from no gradient. */
  readonly #hasBuffers: boolean;
  /** Tabs of the latest world that trained, where they still have its state. */
  #holders = new Set<Tab>();
  #ring: Tab[] = [];
  #generation = 0;
  /** The state after a step that a generation has applied. */
  readonly #named = new Map<number, History>();
  /** States made. */
  states = 0;
  readonly seen = { caughtUp: 0, loaded: 0, retaken: 0, worlds: 0 };

  constructor(kind: DataKind, seed: number, faults: Faults = {}, trace: ((what: string) => void) | null = null) {
    this.#kind = kind;
    this.#faults = faults;
    this.#trace = trace;
    const rng = createRng(mixSeed(seed));
    this.#rng = rng;
    const count = 2 + rng.below(MOST_TABS - 1);
    this.#samples = 3 + rng.below(12);
    this.#batchSize = 1 + rng.below(2);
    this.#hasBuffers = rng.below(8) === 0;
    this.#sizes = Array.from({ length: count }, () => (kind === 'replicated' ? this.#samples : 1 + rng.below(9)));
    for (let slot = 0; slot < count; slot++) this.#tabs.push(this.#newTab(slot));
    trace?.(
      `${kind}, samples ${this.#sizes.join()}, batches of ${this.#batchSize}${this.#hasBuffers ? ', buffers' : ''}`,
    );
  }

  #newTab(slot: number): Tab {
    return new Tab(this, slot, this.#sizes[slot]!);
  }

  /** Plays it to its end, or to the first violation. */
  async play(): Promise<void> {
    const rng = this.#rng;
    for (let faults = 2 + rng.below(5); faults > 0; faults--) {
      this.#comeAndGo();
      this.#loseGpus();
      await this.#live(rng.below(rng.below(2) === 0 ? 14 : 6));
    }
    // All are there, and nothing breaks any more.
    this.#ring = [...this.#ring, ...this.#tabs.filter((tab) => !this.#ring.includes(tab))];
    await this.#live(Infinity);
    for (const tab of this.#tabs) {
      if (!isRunOver(tab.progress, BOUNDS)) throw new Violation('R4', `${tab.name} is not through`);
    }
  }

  #comeAndGo(): void {
    const rng = this.#rng;
    for (const [slot, tab] of this.#tabs.entries()) {
      // Never the last that has the state: what only lost tabs have applied is lost.
      if (rng.below(16) > 0 || (this.#holders.size === 1 && this.#holders.has(tab))) continue;
      this.#trace?.(`${tab.name} crashes`);
      this.#holders.delete(tab);
      this.#ring = this.#ring.filter((other) => other !== tab);
      this.#tabs[slot] = this.#newTab(slot);
    }
    for (;;) {
      const isHere = this.#tabs.map(() => rng.below(3) > 0);
      const here = this.#tabs.filter((_, i) => isHere[i]);
      const ring = [
        ...this.#ring.filter((tab) => here.includes(tab)),
        ...here.filter((tab) => !this.#ring.includes(tab)),
      ];
      // The server waits for one of those who trained last.
      if (ring.length === 0 || (this.#holders.size > 0 && !ring.some((tab) => this.#holders.has(tab)))) continue;
      if (rng.below(6) === 0) ring.reverse();
      this.#ring = ring;
      return;
    }
  }

  /** A GPU that is set up again gets the state that the CPU has kept, and nothing else. */
  #loseGpus(): void {
    for (const tab of this.#tabs) {
      if (this.#rng.below(12) > 0 || tab.isFresh) continue;
      this.#trace?.(`${tab.name} loses its GPU`);
      tab.drop();
      [tab.keepsGradient, tab.turn, tab.assigner] = [false, null, null];
      this.#faults.reloaded?.(tab);
    }
  }

  /** One generation, of so many collectives. */
  async #live(collectives: number): Promise<void> {
    const generation = ++this.#generation;
    const ring = this.#ring;
    this.#trace?.(`generation ${generation} [${ring.map(({ name }) => name).join('')}]`);
    const world = new World(generation, ring, collectives, this.#rng, this.#trace);
    const ends = await Promise.all(
      ring.map(async (tab): Promise<unknown> => {
        try {
          await this.#enter(tab, world);
          await this.#run(tab, world);
          return gone;
        } catch (error) {
          return error;
        } finally {
          world.abort();
        }
      }),
    );
    const failure = ends.find((end) => end !== gone);
    if (failure instanceof Violation) throw failure;
    if (failure) throw new Violation('R4', messageOf(failure));
  }

  /** As TrainingLoop's and Ring's. */
  async #enter(tab: Tab, world: World): Promise<void> {
    const {
      states = same,
      replica = same,
      assigner = same,
      holdingsThatCount: counted = currentGradients,
    } = this.#faults;
    const group = new Group(world, tab) as unknown as ProcessGroup;
    const samples = world.tabs.map((one) => one.samples);
    if (tab.assigner) tab.assigner.enter(group, samples);
    else {
      const options = { group, samples, seed: 1, batchSize: this.#batchSize };
      tab.assigner = assigner(
        this.#kind === 'replicated' ? new ReplicatedDataAssigner(options) : new PartitionedDataAssigner(options),
      );
    }
    if (this.#hasBuffers) tab.drop();
    tab.arrived = tab.history;
    const heard = states(await group.allGatherObject(tab.reconnectState()));
    const arrivals = await recover(group, heard, replica(tab.replicaIn(world), tab), tab.progress);
    tab.isFresh = false;
    const { position } = tab.progress;
    tab.turn = isRunOver(tab.progress, BOUNDS) ? null : tab.assigner.reassign(position, tab, counted(arrivals));
    this.#checkHeld(tab);
    if (tab.heldSamples > 0) this.seen.retaken++;
    // The server's word that all have come so far.
    await world.exchange('go', tab, null, () => this.#checkBegun(world));
  }

  async #run(tab: Tab, world: World): Promise<void> {
    const { contributions = same, stepped = () => {} } = this.#faults;
    while (!isRunOver(tab.progress, BOUNDS)) {
      const turn = (tab.turn ??= tab.assigner!.assign(tab.progress.position));
      this.#checkHeld(tab);
      let sum: Sum | null = null;
      const part = { tab, turn };
      try {
        const parts = await world.exchange('all-reduce', tab, part, (all) => this.#checkAlike(all));
        sum = this.#sumOf(world.generation, contributions(parts), parts);
      } catch (error) {
        // Where others have the sum, this one's gradients were whole.
        const left = turn.indices.length - tab.heldSamples;
        const computed = world.wasCompleted ? left : this.#rng.below(left + 1);
        tab.held = [...turn.indices.subarray(0, tab.heldSamples + computed)];
        throw error;
      }
      tab.history = tab.history.after(sum);
      tab.kept = sum;
      tab.keepsGradient = !this.#hasBuffers;
      tab.drop();
      advance(tab.progress, world.generation, turn.window.next);
      tab.turn = null;
      stepped(tab);
      tab.digest();
    }
  }

  readonly #sums = new Map<Part[], Sum>();
  /** The same object for all that complete an all-reduce of `parts`. */
  #sumOf(generation: number, counted: Part[], parts: Part[]): Sum {
    const known = this.#sums.get(parts);
    if (known) return known;
    const { tab, turn } = parts[0]!;
    const learned = this.#tabs.map(() => 0);
    const tabs = parts.reduce((bits, part) => bits | (1 << part.tab.slot), 0);
    for (const part of counted) {
      const at = this.#kind === 'replicated' ? 0 : part.tab.slot;
      for (const index of part.turn.indices) {
        if (((learned[at]! >> index) & 1) === 1) throw new Violation('R1', `sample ${index} counts twice in a step`);
        learned[at]! |= 1 << index;
      }
    }
    const { next } = turn.window;
    const isEndOfPass = next.offset === 0;
    const sum = { generation, from: numberOf(tab.progress.position), to: numberOf(next), isEndOfPass, learned, tabs };
    this.#sums.set(parts, sum);
    return sum;
  }

  // ---- The laws ----

  /**
   * R1: after each step exactly the samples that the position says are learned; `tabs` took part in
   * all steps of the pass.
   */
  checkLearned(learned: readonly number[], tabs: number, { isEndOfPass, to }: Sum): void {
    if (this.#kind === 'replicated') {
      const due = isEndOfPass ? this.#samples : Math.floor(to / 4096) % 4096;
      if (bitsOf(learned[0]!) !== due)
        throw new Violation('R1', `${bitsOf(learned[0]!)} samples of ${due} are learned`);
      return;
    }
    if (!isEndOfPass) return;
    for (const [slot, size] of this.#sizes.entries()) {
      if (((tabs >> slot) & 1) === 1 && learned[slot] !== (1 << size) - 1) {
        throw new Violation('R1', `tab ${slot} was there for the whole pass, and not all of its samples are learned`);
      }
    }
  }

  /** R3: step and generation name one state. */
  checkName({ name, progress, history }: Tab): void {
    const { step, appliedIn } = progress;
    if (appliedIn === 0) return;
    const key = appliedIn * 4096 + step;
    const known = this.#named.get(key);
    if (known === undefined) this.#named.set(key, history);
    else if (known !== history) {
      throw new Violation(
        'R3',
        `${name} has another state after step ${step} of generation ${appliedIn} than others had`,
      );
    }
  }

  /** What a tab holds is what its part begins with. */
  #checkHeld({ name, held, turn }: Tab): void {
    if (held.some((index, i) => turn?.indices[i] !== index)) {
      throw new Violation('R2', `${name} holds samples ${held.join()} and takes them for ${turn?.indices.join()}`);
    }
  }

  /** R2: all ranks take the same step. */
  #checkAlike(parts: readonly Part[]): void {
    const { tab: first, turn } = parts[0]!;
    for (const { tab, turn: other } of parts) {
      const { window, microBatches: rounds } = other;
      const isAlike =
        tab.history === first.history &&
        numberOf(window) === numberOf(turn.window) &&
        numberOf(window.next) === numberOf(turn.window.next) &&
        window.size === turn.window.size &&
        rounds === turn.microBatches;
      if (!isAlike)
        throw new Violation('R2', `${tab.name} and ${first.name} are about to take different steps together`);
      const { epoch, offset } = tab.progress.position;
      const isNext = window.epoch === epoch && (this.#kind === 'federated' || window.offset === offset);
      if (!isNext) throw new Violation('R1', `${tab.name} takes another step than the next`);
    }
  }

  /**
   * R2: all have one state. R5: nothing is undone that ranks of the latest world have, but for a
   * last step that was taken again in a later generation.
   */
  #checkBegun({ tabs }: World): void {
    const { history, progress } = tabs[0]!;
    for (const tab of tabs) {
      if (tab.history !== history || tab.progress.appliedIn !== progress.appliedIn) {
        throw new Violation('R2', `${tab.name} enters with another state than ${tabs[0]!.name}`);
      }
      const { arrived } = tab;
      if (!this.#holders.has(tab) || arrived.sum === null) continue;
      const now = history.until(arrived.steps);
      const isTakenAgain = now.before === arrived.before && now.sum!.generation > arrived.sum.generation;
      if (now !== arrived && !isTakenAgain) {
        const { steps, sum } = arrived;
        throw new Violation('R5', `step ${steps} of generation ${sum.generation}, which ${tab.name} has, is undone`);
      }
    }
    this.#holders = new Set(tabs);
    this.seen.worlds++;
  }
}

const same = <T>(value: T): T => value;

function bitsOf(bits: number): number {
  let count = 0;
  for (let left = bits; left !== 0; left &= left - 1) count++;
  return count;
}

/** Plays the schedule of a seed. */
export async function playRecovery(
  kind: DataKind,
  seed: number,
  faults: Faults = {},
  trace: ((what: string) => void) | null = null,
): Promise<{ violation: Violation | null; seen: Schedule['seen'] }> {
  const schedule = new Schedule(kind, seed, faults, trace);
  try {
    await schedule.play();
    return { violation: null, seen: schedule.seen };
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    return { violation: error, seen: schedule.seen };
  }
}

/** For people: what is broken, what happens on the way there, and how to see it again. */
export async function describeRecovery(kind: DataKind, seed: number, faults: Faults = {}): Promise<string> {
  const lines: string[] = [];
  const { violation } = await playRecovery(kind, seed, faults, (what) => lines.push(what));
  const end = violation?.message ?? 'no law is broken';
  const again = `PEERGRAD_SCHEDULES=1 PEERGRAD_SCHEDULES_FROM=${seed} npx vitest run --project node test/membership/recovery`;
  return `seed ${seed}: ${end}\n  ${lines.join('\n  ')}\n  ${again}`;
}
