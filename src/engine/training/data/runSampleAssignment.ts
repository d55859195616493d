/** Determines the samples that this rank computes next, through all worlds of a run. */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { DataCursorPosition } from '../../../parallel/data/cursor.ts';
import { currentRetainedGradients, type RetainedGradient } from '../../../parallel/recovery/sampleReassignment.ts';
import type { EnteredRankState, ElasticStrategy } from '../../../parallel/strategies/index.ts';
import type { TrainingPlan } from '../../../spec/plan.ts';
import type { TrainingTask } from '../../tasks/task.ts';
import { compareDataHashes } from './compareDataHashes.ts';
import { ContentComparison } from './compareContents.ts';
import { PartitionedDataAssigner } from './partitionedDataAssigner.ts';
import { ReplicatedDataAssigner } from './replicatedDataAssigner.ts';
import type { RunProgress } from '../runProgress.ts';
import type { SampleAssigner, StepAssignment } from './sampleAssigner.ts';

/** A rank's message to the others when it enters a world, in addition to its state. */
interface EntryNote {
  retained: RetainedGradient | null;
  /** Whether this rank still has to make the checks after its latest step. */
  isDue: boolean;
}

export class RunSampleAssignment {
  readonly #plan: TrainingPlan;
  readonly #task: TrainingTask;
  readonly #dataHash: string;
  readonly #comparison: ContentComparison | null;
  #assigner: SampleAssigner | null = null;
  #totals = { train: 0, test: 0 };
  /** This rank's part of the next step, after it was assigned. */
  #assignment: StepAssignment | null = null;

  constructor(plan: TrainingPlan, task: TrainingTask, dataHash: string) {
    this.#plan = plan;
    this.#task = task;
    this.#dataHash = dataHash;
    this.#comparison = ContentComparison.of(task);
  }

  /** The number of samples on all ranks together. */
  get totals(): { readonly train: number; readonly test: number } {
    return this.#totals;
  }

  /** @throws TypeError before {@link share}. */
  get assigner(): SampleAssigner {
    return this.#assigner!;
  }

  /**
   * Compares data with the ranks of a group, and prepares the assignment of samples. Every rank
   * must call it.
   *
   * @param isFresh whether this rank has no state of its own.
   * @throws (rejects) as `compareDataHashes`.
   */
  async share(group: ProcessGroup, isFresh: boolean): Promise<void> {
    const { seed, batchSize } = this.#plan;
    const { samples, train, test } = await compareDataHashes(group, this.#task, { dataHash: this.#dataHash, isFresh });
    this.#totals = { train, test };
    await this.#comparison?.enter(group, isFresh);
    if (this.#assigner) return this.#assigner.enter(group, samples);
    const Assigner = this.#task.isShard ? PartitionedDataAssigner : ReplicatedDataAssigner;
    this.#assigner = new Assigner({ group, samples, seed, batchSize });
  }

  /**
   * Returns this rank's part of the step at `position`.
   *
   * @param shares see {@link SampleAssigner.assign}.
   */
  next(position: DataCursorPosition, shares: readonly number[] | null): StepAssignment {
    this.#assignment ??= this.assigner.assign(position, shares);
    return this.#assignment;
  }

  /**
   * Lets the task read the samples of this rank's next step, and of those that follow it.
   *
   * @param shares see {@link SampleAssigner.assign}.
   * @param steps the number of steps that follow the next one.
   */
  readAhead({ indices, window }: StepAssignment, shares: readonly number[] | null, steps: number): void {
    const { ahead = 0 } = this.#task;
    if (ahead === 0) return;
    const most = Math.min(ahead, steps * this.#plan.batchSize);
    this.#task.expect?.([...indices, ...this.assigner.upcoming(window.next, shares, most)]);
  }

  /**
   * Elects one state together with the ranks of a group. Then assigns the samples of the next step,
   * and uses the gradients of that step that ranks retain. Every rank must call it.
   */
  async attach(
    strategy: ElasticStrategy,
    group: ProcessGroup,
    run: RunProgress,
  ): Promise<EnteredRankState<EntryNote>[]> {
    strategy.rollBack();
    const retained = this.assigner.retainedGradient(strategy);
    const arrivals = await strategy.attach(group, run.now, { retained, isDue: run.isDue });
    this.#assignment = run.hasNoStepsLeft
      ? null
      : this.assigner.reassign(run.now.position, strategy, currentRetainedGradients(arrivals));
    return arrivals;
  }

  /**
   * Compares the contents of files that ranks have read. Every rank must call it.
   *
   * @throws (rejects) as {@link ContentComparison.compare}.
   */
  async compareContents(group: ProcessGroup): Promise<void> {
    await this.#comparison?.compare(group);
  }

  /** Called when a step is applied. */
  clear(): void {
    this.#assignment = null;
  }
}
