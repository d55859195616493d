/**
 * Communication hooks: what carries a bucket's gradient to the other ranks in place of the plain
 * all-reduce. As torch.distributed.algorithms.ddp_comm_hooks
 * (https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html), with two differences: a bucket
 * arrives weighted, so that a hook only has to add up; and hooks of several buckets run one after
 * the other (see {@link CommHook}).
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { fromHalf, toHalf } from '../../util/float16.ts';

/** Gradients that travel together. */
export interface GradBucket {
  /** 0, 1, ...: the same parameters on every rank. */
  readonly index: number;
  /** Whether it is the step's last. */
  readonly isLast: boolean;
  /**
   * Whether the step before failed after its buckets were reduced, and was not applied. A hook that
   * keeps residuals then goes on from those that it had before that step. The same for all buckets
   * of a step.
   */
  readonly isRetry: boolean;
  /**
   * In: this rank's gradient, weighted so that the sum over all ranks is the average. Out: that sum
   * or an approximation of it, the same bits on every rank if replicas are to stay equal.
   */
  readonly buffer: Float32Array;
  /**
   * What lies in {@link buffer}: each parameter's index in forward order, its first element, its
   * shape, and whether any rank used it in this step (where that is not tracked: true). Of one that
   * none used the gradient is zero on all ranks, and what the hook makes of it is dropped.
   */
  readonly parameters: readonly {
    readonly index: number;
    readonly offset: number;
    readonly shape: readonly number[];
    readonly isUsed: boolean;
  }[];
}

/**
 * Reduces one bucket in place. DDP calls it in order of buckets, for the next once it has resolved:
 * a hook may wait for one collective before it issues another, and if several ran at once, the
 * network would decide in which order theirs are issued, differently on each rank.
 *
 * @param group the group DDP was made with; what the hook issues, it has to issue on every rank
 *   alike.
 */
export interface CommHook {
  (bucket: GradBucket, group: ProcessGroup): Promise<void>;
  /**
   * Forgets what the hook has kept of this rank's earlier gradients; see {@link
   * DistributedDataParallel.forgetLosses}.
   */
  forget?(): void;
}

/** What DDP does without a hook: the exact sum. (torch: `allreduce_hook`) */
export const allReduceHook: CommHook = async ({ buffer, index }, group) => {
  await group.allReduce(buffer, { bucket: index });
};

/**
 * Sends half the bytes: rounds to float16 (11 bits of mantissa, up to 65504), which is also what
 * the sum is rounded to at each rank. (torch: `fp16_compress_hook`)
 */
export const fp16Hook: CommHook = async ({ buffer, index }, group) => {
  const halves = toHalf(buffer);
  await group.allReduce(halves, { dtype: 'float16', bucket: index });
  fromHalf(halves, buffer);
};

/**
 * Sends nothing and leaves every rank its own weighted gradient: replicas drift apart. To measure
 * what communication costs.
 */
export const noopHook: CommHook = async () => {};
