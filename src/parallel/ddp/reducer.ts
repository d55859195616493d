/**
 * The reducer, as PyTorch calls it: reads a rank's gradients from the GPU bucket by bucket and sums
 * them over all ranks. The all-reduce of one bucket runs while the GPU computes and copies the
 * next.
 */
import { codecByName } from '../../collectives/codecs.ts';
import type { CollectiveCodecName } from '../../spec/codecs.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { AllReduceTrace } from '../../collectives/work.ts';
import { divideVector } from '../../optim/index.ts';
import type { ElementRange } from '../../util/range.ts';
import { mergedSlotRanges, rearrangeParameters, type FlatLayout } from '../flat/buckets.ts';
import { gradBucketsOf, type CommHook } from './commHooks.ts';
import { ErrorFeedback } from './errorFeedback.ts';
import { BucketShards } from './bucketShards.ts';
import { GradientReads } from './gradientReads.ts';
import type { LocalPass, UntimedReducedPass, ReducerOptions } from './reduction.ts';
import type { GradientListener } from '../backward/tape.ts';
import { checkTotalSamples, gradientDivisorOf, type GradientDivisorOptions } from './weighting.ts';

/** Passes that are not reduced yet (`noSync`, or a reduction that failed). */
interface Pending {
  gradient: Float32Array<ArrayBuffer>;
  used: boolean[];
  loss: number;
  metrics: number[];
  samples: number;
}

/** Communication of the buckets; `issuedAt` and `lastReadAt` are times of the clock. */
interface Transfer {
  traces: (AllReduceTrace | null)[];
  issuedAt: number;
  lastReadAt: number;
}

export class Reducer {
  /** The averaged gradient after {@link reduce}, flat. */
  readonly gradient: Float32Array<ArrayBuffer>;
  /** Hook that reduces the buckets; `null`: the plain all-reduce. */
  hook: CommHook | null = null;
  /** Whether this rank receives only the sums of its shard, see {@link shards}. */
  isSharded = false;
  readonly #options: Omit<ReducerOptions, 'group'>;
  readonly #reads: GradientReads;
  /** The data that ranks sum: the gradient, then the tally. */
  readonly #buffer: Float32Array<ArrayBuffer>;
  readonly #tally: Tally;
  #codec: CollectiveCodecName;
  #feedback: ErrorFeedback | null = null;
  #layout: FlatLayout;
  #usedRanges: readonly ElementRange[];
  #group: ProcessGroup;
  #pending: Pending | null = null;
  /** Whether the hook reduced a step that was not committed. */
  #isRetry = false;
  /** With `keepsLocal`, the array for this rank's own gradients. It is reused in every step. */
  #local: Float32Array<ArrayBuffer> | null = null;

  constructor(layout: FlatLayout, { group, ...options }: ReducerOptions) {
    const { shapes, tracksUsage, flags, metrics, clock } = options;
    this.#group = group;
    this.#options = options;
    this.#layout = layout;
    this.#usedRanges = mergedSlotRanges(layout.slots, () => true);
    this.#reads = new GradientReads(clock);
    this.#buffer = new Float32Array(layout.size + Tally.size(shapes.length, tracksUsage, flags + metrics));
    this.gradient = this.#buffer.subarray(0, layout.size);
    this.#tally = new Tally(this.#buffer.subarray(layout.size), tracksUsage);
    this.#codec = 'fp32';
    this.useCodec(options.codec);
  }

  get layout(): FlatLayout {
    return this.#layout;
  }

  /** Sets the codec of buckets from now on. The residual of the previous codec is dropped. */
  useCodec(codec: CollectiveCodecName): void {
    this.#codec = codec;
    this.#feedback = this.#isEncoded && this.#options.errorFeedback ? new ErrorFeedback(this.#layout.size) : null;
  }

  get shards(): BucketShards {
    return new BucketShards(this.#layout, this.#group, this.#isEncoded ? 0 : this.#tally.values.length);
  }

  /** Number of bytes that ranks sum in a step without a hook. */
  get bytes(): number {
    const buckets = this.bucketBytes.reduce((sum, bytes) => sum + bytes, 0);
    return this.#isEncoded ? buckets + this.#tally.values.byteLength : buckets;
  }

  /** For each bucket: the number of bytes that ranks sum in a step without a hook. */
  get bucketBytes(): number[] {
    const codec = codecByName(this.#codec);
    return this.#layout.buckets.map((_, bucket) => {
      const { length, byteLength } = this.#bucketView(bucket);
      return codec?.bytesOf(length) ?? byteLength;
    });
  }

  /** Whether gradients are kept for the next {@link reduce}. */
  get hasPending(): boolean {
    return this.#pending !== null;
  }

