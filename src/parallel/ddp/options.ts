/** How a model is wrapped. */
import type { CodecName } from '../../collectives/codecs.ts';
import type { Clock } from '../../util/clock.ts';
import { systemClock } from '../../util/clock.ts';
import { BUCKET_CAP_BYTES, FIRST_BUCKET_BYTES } from './buckets.ts';

export interface DistributedDataParallelOptions {
  firstBucketBytes?: number;
  bucketCapBytes?: number;
  /**
   * What the gradient is an average over: all ranks' `samples` (default), or the ranks, as in
   * PyTorch: the sum of each rank's mean gradient divided by the world size.
   */
  average?: 'samples' | 'ranks';
  /**
   * Whether rank 0's buffers (batch normalization's averages) are given to all with every
   * reduction. Default true.
   */
  broadcastBuffers?: boolean;
  /**
   * Whether ranks tell each other which parameters their losses depended on. One that no rank used
   * then keeps its gradient, and `step` leaves it alone; otherwise (default) its gradient is zero,
   * which momentum and weight decay do not ignore.
   */
  findUnusedParameters?: boolean;
  /**
   * As `findUnusedParameters`, and the parameters that a rank uses must be the same in every pass.
   * Default false.
   */
  staticGraph?: boolean;
  /**
   * How gradients travel: `fp16` and `int8` send a half and a quarter of the bytes, rounded at
   * every hop, and replicas stay equal bit for bit. Default `fp32`: as they are.
   */
  codec?: CodecName;
  /**
   * Whether what a codec's rounding took from a step's gradient is added to the next one's. Costs
   * two arrays of the gradient's size. Default true.
   */
  errorFeedback?: boolean;
  /**
   * Whether what a rank has computed outlives a `backward` that fails because its group does: it
   * counts as kept by `noSync`, for the next `backward`, after `regroup` in another group. Costs an
   * array of the gradient's size. Default false.
   */
  keepGradients?: boolean;
  clock?: Clock;
  /**
   * Called when a step's gradients are read and before any is sent; throws if they are void, as
   * after a GPU error.
   */
  checkGradients?: () => void;
}

/** What has to be the same on every rank. */
export type SharedOptions = Required<
  Omit<DistributedDataParallelOptions, 'keepGradients' | 'clock' | 'checkGradients'>
>;

/** `options` with the defaults filled in. */
export function resolveOptions({
  clock = systemClock,
  checkGradients = () => {},
  keepGradients = false,
  firstBucketBytes = FIRST_BUCKET_BYTES,
  bucketCapBytes = BUCKET_CAP_BYTES,
  average = 'samples',
  broadcastBuffers = true,
  findUnusedParameters = false,
  staticGraph = false,
  codec = 'fp32',
  errorFeedback = true,
}: DistributedDataParallelOptions) {
  const shared: SharedOptions = {
    ...{ firstBucketBytes, bucketCapBytes, average },
    ...{ broadcastBuffers, findUnusedParameters, staticGraph, codec, errorFeedback },
  };
  return { clock, checkGradients, keepGradients, shared };
}
