/**
 * The optimizer of the strategy `ddp`: each rank has the averages of all parameters
 * (`strategies/wholeOptimizer.ts`), or of a shard (`shardedOptimizer.ts`).
 */
import type { OptimizerState } from '../../optim/optimizer.ts';
import type { ShardPiece } from './shardPiece.ts';

/** An optimizer's state on one rank. */
export interface SavedOptimizerState {
  /** The optimizer's state. It has no averages (`slots`) if the rank has `shards`. */
  optimizer: OptimizerState;
  /** The averages of shards that the rank holds. */
  shards?: readonly ShardPiece[];
}

/** Repeats a step from its averaged gradient, for a rank that is behind. */
export interface MissedStepRepeater {
  /** The averaged gradient of the last step; `null` before the first step. */
  readonly lastGradient: Float32Array<ArrayBuffer> | null;
  /** The learning rate of that step. */
  readonly learningRate: number;
  /** Applies the averaged gradient of other ranks, with their learning rate. */
  repeat(gradient: Float32Array<ArrayBuffer>, learningRate: number): void;
}

export interface ReplicaOptimizer {
  /** State that is equal on all ranks. It has no averages (`slots`) if they are sharded. */
  readonly equalState: OptimizerState;
  readonly learningRate: number;
  /** `null` if each rank has only its shard of the averaged gradient. */
  readonly repeater: MissedStepRepeater | null;
  /** Whether {@link snapshot} has the averages of all parameters. */
  readonly isWhole: boolean;
  /**
   * Updates the parameters after a backward. Every rank must call it. If it rejects, parameters and
   * state are those before the update.
   *
   * @param learningRate by default the optimizer's.
   * @param onapplied called synchronously when parameters and state have changed.
   * @returns milliseconds of communication.
   */
  update(learningRate: number | undefined, onapplied: () => void): Promise<number>;
  /** Returns a copy of this rank's state. */
  snapshot(): SavedOptimizerState;
  /** @throws MismatchError if the state belongs to a different optimizer or model. */
  check(saved: SavedOptimizerState): void;
  /** Replaces this rank's state by a copy of another state, which {@link check} has accepted. */
  load(saved: SavedOptimizerState): void;
  /**
   * Continues with the state that ranks have elected.
   *
   * @param elected the state that all ranks have, see {@link equalState}.
   * @param behind number of steps by which this rank's state was behind.
   * @param appliedIn generation in which the elected state's last step was applied.
   */
  adopt(elected: OptimizerState, behind: number, appliedIn: number): void;
  /**
   * Continues in the group of the DistributedDataParallel, whose ranks have equal parameters. Every
   * rank must call it.
   *
   * @param step number of applied steps.
   */
  attach(step: number): Promise<void>;
  /**
   * Gives {@link snapshot} the averages of all parameters on the ranks that want them, until
   * {@link release} or the next update. Every rank must call it.
   */
  gatherWhole(isWanted: boolean): Promise<void>;
  release(): void;
}