  /** Number of samples whose gradients are kept for the next {@link reduce}. */
  get pendingSamples(): number {
    return this.#pending?.samples ?? 0;
  }

  /**
   * Ranges of the parameters that at least one rank used in the latest reduction; all parameters if
   * usage is not tracked.
   */
  get usedRanges(): readonly ElementRange[] {
    return this.#usedRanges;
  }

  /** Uses another group from the next reduction on. */
  regroup(group: ProcessGroup): void {
    this.#group = group;
  }

  /** Drops the gradients that are kept for the next {@link reduce}. */
  dropGradients(): void {
    this.#pending = null;
  }

  /**
   * Commits the residuals of the latest {@link reduce}. Call it when the step cannot fail any more,
   * because a retry would need the residuals from before the step.
   */
  commit(): void {
    // Parameters that no rank used keep their previous residual.
    this.#feedback?.commit(mergedSlotRanges(this.#layout.slots, ({ parameter }) => !this.#tally.isUsed(parameter)));
    this.#isRetry = false;
  }

  /** Sets the residuals of codec and hook to zero. */
  resetErrorFeedback(): void {
    this.#feedback?.reset();
    this.hook?.reset?.();
  }

  /**
   * Replaces the layout by a different one of the same parameters. {@link gradient} is invalid
   * afterwards, unless it was zero everywhere.
   */
  setLayout(layout: FlatLayout): void {
    if (this.#pending) rearrangeParameters(this.#pending.gradient, this.#layout, layout);
    this.resetErrorFeedback();
    this.#layout = layout;
  }

  /** Begins a pass; see {@link GradientReads.listen}. */
  listen(): GradientListener {
    return this.#reads.listen(this.#layout);
  }

  /**
   * Keeps the gradients of a pass for the next {@link reduce}, which sums all kept gradients. Sends
   * nothing.
   */
  async accumulate({ computed, samples }: LocalPass): Promise<{ loss: number; computedAt: number }> {
    const { shapes, metrics, checkGradients } = this.#options;
    const pending: Pending = this.#pending ?? {
      gradient: this.#newLocal(),
      used: shapes.map(() => false),
      loss: 0,
      metrics: Array.from({ length: metrics }, () => 0),
      samples: 0,
    };
    const reads = this.#reads.read(this.#layout, computed, pending.gradient, this.#pending !== null);
    try {
      await Promise.all(reads.buckets);
      const [[loss = 0, ...measured], computedAt] = await Promise.all([reads.values, reads.firstAt]);
      checkGradients();
      pending.loss += loss;
      pending.metrics = pending.metrics.map((value, i) => value + measured[i]!);
      pending.samples += samples;
      pending.used = pending.used.map((used, parameter) => used || computed.used[parameter]!);
      this.#pending = pending;
      return { loss, computedAt };
    } catch (error) {
      // A part of the failed pass may already be added to the kept gradients, so they are dropped.
      this.#pending = null;
      await Promise.allSettled(reads.buckets);
      throw error;
    }
  }

