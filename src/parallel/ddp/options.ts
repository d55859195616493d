/** Options of DistributedDataParallel. */
import type { CodecName } from '../../collectives/codecs.ts';
import type { Clock } from '../../util/clock.ts';
import { systemClock } from '../../util/clock.ts';
import { BUCKET_CAP_BYTES, FIRST_BUCKET_BYTES } from './buckets.ts';

export interface DistributedDataParallelOptions {
  firstBucketBytes?: number;
  bucketCapBytes?: number;
  /**
   * The divisor of the gradient: all ranks' `samples` (default), or the number of ranks, as in
   * PyTorch: the sum of each rank's mean gradient divided by the world size.
   */
  average?: 'samples' | 'ranks';
  /**
   * Whether rank 0's buffers (batch normalization's averages) are broadcast with every reduction.
   * Default true.
   */
  broadcastBuffers?: boolean;
  /**
   * Whether ranks exchange which parameters their losses depended on. A parameter that no rank used
   * then keeps its gradient, and `step` does not change it. Otherwise (default) its gradient is
   * zero, and momentum and weight decay still change it.
   */
  findUnusedParameters?: boolean;
  /**
   * As `findUnusedParameters`, and the parameters that a rank uses must be the same in every pass.
   * Default false.
   */
  staticGraph?: boolean;
  /**
   * Encoding of the gradients: `fp16` and `int8` send a half and a quarter of the bytes, rounded at
   * every hop; replicas stay equal bit for bit. Default `fp32`: not encoded.
   */
  codec?: CodecName;
  /**
   * Whether a codec's residual of a step is added to the next step's gradient. Costs two arrays of
   * the gradient's size. Default true.
   */
  errorFeedback?: boolean;
  /**
   * Whether this rank's gradients survive a `backward` that fails because its group does: they
   * count as kept by `noSync` for the next `backward`, after `regroup` in another group. Costs an
   * array of the gradient's size. Default false.
   */
  keepGradients?: boolean;
  clock?: Clock;
  /**
   * Called when a step's gradients are read and before any is sent; throws if they are invalid, for
   * example after a GPU error.
   */
  checkGradients?: () => void;
}

/** Options that must be the same on every rank. */
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
    firstBucketBytes,
    bucketCapBytes,
    average,
    broadcastBuffers,
    findUnusedParameters,
    staticGraph,
    codec,
    errorFeedback,
  };
  return { clock, checkGradients, keepGradients, shared };
}
