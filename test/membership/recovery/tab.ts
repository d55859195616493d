/** One tab in the recovery schedules. It uses the real rules of recovery. */
import type {
  RetainedGradientStore,
  SampleAssigner,
  StepAssignment,
} from '../../../src/engine/training/data/sampleAssigner.ts';
import type { RetainedGradient } from '../../../src/parallel/recovery/sampleReassignment.ts';
import { initialTrainingProgress, type TrainingProgress } from '../../../src/parallel/recovery/progress.ts';
import type { StateTransfer } from '../../../src/parallel/recovery/recover.ts';
import type { PeerState } from '../../../src/parallel/recovery/stateElection.ts';
import { Violation } from '../violation.ts';
import type { Collectives } from './collectives.ts';
import { History, numberOf, type HistoryOwner, type Sum } from './history.ts';

/** The state that a rank reports when it enters a generation. */
export type Arriving = PeerState & { note: { retained: RetainedGradient | null } };

export type TabReplica = StateTransfer<object, Sum, History>;

/** Objects that the tabs of a schedule share. */
export interface TabOwner extends HistoryOwner {
  readonly seen: { caughtUp: number; loaded: number };
  checkName(tab: Tab): void;
}

export class Tab implements RetainedGradientStore {
  readonly slot: number;
  readonly samples: number;
  isFresh = true;
  progress: TrainingProgress = initialTrainingProgress();
  history: History;
  keepsGradient = false;
  kept: Sum | null = null;
  /** Samples whose gradients the tab has computed for the next step. */
  held: number[] = [];
  assignment: StepAssignment | null = null;
  assigner: SampleAssigner | null = null;
  /** The tab's state when it entered the latest generation. */
  arrived: History;
  readonly #owner: TabOwner;

  constructor(owner: TabOwner, slot: number, samples: number) {
    this.#owner = owner;
    this.slot = slot;
    this.samples = samples;
    this.history = this.arrived = new History(owner);
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

  /** Returns a digest of history and progress. Throws if they do not fit together. */
  digest(): string {
    const { step, appliedIn, position } = this.progress;
    const { history } = this;
    if (step !== history.steps || numberOf(position) !== history.at) {
      throw new Violation('R1', `${this.name} is at step ${step} with parameters of step ${history.steps}`);
    }
    this.#owner.checkName(this);
    return (history.id * 64 + appliedIn).toString(16).padStart(8, '0');
  }

  reconnectState(): Arriving {
    const { step, appliedIn, previousAppliedIn, verdicts } = this.progress;
    const { isFresh, keepsGradient } = this;
    const note = { retained: this.assigner!.retainedGradient(this) };
    return { isFresh, step, appliedIn, previousAppliedIn, verdicts, digest: this.digest(), keepsGradient, note };
  }

  replicaIn(collectives: Collectives): TabReplica {
    return {
      digest: () => Promise.resolve(this.digest()),
      head: () => ({}),
      repeat: {
        broadcastGradient: async (gradientSource) =>
          (await collectives.exchange('gradient', this, this.kept))[gradientSource]!,
        catchUp: (sum) => {
          this.drop();
          this.history = this.history.after(sum);
          this.kept = sum;
          this.keepsGradient = true;
          this.#owner.seen.caughtUp++;
        },
        distrust: () => (this.isFresh = true),
      },
      gather: async (_, sources) => (await collectives.exchange('state', this, this.history))[sources[0]!]!,
      load: (history) => {
        this.drop();
        this.history = history;
        this.keepsGradient = false;
        this.isFresh = false;
        this.#owner.seen.loaded++;
      },
    };
  }
}
