/**
 * Random schedules of tabs that train, fail and train again. The code for recovery, sample
 * assignment and progress is the real one. Histories take the place of parameters and gradients,
 * and collectives break after some of their ranks have completed them. The invariants are checked
 * after every action.
 */
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { PartitionedDataAssigner } from '../../../src/engine/training/data/partitionedDataAssigner.ts';
import { ReplicatedDataAssigner } from '../../../src/engine/training/data/replicatedDataAssigner.ts';
import type { SampleAssigner } from '../../../src/engine/training/data/sampleAssigner.ts';
import { currentRetainedGradients } from '../../../src/parallel/recovery/sampleReassignment.ts';
import { isRunLimitReached, recordAppliedStep } from '../../../src/parallel/recovery/progress.ts';
import { recoverElectedState } from '../../../src/parallel/recovery/recover.ts';
import { errorMessageOf } from '../../../src/util/errors.ts';
import { createRng, mixSeed, type Rng } from '../../../src/util/rng.ts';
import { Violation } from '../violation.ts';
import { Collectives, gone, Group, MOST_TABS, type Trace } from './collectives.ts';
import { numberOf, type Part, type Sum } from './history.ts';
import { Invariants, type DataKind } from './invariants.ts';
import { Tab, type Arriving, type TabOwner, type TabReplica } from './tab.ts';

/** Faults that are put into the code under test; see mutants.test.ts. */
export interface Faults {
  /** Changes the states of all ranks as one rank receives them. */
  states?: (states: Arriving[]) => Arriving[];
  /** Changes how a tab loads a state. */
  replica?: (replica: TabReplica, tab: Tab) => TabReplica;
  assigner?: (assigner: SampleAssigner) => SampleAssigner;
  currentGradients?: typeof currentRetainedGradients;
  /** Changes a tab after a step. */
  stepped?: (tab: Tab) => void;
  /** Changes a tab after its GPU was set up again. */
  reloaded?: (tab: Tab) => void;
  /** Leaves out some contributions to an all-reduce. */
  contributions?: (parts: Part[]) => Part[];
}

const EPOCHS = 2;
const BOUNDS = { epochs: EPOCHS, maxSteps: null, maxMinutes: null, patience: null };

class Schedule implements TabOwner {
  readonly #kind: DataKind;
  readonly #faults: Faults;
  readonly #rng: Rng;
  readonly #trace: Trace | null;
  readonly #invariants: Invariants;
  readonly #tabs: Tab[] = [];
  readonly #sizes: number[];
  readonly #batchSize: number;
  /**
   * Whether training changes buffers of the model. Their changes cannot be computed from a
   * gradient.
   */
  readonly #hasBuffers: boolean;
  /** Tabs that trained in the latest generation that trained, if they still have its state. */
  #trained = new Set<Tab>();
  #ring: Tab[] = [];
  #generation = 0;
  states = 0;
  readonly seen = { caughtUp: 0, loaded: 0, retaken: 0, worlds: 0 };
  readonly #sums = new Map<Part[], Sum>();

  constructor(kind: DataKind, seed: number, faults: Faults = {}, trace: Trace | null = null) {
    this.#kind = kind;
    this.#faults = faults;
    this.#trace = trace;
    const rng = createRng(mixSeed(seed));
    this.#rng = rng;
    const count = 2 + rng.below(MOST_TABS - 1);
    const samples = 3 + rng.below(12);
    this.#batchSize = 1 + rng.below(2);
    this.#hasBuffers = rng.below(8) === 0;
    this.#sizes = Array.from({ length: count }, () => (kind === 'replicated' ? samples : 1 + rng.below(9)));
    this.#invariants = new Invariants({ kind, samples, sizes: this.#sizes });
    for (let slot = 0; slot < count; slot++) this.#tabs.push(this.#newTab(slot));
    trace?.(
      `${kind}, samples ${this.#sizes.join()}, batches of ${this.#batchSize}${this.#hasBuffers ? ', buffers' : ''}`,
    );
  }

