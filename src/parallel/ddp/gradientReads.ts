/**
 * Reads a pass's gradients from the GPU, bucket by bucket. A bucket is copied for reading as soon
 * as back-propagation has recorded it.
 */
import type { Clock } from '../../util/clock.ts';
import type { FlatLayout } from '../flat/buckets.ts';
import { TensorReader, type ComputedGradients, type PendingTensorRead, type Tensor } from '../backward/flatten.ts';
import type { GradientListener } from '../backward/tape.ts';

/** Gradients of a pass that are being read from the GPU. */
export interface PendingGradientReads {
  /** One promise for each bucket. It resolves when the bucket is read. */
  buckets: Promise<void>[];
  /** Resolves when the first bucket is read, with the time in milliseconds of the clock. */
  firstAt: Promise<number>;
  /** The loss, then the metrics; they are read after the last bucket. */
  values: Promise<readonly number[]>;
}

export class GradientReads {
  readonly #reader = new TensorReader();
  readonly #clock: Clock;
  /** Buckets whose copy has begun while the rest of the current pass is still being recorded. */
  #early = new Map<number, PendingTensorRead>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Begins a pass. The returned listener receives gradients as they become final and starts the
   * copy of each complete bucket. The last bucket waits for {@link read}, because it is copied with
   * loss and metrics.
   */
  listen({ buckets }: FlatLayout): GradientListener {
    this.#early = new Map();
    const tensors: Tensor[] = [];
    const bucketOf = new Map(
      buckets.slice(0, -1).flatMap(({ slots }, bucket) => slots.map(({ parameter }) => [parameter, bucket] as const)),
    );
    const missing = buckets.map(({ slots }) => slots.length);
    return (parameter, gradient) => {
      const bucket = bucketOf.get(parameter);
      if (bucket === undefined) return;
      tensors[parameter] = gradient;
      missing[bucket]! -= 1;
      if (missing[bucket] === 0) this.#early.set(bucket, this.#start(buckets[bucket]!, bucket, tensors));
    };
  }

  /**
   * Reads each bucket of `computed` into its range of `into`.
   *
   * @param computed the gradients of the pass. If it is `null`, nothing is read, and there are no
   *   values.
   * @param add whether to add to the values of `into`.
   */
  read(
    { buckets }: FlatLayout,
    computed: ComputedGradients | null,
    into: Float32Array,
    add: boolean,
  ): PendingGradientReads {
    const early = this.#early;
    this.#early = new Map();
    if (!computed) {
      const firstAt = Promise.resolve(this.#clock.now());
      return { buckets: buckets.map(() => Promise.resolve()), firstAt, values: Promise.resolve([]) };
    }
    // All reads are queued now. The GPU serves them in order, so the first bucket arrives while
    // later buckets are computed or copied.
    const pendingReads = buckets.map((members, bucket) => {
      const isLast = bucket === buckets.length - 1;
      const rest = isLast ? [computed.value, ...(computed.metrics ? [computed.metrics] : [])] : [];
      return early.get(bucket) ?? this.#start(members, bucket, computed.gradients, ...rest);
    });
    const read = pendingReads.map((pending, bucket) => {
      const { start, end } = buckets[bucket]!;
      return pending.into(into.subarray(start, end), { add });
    });
    const whole = read.map(async (promise) => void (await promise));
    const firstAt = whole[0]!.then(() => this.#clock.now());
    const values = read.at(-1)!;
    // Callers await these promises one after the other. Until then, a failure of a later promise
    // must not count as unhandled.
    for (const promise of [...whole, firstAt, values]) promise.catch(() => {});
    return { buckets: whole, firstAt, values };
  }

  dispose(): void {
    this.#reader.dispose();
  }

  /** @param rest tensors to read after those of the bucket. */
  #start(
    { slots }: FlatLayout['buckets'][number],
    bucket: number,
    gradients: readonly Tensor[],
    ...rest: Tensor[]
  ): PendingTensorRead {
    return this.#reader.start(bucket, [...slots.map(({ parameter }) => gradients[parameter]!), ...rest]);
  }
}
