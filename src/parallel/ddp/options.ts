/** Options of DistributedDataParallel. */
import type { CollectiveCodecName } from '../../spec/codecs.ts';
import type { AlgorithmName } from '../../spec/algorithms.ts';
import type { Clock } from '../../util/clock.ts';
import { systemClock } from '../../util/clock.ts';
import { BUCKET_CAP_BYTES, FIRST_BUCKET_BYTES } from '../flat/buckets.ts';

export interface DistributedDataParallelOptions {
  firstBucketBytes?: number;
  bucketCapBytes?: number;
  /**
   * How gradients are averaged. With `samples` (default), the sum over the samples of all ranks is
   * divided by the number of these samples. With `ranks`, as in PyTorch, the sum of each rank's
   * mean gradient is divided by the world size.
   */
  average?: 'samples' | 'ranks';
  /**
   * Whether buffers (such as batch normalization's averages) are broadcast with every reduction,
   * from the lowest rank with samples. Default true.
   */
  broadcastBuffers?: boolean;
  /**
   * Whether ranks exchange which parameters their losses depended on. With true, a parameter that
   * no rank used keeps its previous gradient, and `step` does not change the parameter. With false
   * (default), the gradient of such a parameter is zero, and momentum and weight decay still change
   * the parameter.
   */
  findUnusedParameters?: boolean;
  /**
   * Has the effect of `findUnusedParameters`. In addition, a rank must use the same parameters in
   * every pass. Default false.
   */
  staticGraph?: boolean;
  /**
   * Algorithm of the buckets' all-reduces; see {@link AllReduceOptions}. A communication hook
   * chooses its own. Default: the group's algorithm.
   */
  algorithm?: AlgorithmName;
  /**
   * Encoding of the gradients. `fp16` sends half of the bytes and `int8` a quarter; values are
   * rounded at every hop. Replicas stay equal bit for bit. Default `fp32`: no encoding.
   */
  codec?: CollectiveCodecName;
  /**
   * Whether the codec's residual of one step is added to the gradient of the next step. This needs
   * two more arrays of the gradient's size. Default true.
   */
  errorFeedback?: boolean;
  /**
   * Whether this rank keeps its gradients if `backward` fails because the group fails. After
   * `regroup`, the next `backward` in the new group includes them, like gradients kept by `noSync`.
   * This needs one more array of the gradient's size. Default false.
   */
  keepGradients?: boolean;
  /**
   * Number of metrics that are averaged with the loss; see {@link ModelPass}. They are part of the
   * last bucket, so they need no message of their own. Default 0.
   */
  metrics?: number;
  clock?: Clock;
  /**
   * A signal that ends the call of `create`. When it is aborted, the group fails on every rank with
   * AbortError, which names this rank.
   */
  signal?: AbortSignal | undefined;
  /**
   * Called each time gradients are read from the GPU, before these gradients are sent or kept. It
   * must throw if the gradients are invalid, for example after a GPU error.
   */
  checkGradients?: () => void;
}

/** Options that must be the same on every rank. */
export interface SharedDdpOptions extends Required<
  Omit<DistributedDataParallelOptions, 'keepGradients' | 'clock' | 'signal' | 'checkGradients' | 'algorithm'>
> {
  /** Algorithm of the buckets' all-reduces; `null`: the group's algorithm. */
  algorithm: AlgorithmName | null;
}

/** Returns `options` with the defaults filled in. */
export function resolveDdpOptions({
  clock = systemClock,
  checkGradients = () => {},
  keepGradients = false,
  firstBucketBytes = FIRST_BUCKET_BYTES,
  bucketCapBytes = BUCKET_CAP_BYTES,
  average = 'samples',
  broadcastBuffers = true,
  findUnusedParameters = false,
  staticGraph = false,
  algorithm,
  codec = 'fp32',
  errorFeedback = true,
  metrics = 0,
}: DistributedDataParallelOptions) {
  const shared: SharedDdpOptions = {
    firstBucketBytes,
    bucketCapBytes,
    average,
    broadcastBuffers,
    findUnusedParameters,
    staticGraph,
    algorithm: algorithm ?? null,
    codec,
    errorFeedback,
    metrics,
  };
  return { clock, checkGradients, keepGradients, shared };
}