  #newTab(slot: number): Tab {
    return new Tab(this, slot, this.#sizes[slot]!);
  }

  /** Plays the schedule to its end, or to the first violation. */
  async play(): Promise<void> {
    const rng = this.#rng;
    for (let faults = 2 + rng.below(5); faults > 0; faults--) {
      this.#changeRing();
      this.#loseGpus();
      await this.#runGeneration(rng.below(rng.below(2) === 0 ? 14 : 6));
    }
    // All tabs take part now, and nothing breaks any more.
    this.#ring = [...this.#ring, ...this.#tabs.filter((tab) => !this.#ring.includes(tab))];
    await this.#runGeneration(Infinity);
    for (const tab of this.#tabs) {
      if (!isRunLimitReached(tab.progress, BOUNDS)) throw new Violation('R4', `${tab.name} has not finished`);
    }
  }

  #changeRing(): void {
    const rng = this.#rng;
    for (const [slot, tab] of this.#tabs.entries()) {
      // The last tab with the state is not removed: its steps would be lost, and this is no fault
      // of recovery.
      if (rng.below(16) > 0 || (this.#trained.size === 1 && this.#trained.has(tab))) continue;
      this.#trace?.(`${tab.name} crashes`);
      this.#trained.delete(tab);
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
      // The server would wait for one of the tabs that trained last.
      if (ring.length === 0 || (this.#trained.size > 0 && !ring.some((tab) => this.#trained.has(tab)))) continue;
      if (rng.below(6) === 0) ring.reverse();
      this.#ring = ring;
      return;
    }
  }

  /** Sets up lost GPUs again. They receive the state that the CPU has kept. */
  #loseGpus(): void {
    for (const tab of this.#tabs) {
      if (this.#rng.below(12) > 0 || tab.isFresh) continue;
      this.#trace?.(`${tab.name} loses its GPU`);
      tab.drop();
      [tab.keepsGradient, tab.assignment, tab.assigner] = [false, null, null];
      this.#faults.reloaded?.(tab);
    }
  }

  /** Runs one generation. A collective breaks after `count` others. */
  async #runGeneration(count: number): Promise<void> {
    const generation = ++this.#generation;
    const ring = this.#ring;
    this.#trace?.(`generation ${generation} [${ring.map(({ name }) => name).join('')}]`);
    const collectives = new Collectives(generation, ring, count, this.#rng, this.#trace);
    const ends = await Promise.all(
      ring.map(async (tab): Promise<unknown> => {
        try {
          await this.#enter(tab, collectives);
          await this.#run(tab, collectives);
          return gone;
        } catch (error) {
          return error;
        } finally {
          collectives.abort();
        }
      }),
    );
    const failure = ends.find((end) => end !== gone);
    if (failure instanceof Violation) throw failure;
    if (failure) throw new Violation('R4', errorMessageOf(failure));
  }

  /** Enters a generation in the same way as the training loop and the strategy. */
  async #enter(tab: Tab, collectives: Collectives): Promise<void> {
    const {
      states = same,
      replica = same,
      assigner = same,
      currentGradients: gradientsOf = currentRetainedGradients,
    } = this.#faults;
    const group = new Group(collectives, tab) as unknown as ProcessGroup;
    const samples = collectives.tabs.map((one) => one.samples);
    if (tab.assigner) tab.assigner.enter(group, samples);
    else {
      const options = { group, samples, seed: 1, batchSize: this.#batchSize };
      tab.assigner = assigner(
        this.#kind === 'replicated' ? new ReplicatedDataAssigner(options) : new PartitionedDataAssigner(options),
      );
    }
    if (this.#hasBuffers) tab.drop();
    tab.arrived = tab.history;
    const received = states(await group.allGatherObject(tab.reconnectState()));
    const arrivals = await recoverElectedState(group, received, replica(tab.replicaIn(collectives), tab), tab.progress);
    tab.isFresh = false;
    const { position } = tab.progress;
    tab.assignment = isRunLimitReached(tab.progress, BOUNDS)
      ? null
      : tab.assigner.reassign(position, tab, gradientsOf(arrivals));
    this.#invariants.checkHeld(tab);
    if (tab.heldSamples > 0) this.seen.retaken++;
    // The server sends `go` when all ranks have synced.
    await collectives.exchange('go', tab, null, () => {
      this.#invariants.checkBegun(collectives.tabs, this.#trained);
      this.#trained = new Set(collectives.tabs);
      this.seen.worlds++;
    });
  }

  async #run(tab: Tab, collectives: Collectives): Promise<void> {
    const { contributions = same, stepped = () => {} } = this.#faults;
    while (!isRunLimitReached(tab.progress, BOUNDS)) {
      const assignment = (tab.assignment ??= tab.assigner!.assign(tab.progress.position, null));
      this.#invariants.checkHeld(tab);
      let sum: Sum | null = null;
      const part = { tab, assignment };
      try {
        const parts = await collectives.exchange('all-reduce', tab, part, (all) => this.#invariants.checkAlike(all));
        sum = this.#sumOf(collectives.generation, contributions(parts), parts);
      } catch (error) {
        // If other ranks have the sum, this rank has contributed all its gradients.
        const left = assignment.indices.length - tab.heldSamples;
        const computed = collectives.wasCompleted ? left : this.#rng.below(left + 1);
        tab.held = [...assignment.indices.subarray(0, tab.heldSamples + computed)];
        throw error;
      }
      tab.history = tab.history.after(sum);
      tab.kept = sum;
      tab.keepsGradient = !this.#hasBuffers;
      tab.drop();
      recordAppliedStep(tab.progress, collectives.generation, assignment.window.next);
      tab.assignment = null;
      stepped(tab);
      tab.digest();
    }
  }

  /**
   * Returns the sum of an all-reduce of `parts`. All ranks that complete it receive the same
   * object.
   */
  #sumOf(generation: number, counted: Part[], parts: Part[]): Sum {
    const known = this.#sums.get(parts);
    if (known) return known;
    const { tab, assignment } = parts[0]!;
    const learned = this.#tabs.map(() => 0);
    const tabs = parts.reduce((bits, part) => bits | (1 << part.tab.slot), 0);
    for (const part of counted) {
      const at = this.#kind === 'replicated' ? 0 : part.tab.slot;
      for (const index of part.assignment.indices) {
        if (((learned[at]! >> index) & 1) === 1)
          throw new Violation('R1', `sample ${index} is learned twice in a step`);
        learned[at]! |= 1 << index;
      }
    }
    const { next } = assignment.window;
    const isEndOfEpoch = next.offset === 0;
    const sum = { generation, from: numberOf(tab.progress.position), to: numberOf(next), isEndOfEpoch, learned, tabs };
    this.#sums.set(parts, sum);
    return sum;
  }

  checkLearned(learned: readonly number[], tabs: number, sum: Sum): void {
    this.#invariants.checkLearned(learned, tabs, sum);
  }

  checkName(tab: Tab): void {
    this.#invariants.checkName(tab);
  }
}

const same = <T>(value: T): T => value;

/** Plays the schedule of a seed. */
export async function playRecovery(
  kind: DataKind,
  seed: number,
  faults: Faults = {},
  trace: Trace | null = null,
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

/** Returns the trace of a schedule, its violation, and the command that repeats it. */
export async function describeRecovery(kind: DataKind, seed: number, faults: Faults = {}): Promise<string> {
  const lines: string[] = [];
  const { violation } = await playRecovery(kind, seed, faults, (line) => lines.push(line));
  const end = violation?.message ?? 'no invariant is broken';
  const again = `PEERGRAD_SCHEDULES=1 PEERGRAD_SCHEDULES_FROM=${seed} npx vitest run --project node test/membership/recovery.test.ts`;
  return `seed ${seed}: ${end}\n  ${lines.join('\n  ')}\n  ${again}`;
}