  /**
   * Sums the gradients of all ranks, including those kept by {@link accumulate}, and divides the
   * sum by the number of samples or ranks. Every rank must call it; a rank without a pass
   * contributes zeros.
   *
   * Codecs and hooks receive averages, so that residuals have the same scale in steps of any size.
   * If the divisor is not known, ranks first sum their numbers of samples.
   *
   * After a failure, the promise rejects only when all reads have ended. With `keepsLocal`, this
   * rank's gradients are kept if the group failed, and dropped if the device failed.
   *
   * @param flags this rank's flags; the option `flags` is their number. The result has their sums
   *   over all ranks.
   * @throws (rejects) DeviceError; MismatchError if samples do not add up to `totalSamples`,
   *   which ends the group; errors of the hook and of {@link ProcessGroup.allReduce}.
   */
  async reduce(
    pass: LocalPass | null,
    flags: readonly number[],
    weighting: GradientDivisorOptions,
  ): Promise<UntimedReducedPass & { flags: Float32Array }> {
    const { clock, shapes, tracksUsage, keepsLocal, metrics: count } = this.#options;
    const pending = this.#pending;
    const used = shapes.map((_, i) => (pass?.computed.used[i] ?? false) || (pending?.used[i] ?? false));
    const unused = tracksUsage ? this.#layout.slots.filter(({ parameter }) => !used[parameter]) : [];
    const untouched = unused.map(({ offset, size }) => this.gradient.slice(offset, offset + size));

    const local = keepsLocal && (pending || pass) ? (pending?.gradient ?? this.#newLocal()) : this.gradient;
    if (pending && !keepsLocal) this.gradient.set(pending.gradient);
    else if (!pending && !pass) this.gradient.fill(0);
    const reads = this.#reads.read(this.#layout, pass?.computed ?? null, local, pending !== null);
    const buckets = local === this.gradient ? reads.buckets : this.#copied(reads.buckets, local);
    Promise.all(buckets).then(
      () => pass?.oncomputed?.(),
      () => {},
    );
    const samples = (pass?.samples ?? 0) + (pending?.samples ?? 0);
    let loss = 0;
    let metrics: number[] = [];
    const setTally = async (): Promise<void> => {
      const [own = 0, ...measured] = await reads.values;
      loss = own + (pending?.loss ?? 0);
      metrics = Array.from({ length: count }, (_, i) => (measured[i] ?? 0) + (pending?.metrics[i] ?? 0));
      this.#tally.set({ loss, samples, used, flags: [...flags, ...metrics] });
    };
    // The last bucket also contains the tally, so it is complete only when the tally is set.
    const last = buckets.length - 1;
    buckets[last] = buckets[last]!.then(setTally);
    buckets[last].catch(() => {});
    const { hook } = this;
    let computedAt: number;
    let transfer: Transfer;
    try {
      // The collective of `gradientDivisorOf` is issued first, so that it runs while the GPU
      // computes.
      const divisor = hook || this.#isEncoded ? gradientDivisorOf(this.#group, samples, weighting) : null;
      divisor?.catch(() => {});
      transfer = hook ? await this.#runHook(hook, buckets, divisor!) : await this.#allReduceBuckets(buckets, divisor);
      computedAt = await reads.firstAt;
    } catch (error) {
      const cause = await this.#causeOf(error, buckets);
      const isWhole = keepsLocal && cause === this.#group.failure && samples > 0;
      if (keepsLocal) this.#pending = isWhole ? { gradient: local, used, loss, metrics, samples } : null;
      throw cause;
    }
    const { traces, issuedAt, lastReadAt } = transfer;
    const doneAt = clock.now();
    const by = weighting.ranks ?? this.#tally.samples;
    if (hook || this.#isEncoded) checkTotalSamples(this.#group, this.#tally.samples, weighting);
    else if (this.isSharded)
      for (const { start, end } of this.shards.own) divideVector(this.gradient.subarray(start, end), by);
    else divideVector(this.gradient, by);
    this.#pending = null;

    if (tracksUsage) {
      unused.forEach(({ parameter, offset }, i) => {
        if (!this.#tally.isUsed(parameter)) this.gradient.set(untouched[i]!, offset);
      });
      this.#usedRanges = mergedSlotRanges(this.#layout.slots, ({ parameter }) => this.#tally.isUsed(parameter));
    }
    const sums = this.#tally.flags(flags.length + count);
    return {
      loss: by > 0 ? this.#tally.loss / by : 0,
      metrics: Array.from(sums.subarray(flags.length), (sum) => (by > 0 ? sum / by : 0)),
      samples: this.#tally.samples,
      traces,
      readback: lastReadAt - computedAt,
      communicate: doneAt - issuedAt,
      exposed: doneAt - lastReadAt,
      flags: sums.subarray(0, flags.length),
      computedAt,
    };
  }

  dispose(): void {
    this.#reads.dispose();
  }

  /**
   * Returns the array for this rank's own gradients. With `keepsLocal` it has old values, which
   * must be overwritten.
   */
  #newLocal(): Float32Array<ArrayBuffer> {
    if (!this.#options.keepsLocal) return new Float32Array(this.#layout.size);
    return (this.#local ??= new Float32Array(this.#layout.size));
  }

  /** Copies each bucket of `local` into {@link gradient} once it is read. */
  #copied(reads: readonly Promise<void>[], local: Float32Array): Promise<void>[] {
    return reads.map((read, bucket) => {
      const { start, end } = this.#layout.buckets[bucket]!;
      const copied = read.then(() => this.gradient.set(local.subarray(start, end), start));
      // A failure must not count as unhandled before the promises are awaited.
      copied.catch(() => {});
      return copied;
    });
  }

  /**
   * Waits for all reads and returns the error to report for a failed reduction. An error of the
   * device has priority over an error of the group, because an error of the device makes the
   * gradients invalid.
   */
  async #causeOf(error: unknown, reads: readonly Promise<void>[]): Promise<unknown> {
    const settled = await Promise.allSettled(reads);
    for (const read of settled) if (read.status === 'rejected') return read.reason;
    try {
      this.#options.checkGradients();
    } catch (deviceError) {
      return deviceError;
    }
    return error;
  }

  /**
   * @param divisor the number by which this rank's part is divided before it is sent. With `null`
   *   it is not divided.
   */
  async #allReduceBuckets(reads: readonly Promise<void>[], divisor: Promise<number> | null): Promise<Transfer> {
    const { clock, checkGradients } = this.#options;
    const group = this.#group;
    const algorithm = this.#options.algorithm ?? group.algorithm;
    let issuedAt = 0;
    let lastReadAt = 0;
    const codec = this.#codec;
    let tallied: PromiseLike<unknown> | null = null;
    const works = [];
    const shards = this.isSharded ? this.shards : null;
    const parts = [];
    for (const [bucket, read] of reads.entries()) {
      await read;
      checkGradients();
      lastReadAt = clock.now();
      if (bucket === 0) issuedAt = lastReadAt;
      // The tally is complete only now, with the last bucket. It is small, so it is sent before
      // this bucket.
      if (this.#isEncoded && bucket === reads.length - 1) tallied = group.allReduce(this.#tally.values);
      const values = this.#bucketView(bucket);
      if (divisor) divideVector(values, await divisor);
      const residual = this.#feedback?.apply(values, this.#layout.buckets[bucket]!.start) ?? null;
      if (shards) parts.push(shards.reduceScatter(bucket, values, { codec, residual }));
      else works.push(group.allReduce(values, { bucket, algorithm, codec, residual }));
    }
    await tallied;
    await shards?.finish(parts, this.gradient, this.#tally.values);
    const traces: (AllReduceTrace | null)[] = [];
    for (const work of works) {
      await work;
      traces.push(work.trace);
    }
    return { traces, issuedAt, lastReadAt };
  }

  /**
   * Runs the hook for each bucket. The tally is summed at the same time, or before the hook runs if
   * the hook must know which parameters were used.
   */
  async #runHook(hook: CommHook, reads: readonly Promise<void>[], divisor: Promise<number>): Promise<Transfer> {
    const { clock, shapes, tracksUsage, checkGradients } = this.#options;
    const group = this.#group;
    await Promise.all(reads);
    checkGradients();
    const lastReadAt = clock.now();
    const tallied = group.allReduce(this.#tally.values);
    if (tracksUsage) await tallied;
    divideVector(this.gradient, await divisor);
    const isRetry = this.#isRetry;
    this.#isRetry = true;
    const isUsed = (parameter: number): boolean => this.#tally.isUsed(parameter);
    for (const bucket of gradBucketsOf(this.#layout, this.gradient, shapes, isUsed, isRetry)) await hook(bucket, group);
    await tallied;
    return { traces: [], issuedAt: lastReadAt, lastReadAt };
  }

  get #isEncoded(): boolean {
    return this.#codec !== 'fp32';
  }

  /**
   * Returns the elements of a bucket's all-reduce. The last bucket includes the tally, unless
   * buckets are encoded.
   */
  #bucketView(bucket: number): Float32Array<ArrayBuffer> {
    const { buckets } = this.#layout;
    const { start, end } = buckets[bucket]!;
    const includesTally = bucket === buckets.length - 1 && !this.#isEncoded;
    return this.#buffer.subarray(start, includesTally ? this.#buffer.length : end);
  }
}

interface TallyValues {
  /**
   * Sum of the loss over this rank's samples; with DDP's option `average: 'ranks'`, sum of the mean
   * losses of this rank's passes.
   */
  loss: number;
  samples: number;
  /** For each parameter, whether this rank used it. */
  used: readonly boolean[];
  /** Flags of buffers, then metrics. */
  flags: readonly number[];
}

const LOSS = 0;
const SAMPLES = 1;
const USES = 2;

/** A few numbers that ranks sum in addition to the gradient. */
class Tally {
  /** Loss, samples, uses by parameter (if usage is tracked), flags. */
  readonly values: Float32Array<ArrayBuffer>;
  readonly #tracksUsage: boolean;

  /** @param values an array of {@link Tally.size} elements. */
  constructor(values: Float32Array<ArrayBuffer>, tracksUsage: boolean) {
    this.values = values;
    this.#tracksUsage = tracksUsage;
  }

  static size(parameters: number, tracksUsage: boolean, flags: number): number {
    return USES + (tracksUsage ? parameters : 0) + flags;
  }

  set({ loss, samples, used, flags }: TallyValues): void {
    this.values.set([loss, samples, ...(this.#tracksUsage ? used.map(Number) : []), ...flags]);
  }

  get loss(): number {
    return this.values[LOSS]!;
  }

  get samples(): number {
    return this.values[SAMPLES]!;
  }

  /**
   * Whether at least one rank used a parameter; true if usage is not tracked. Call it after the
   * tally is summed over the ranks.
   */
  isUsed(parameter: number): boolean {
    return !this.#tracksUsage || this.values[USES + parameter] !== 0;
  }

  /** Returns the flags, which are the last `count` numbers. */
  flags(count: number): Float32Array<ArrayBuffer> {
    return this.values.subarray(this.values.length - count);
  }
}
