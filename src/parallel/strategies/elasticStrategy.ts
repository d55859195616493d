/** The ability of a strategy to continue in another group after ranks have joined or left. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { JobCodecName } from '../../spec/codecs.ts';
import type { TrainingProgress } from '../recovery/progress.ts';
import type { PeerState } from '../recovery/stateElection.ts';
import type { DdpState } from '../recovery/ddpState.ts';
import type { MissedStepRepeater } from '../zero/replicaOptimizer.ts';

/** A rank's state when it entered a group. */
export interface EnteredRankState<Note> extends PeerState {
  /** Whether the rank already had the state that all ranks have now. */
  isCurrent: boolean;
  note: Note;
}

export interface ElasticStrategy {
  /** Current codec of what ranks exchange. */
  readonly codec: JobCodecName;
  /** See `PeerState`. */
  readonly isFresh: boolean;
  /**
   * Number of samples whose gradients this rank keeps for the next step. They belong to accumulated
   * micro-batches or to a failed step.
   */
  readonly heldSamples: number;
  /** Drops the gradients of {@link heldSamples}. */
  drop(): void;
  /** Returns the progress of the committed state, to which {@link rollBack} returns. */
  committed(progress: TrainingProgress): TrainingProgress;
  /** Restores the committed state if the latest step was not applied or was not committed. */
  rollBack(): void;
  /**
   * Continues in `group`, whose ranks may have committed different numbers of steps. Every rank
   * must call it.
   *
   * @param progress this rank's progress; it is overwritten with the progress of the elected state.
   * @param note data for the other ranks.
   * @returns the states of all ranks before the recovery.
   */
  attach<Note>(group: ProcessGroup, progress: TrainingProgress, note: Note): Promise<EnteredRankState<Note>[]>;
  /** Returns a copy of the committed state at the time of the call. */
  snapshot(): Promise<DdpState>;
  /**
   * Replaces this rank's state by a copy of another state.
   *
   * @throws MismatchError if the other state belongs to a different model or optimizer; nothing is
   *   changed then.
   */
  load(state: DdpState): void;
  /**
   * Repeats steps of other ranks; `null` if no step can be repeated. Its `lastGradient` is `null`
   * if the gradient of the last step alone does not lead to the committed state.
   */
  readonly repeater: MissedStepRepeater | null;
  /** Whether {@link snapshot} has the averages of all parameters. */
  readonly isWhole: boolean;
  /**
   * Gives {@link snapshot} the averages of all parameters on the ranks with `isWanted`, until
   * {@link release} or the next step. Every rank must call it.
   */
  gatherWhole(isWanted: boolean): Promise<void>;
  release(): void;
}
