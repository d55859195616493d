/**
 * Communication hooks, which replace the plain all-reduce of a bucket. As
 * torch.distributed.algorithms.ddp_comm_hooks
 * (https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html), with two differences: a bucket
 * arrives weighted, so that a hook only has to sum; and hooks of several buckets run one after the
 * other (see {@link CommHook}).
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { fromHalf, toHalf } from '../../util/float16.ts';
import type { FlatLayout } from './buckets.ts';

/** Gradients that travel together. */
export interface GradBucket {
  /** 0, 1, ...: the same parameters on every rank. */
  readonly index: number;
  /** Whether it is the step's last. */
  readonly isLast: boolean;
  /**
   * Whether the previous step failed after its buckets were reduced and was not applied. A hook
   * with residuals then uses those from before that step. The same for all buckets of a step.
   */
  readonly isRetry: boolean;
  /**
   * In: this rank's gradient, weighted so that the sum over all ranks is the average. Out: that sum
   * or an approximation of it, the same bits on every rank if replicas are to stay equal.
   */
  readonly buffer: Float32Array;
  /**
   * The parameters in {@link buffer}: index in forward order, first element, shape, and whether any
   * rank used it in this step (true if that is not tracked). The gradient of an unused parameter is
   * zero on all ranks, and the hook's result for it is dropped.
   */
  readonly parameters: readonly {
    readonly index: number;
    readonly offset: number;
    readonly shape: readonly number[];
    readonly isUsed: boolean;
  }[];
}

/**
 * Reduces one bucket in place. DDP calls it for one bucket after the other: a hook may wait for one
 * collective before it issues another, and hooks that ran at the same time would issue theirs in an
 * order that differs between ranks.
 *
 * @param group the group of the DDP instance; a hook must issue the same collectives on every rank.
 */
export interface CommHook {
  (bucket: GradBucket, group: ProcessGroup): Promise<void>;
  /**
   * Drops residuals of this rank's earlier gradients; see {@link
   * DistributedDataParallel.resetErrorFeedback}.
   */
  reset?(): void;
}

/** The buckets of `gradient` as hooks receive them. */
export function gradBuckets(
  { buckets }: FlatLayout,
  gradient: Float32Array,
  shapes: readonly (readonly number[])[],
  isUsed: (parameter: number) => boolean,
  isRetry: boolean,
): GradBucket[] {
  return buckets.map(({ slots, start, end }, index) => ({
    index,
    isLast: index === buckets.length - 1,
    isRetry,
    buffer: gradient.subarray(start, end),
    parameters: slots.map(({ parameter, offset }) => ({
      index: parameter,
      offset: offset - start,
      shape: shapes[parameter]!,
      isUsed: isUsed(parameter),
    })),
  }));
}

/** The default of DDP: the exact sum. (torch: `allreduce_hook`) */
export const allReduceHook: CommHook = async ({ buffer, index }, group) => {
  await group.allReduce(buffer, { bucket: index });
};

/**
 * Sends half the bytes: values and partial sums are rounded to float16 (11 bits of mantissa, up to
 * 65504). (torch: `fp16_compress_hook`)
 */
export const fp16Hook: CommHook = async ({ buffer, index }, group) => {
  const halves = toHalf(buffer);
  await group.allReduce(halves, { dtype: 'float16', bucket: index });
  fromHalf(halves, buffer);
};

/**
 * Sends nothing, so that every rank keeps its own weighted gradient and replicas drift apart. For
 * measuring the cost of communication.
 */
export const noopHook: CommHook = async () => {};
