/**
 * Communication hooks, which replace the plain all-reduce of a bucket. They work as
 * torch.distributed.algorithms.ddp_comm_hooks
 * (https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html), with two differences. A hook receives
 * a weighted bucket, so that it only has to sum. The hooks of several buckets run one after the
 * other (see {@link CommHook}).
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { fromHalf, toHalf } from '../../util/float16.ts';
import type { FlatLayout } from '../flat/buckets.ts';

/** Gradients that are sent together. */
export interface GradBucket {
  /**
   * Index of the bucket: 0, 1, ... On every rank, buckets of the same index have the same
   * parameters.
   */
  readonly index: number;
  /** Whether this is the last bucket of the step. */
  readonly isLast: boolean;
  /**
   * Whether the previous step failed after its reduction, so that it was not applied. A hook with
   * residuals then uses the residuals from before that step. The value is the same for all buckets
   * of a step.
   */
  readonly isRetry: boolean;
  /**
   * The hook receives this rank's gradient, weighted so that the sum over all ranks is the average.
   * The hook replaces the values by that sum or by an approximation of the sum. Replicas stay equal
   * only if the result has the same bits on every rank.
   */
  readonly buffer: Float32Array;
  /**
   * The parameters in {@link buffer}: index in forward order, first element, shape, and whether at
   * least one rank used the parameter in this step (true if usage is not tracked). The gradient of
   * an unused parameter is zero on all ranks, and the hook's result for this parameter is dropped.
   */
  readonly parameters: readonly {
    readonly index: number;
    readonly offset: number;
    readonly shape: readonly number[];
    readonly isUsed: boolean;
  }[];
}

/**
 * Reduces one bucket in place. DDP calls the hook for one bucket after the other. A hook may issue
 * several collectives; if the hooks of several buckets ran at the same time, the order of their
 * collectives could differ between ranks.
 *
 * @param group the group of the DDP instance; a hook must issue the same collectives on every rank.
 */
export interface CommHook {
  (bucket: GradBucket, group: ProcessGroup): Promise<void>;
  /**
   * Drops the residuals of this rank's earlier gradients; see
   * {@link DistributedDataParallel.resetErrorFeedback}.
   */
  reset?(): void;
}

export function gradBucketsOf(
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
 *
 * @example
 * ```ts
 * const ddp = await DistributedDataParallel.create(model, group);
 * ddp.registerCommHook(fp16Hook);
 * ```
 */
export const fp16Hook: CommHook = async ({ buffer, index }, group) => {
  const halves = toHalf(buffer);
  await group.allReduce(halves, { dtype: 'float16', bucket: index });
  fromHalf(halves, buffer);
};

/**
 * Sends nothing, so every rank keeps its own weighted gradient, and replicas drift apart. Use it to
 * measure the cost of communication.
 */
export const noopHook: CommHook = async () => {};
