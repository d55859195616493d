/**
 * The reducer, in PyTorch's word: takes a rank's gradients off the GPU bucket by bucket and adds
 * them up with the other ranks'. A bucket is copied for reading as soon as back-propagation has
 * recorded it, and its all-reduce runs while the GPU computes and copies the next.
 */
import { codecOf, type CodecName } from '../../collectives/codecs.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { OpTrace } from '../../collectives/work.ts';
import type { Clock } from '../../util/clock.ts';
import { divide } from '../../util/divide.ts';
import { MismatchError } from '../../util/errors.ts';
import type { Range } from '../../util/range.ts';
import { rangesOf, rearrange, type FlatLayout } from './buckets.ts';
import type { CommHook, GradBucket } from './commHooks.ts';
import { ErrorFeedback } from './errorFeedback.ts';
import { TensorReader, type Gradients, type Reading, type Tensor } from './flatten.ts';
import type { GradientListener } from './tape.ts';

/** What a reduction gave and took; times in milliseconds, see `StepTimes`. */
export interface Reduction {
  /** The loss, averaged as the gradient is. */
  loss: number;
  /** Samples of all ranks. */
  samples: number;
  /** Bytes of frames this rank sent meanwhile. */
  bytesSent: number;
  /**
   * How each bucket went round the ring, by bucket; `null` where it took another way, nothing where
   * a hook carried them.
   */
  traces: (OpTrace | null)[];
  compute: number;
  readback: number;
  communicate: number;
  exposed: number;
}

/** A reduction before it is known when it began. */
export type OpenReduction = Omit<Reduction, 'compute' | 'bytesSent'> & {
  /** When the first bucket was here, milliseconds of the clock. */
  computedAt: number;
};

/**
 * One backward pass of this rank: gradients of a loss that is scaled as ranks add up, and its
 * samples.
 */
export interface LocalPass {
  computed: Gradients;
  samples: number;
}

/**
 * The divisor that makes averages of a step's sums: ranks, or by default the samples of all of
 * them.
 */
interface Weighting {
  ranks?: number;
  /** The samples of all ranks, where the caller knows; see `PassOptions`. */
  totalSamples?: number;
}

interface ReducerOptions {
  group: ProcessGroup;
  clock: Clock;
  /** By parameter, forward order. */
  shapes: readonly (readonly number[])[];
  /** Whether to find out which parameters no rank used. */
  tracksUsage: boolean;
  /** How many flags ranks add up beside the gradient. */
  flags: number;
  checkGradients: () => void;
  /**
   * Whether this rank's gradients outlive a reduction that fails with its group: they are then kept
   * as by {@link Reducer.accumulate}. Costs an array of the gradient's size.
   */
  keepsLocal: boolean;
  /**
   * How buckets travel at first: a codec takes averages, and the tally goes as it is, by itself.
   */
  codec: CodecName;
  /** Whether what the codec takes from a step's gradient is added to the next one's. */
  errorFeedback: boolean;
}

/** Passes that were not reduced yet (`noSync`, or a reduction that failed). */
interface Pending {
  gradient: Float32Array<ArrayBuffer>;
  used: boolean[];
  loss: number;
  samples: number;
}

/** A pass on its way from the GPU, bucket by bucket. */
interface Reads {
  buckets: Promise<void>[];
  /** When the first one was here. */
  firstAt: Promise<number>;
  /** Behind the last one. */
  loss: Promise<number>;
}

/** How the buckets went; times in milliseconds. */
interface Transfer {
  traces: (OpTrace | null)[];
  issuedAt: number;
  lastReadAt: number;
}

/**
 * The tally, small numbers that ranks add up behind the gradient: the loss, the samples, uses by
 * parameter, flags.
 */
const LOSS = 0;
const SAMPLES = 1;
const USES = 2;

/** Relative: the tally is a float32, and samples may be fractions. */
const TOTAL_TOLERANCE = 1e-5;

export class Reducer {
  /** After {@link reduce}: the average, flat. */
  readonly gradient: Float32Array<ArrayBuffer>;
  /** Carries the buckets in place of the plain all-reduce. */
  hook: CommHook | null = null;
  readonly #options: Omit<ReducerOptions, 'group'>;
  readonly #reader = new TensorReader();
  /** What goes round the ring: the gradient, then the tally. */
  readonly #buffer: Float32Array<ArrayBuffer>;
  readonly #tally: Float32Array<ArrayBuffer>;
  #codec: CodecName;
  #feedback: ErrorFeedback | null = null;
  #layout: FlatLayout;
  #usedRanges: readonly Range[];
  #group: ProcessGroup;
  #pending: Pending | null = null;
  /** Whether the hook has reduced a step that was not committed. */
  #isRetry = false;
  /** Buckets of the pass under way that are being copied while the rest is recorded. */
  #early = new Map<number, Reading>();
  /** With `keepsLocal`: this rank's own sum, from step to step. */
  #local: Float32Array<ArrayBuffer> | null = null;

  constructor(layout: FlatLayout, { group, ...options }: ReducerOptions) {
    const { shapes, tracksUsage, flags } = options;
    this.#group = group;
    this.#options = options;
    this.#layout = layout;
    this.#usedRanges = rangesOf(layout.slots, () => true);
    this.#buffer = new Float32Array(layout.size + USES + (tracksUsage ? shapes.length : 0) + flags);
    this.gradient = this.#buffer.subarray(0, layout.size);
    this.#tally = this.#buffer.subarray(layout.size);
    this.#codec = 'fp32';
    this.useCodec(options.codec);
  }

  get layout(): FlatLayout {
    return this.#layout;
  }

  /** How buckets travel from now on; what the codec before kept is forgotten. */
  useCodec(codec: CodecName): void {
    this.#codec = codec;
    this.#feedback = this.#isEncoded && this.#options.errorFeedback ? new ErrorFeedback(this.#layout.size) : null;
  }

  /** Bytes of what goes round the ring in a step, without a hook. */
  get bytes(): number {
    const buckets = this.bucketBytes.reduce((sum, bytes) => sum + bytes, 0);
    return this.#isEncoded ? buckets + this.#tally.byteLength : buckets;
  }

  /** The same by bucket. */
  get bucketBytes(): number[] {
    const codec = codecOf(this.#codec);
    return this.#layout.buckets.map((_, bucket) => {
      const { length, byteLength } = this.#bucketView(bucket);
      return codec?.bytesOf(length) ?? byteLength;
    });
  }

  /** Whether {@link accumulate} has kept gradients that were not reduced since. */
  get hasPending(): boolean {
    return this.#pending !== null;
  }

  /** Samples whose gradients are kept for the next {@link reduce}. */
  get pendingSamples(): number {
    return this.#pending?.samples ?? 0;
  }

  /**
   * Stretches of parameters that some rank used in the last reduction; everything where that is not
   * tracked.
   */
  get usedRanges(): readonly Range[] {
    return this.#usedRanges;
  }

  /** Reduces in another group from now on. */
  regroup(group: ProcessGroup): void {
    this.#group = group;
  }

  /** Forgets what is kept for the next {@link reduce}. */
  drop(): void {
    this.#pending = null;
  }

  /**
   * Keeps the residuals of the last {@link reduce}. To be called once nothing of the step can fail
   * any more: a step that is tried again needs the residuals from before it.
   */
  commit(): void {
    // What came of parameters that no rank used is dropped.
    this.#feedback?.commit(rangesOf(this.#layout.slots, ({ parameter }) => !this.#isUsed(parameter)));
    this.#isRetry = false;
  }

  /** Forgets what codec or hook have kept of earlier gradients. */
  forgetLosses(): void {
    this.#feedback?.forget();
    this.hook?.forget?.();
  }

  /** Takes other buckets of a layout in which every parameter has the same place. */
  cut(layout: FlatLayout): void {
    this.#layout = layout;
  }

  /**
   * Takes another layout of the same parameters; {@link gradient} is void afterwards, unless it was
   * zero everywhere.
   */
  relayout(layout: FlatLayout): void {
    if (this.#pending) rearrange(this.#pending.gradient, this.#layout, layout);
    this.forgetLosses();
    this.#layout = layout;
  }

  /**
   * A pass begins: what is returned is to be told its gradients as they become final, so that
   * buckets can be copied while the rest of the pass is recorded. The last bucket goes with the
   * loss, once all is.
   */
  listen(): GradientListener {
    this.#early = new Map();
    const tensors: Tensor[] = [];
    const { buckets } = this.#layout;
    const bucketOf = new Map(
      buckets.slice(0, -1).flatMap(({ slots }, bucket) => slots.map(({ parameter }) => [parameter, bucket] as const)),
    );
    const missing = buckets.map(({ slots }) => slots.length);
    return (parameter, gradient) => {
      const bucket = bucketOf.get(parameter);
      if (bucket === undefined) return;
      tensors[parameter] = gradient;
      missing[bucket]! -= 1;
      if (missing[bucket] === 0) this.#early.set(bucket, this.#startBucket(bucket, tensors));
    };
  }

  /** Keeps a pass for the next {@link reduce}, which adds up all of them. Sends nothing. */
  async accumulate({ computed, samples }: LocalPass): Promise<{ loss: number; computedAt: number }> {
    const { shapes, checkGradients } = this.#options;
    const pending: Pending = this.#pending ?? {
      gradient: this.#newLocal(),
      used: shapes.map(() => false),
      loss: 0,
      samples: 0,
    };
    const reads = this.#read(computed, pending.gradient, this.#pending !== null);
    try {
      await Promise.all(reads.buckets);
      const [loss, computedAt] = await Promise.all([reads.loss, reads.firstAt]);
      checkGradients();
      pending.loss += loss;
      pending.samples += samples;
      pending.used = pending.used.map((used, parameter) => used || computed.used[parameter]!);
      this.#pending = pending;
      return { loss, computedAt };
    } catch (error) {
      // Some of it may have been added to what was kept before.
      this.#pending = null;
      await Promise.allSettled(reads.buckets);
      throw error;
    }
  }

  /**
   * Adds up all ranks' passes, those kept by {@link accumulate} included, and divides. Every rank
   * must call it; one without a pass contributes zeros.
   *
   * A codec and a hook get averages, so that residuals have the same unit in steps of any size.
   * Where the divisor is not known, ranks count their samples first.
   *
   * Where it fails, all reads are over; with `keepsLocal`, what this rank has computed is kept if
   * it was the group that failed, and all is dropped if the device did.
   *
   * @param flags this rank's, as many as the options say; their sums come back.
   * @throws (rejects) DeviceError; MismatchError where samples do not add up to `totalSamples`,
   *   which ends the group; what the hook and {@link ProcessGroup.allReduce} reject with.
   */
  async reduce(
    pass: LocalPass | null,
    flags: readonly number[],
    weighting: Weighting,
  ): Promise<OpenReduction & { flags: Float32Array }> {
    const { clock, shapes, tracksUsage, keepsLocal } = this.#options;
    const pending = this.#pending;
    const used = shapes.map((_, i) => (pass?.computed.used[i] ?? false) || (pending?.used[i] ?? false));
    const unused = tracksUsage ? this.#layout.slots.filter(({ parameter }) => !used[parameter]) : [];
    const untouched = unused.map(({ offset, size }) => this.gradient.slice(offset, offset + size));

    const local = keepsLocal && (pending || pass) ? (pending?.gradient ?? this.#newLocal()) : this.gradient;
    if (pending && !keepsLocal) this.gradient.set(pending.gradient);
    else if (!pending && !pass) this.gradient.fill(0);
    const reads = this.#read(pass?.computed ?? null, local, pending !== null);
    const buckets = local === this.gradient ? reads.buckets : this.#copied(reads.buckets, local);
    const samples = (pass?.samples ?? 0) + (pending?.samples ?? 0);
    let loss = 0;
    const setTally = async (): Promise<void> => {
      loss = (await reads.loss) + (pending?.loss ?? 0);
      this.#tally.set([loss, samples, ...(tracksUsage ? used.map(Number) : []), ...flags]);
    };
    // The last bucket is whole once the tally is behind it.
    const last = buckets.length - 1;
    buckets[last] = buckets[last]!.then(setTally);
    buckets[last].catch(() => {});
    const { hook } = this;
    let computedAt: number;
    let transfer: Transfer;
    try {
      // Issued first: it goes round while the GPU computes.
      const divisor = hook || this.#isEncoded ? this.#divisorOf(samples, weighting) : null;
      divisor?.catch(() => {});
      transfer = hook ? await this.#runHook(hook, buckets, divisor!) : await this.#allReduceBuckets(buckets, divisor);
      computedAt = await reads.firstAt;
    } catch (error) {
      const cause = await this.#causeOf(error, buckets);
      const isWhole = keepsLocal && cause === this.#group.failure && samples > 0;
      if (keepsLocal) this.#pending = isWhole ? { gradient: local, used, loss, samples } : null;
      throw cause;
    }
    const { traces, issuedAt, lastReadAt } = transfer;
    const doneAt = clock.now();
    const by = weighting.ranks ?? this.#tally[SAMPLES]!;
    if (hook || this.#isEncoded) this.#checkTotal(weighting);
    else divide(this.gradient, by);
    this.#pending = null;

    if (tracksUsage) {
      unused.forEach(({ parameter, offset }, i) => {
        if (!this.#isUsed(parameter)) this.gradient.set(untouched[i]!, offset);
      });
      this.#usedRanges = rangesOf(this.#layout.slots, ({ parameter }) => this.#isUsed(parameter));
    }
    return {
      loss: by > 0 ? this.#tally[LOSS]! / by : 0,
      samples: this.#tally[SAMPLES]!,
      traces,
      readback: lastReadAt - computedAt,
      communicate: doneAt - issuedAt,
      exposed: doneAt - lastReadAt,
      flags: this.#tally.subarray(this.#tally.length - flags.length),
      computedAt,
    };
  }

  dispose(): void {
    this.#reader.dispose();
  }

  /** Zeros, or with `keepsLocal` anything: what is added to or overwritten first. */
  #newLocal(): Float32Array<ArrayBuffer> {
    if (!this.#options.keepsLocal) return new Float32Array(this.#layout.size);
    return (this.#local ??= new Float32Array(this.#layout.size));
  }

  /** Copies each bucket of `local` into {@link gradient} once it is read. */
  #copied(reads: readonly Promise<void>[], local: Float32Array): Promise<void>[] {
    return reads.map((read, bucket) => {
      const { start, end } = this.#layout.buckets[bucket]!;
      const copied = read.then(() => this.gradient.set(local.subarray(start, end), start));
      // As in #read.
      copied.catch(() => {});
      return copied;
    });
  }

  /**
   * Reads each bucket of `computed` into its stretch of `into`, those that are copied already
   * first.
   */
  #read(computed: Gradients | null, into: Float32Array, add: boolean): Reads {
    const { buckets } = this.#layout;
    const { clock } = this.#options;
    const early = this.#early;
    this.#early = new Map();
    if (!computed) {
      const firstAt = Promise.resolve(clock.now());
      return { buckets: buckets.map(() => Promise.resolve()), firstAt, loss: Promise.resolve(0) };
    }
    // All are queued at once; the GPU does them in order, so the first is here while others are
    // computed or copied.
    const readings = buckets.map((_, bucket) => {
      if (bucket < buckets.length - 1) return early.get(bucket) ?? this.#startBucket(bucket, computed.gradients);
      return this.#startBucket(bucket, computed.gradients, computed.value);
    });
    const read = readings.map((reading, bucket) => {
      const { start, end } = buckets[bucket]!;
      return reading.into(into.subarray(start, end), { add });
    });
    const whole = read.map(async (one) => void (await one));
    const firstAt = whole[0]!.then(() => clock.now());
    const loss = read.at(-1)!.then(([value]) => value!);
    // Awaited one after the other: one that fails meanwhile must not count as unhandled.
    for (const promise of [...whole, firstAt, loss]) promise.catch(() => {});
    return { buckets: whole, firstAt, loss };
  }

  /** @param rest read behind it. */
  #startBucket(bucket: number, gradients: readonly Tensor[], ...rest: Tensor[]): Reading {
    const { slots } = this.#layout.buckets[bucket]!;
    return this.#reader.start(bucket, [...slots.map(({ parameter }) => gradients[parameter]!), ...rest]);
  }

  /**
   * The error to report where a reduction fails. A device's comes before its group's: the gradients
   * are void then. Waits for all reads.
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
   * The divisor of this step's sums, known before any is sent: from the caller, or counted by all
   * ranks.
   */
  async #divisorOf(samples: number, { ranks, totalSamples }: Weighting): Promise<number> {
    const known = ranks ?? totalSamples;
    if (known !== undefined) return known;
    const [counted] = await this.#group.allReduce(Float32Array.of(samples));
    return counted!;
  }

  /**
   * Ends the group where this rank has divided by a wrong total: the others may have divided by the
   * right one.
   */
  #checkTotal({ totalSamples }: Weighting): void {
    const counted = this.#tally[SAMPLES]!;
    if (totalSamples === undefined || Math.abs(counted - totalSamples) <= TOTAL_TOLERANCE * totalSamples) return;
    const { rank, worldSize } = this.#group;
    const error = new MismatchError(
      `All ranks together had ${counted} samples in this step, but totalSamples is ${totalSamples} on rank ${rank}. Pass the sum of ` +
        '`samples` over all ranks, including those of noSync.',
      { rank, worldSize, op: 'backward' },
    );
    this.#group.abort(error);
    throw error;
  }

  /** @param divisor of this rank's part, before it is sent; `null`: it is sent as it is. */
  async #allReduceBuckets(reads: readonly Promise<void>[], divisor: Promise<number> | null): Promise<Transfer> {
    const { clock, checkGradients } = this.#options;
    const group = this.#group;
    let issuedAt = 0;
    let lastReadAt = 0;
    const codec = this.#codec;
    let tallied: PromiseLike<unknown> | null = null;
    const works = [];
    for (const [bucket, read] of reads.entries()) {
      await read;
      checkGradients();
      lastReadAt = clock.now();
      if (bucket === 0) issuedAt = lastReadAt;
      // Known once the last bucket is. A few numbers, which need not wait behind it.
      if (this.#isEncoded && bucket === reads.length - 1) tallied = group.allReduce(this.#tally);
      const values = this.#bucketView(bucket);
      if (divisor) divide(values, await divisor);
      const lost = this.#feedback?.feed(values, this.#layout.buckets[bucket]!.start) ?? null;
      works.push(group.allReduce(values, { bucket, codec, lost }));
    }
    await tallied;
    const traces: (OpTrace | null)[] = [];
    for (const work of works) {
      await work;
      traces.push(work.trace);
    }
    return { traces, issuedAt, lastReadAt };
  }

  /**
   * The tally goes beside the hook; before it, where the hook has to know which parameters were
   * used.
   */
  async #runHook(hook: CommHook, reads: readonly Promise<void>[], divisor: Promise<number>): Promise<Transfer> {
    const { clock, shapes, tracksUsage, checkGradients } = this.#options;
    const group = this.#group;
    await Promise.all(reads);
    checkGradients();
    const lastReadAt = clock.now();
    const tallied = group.allReduce(this.#tally);
    if (tracksUsage) await tallied;
    divide(this.gradient, await divisor);
    const { buckets } = this.#layout;
    const isRetry = this.#isRetry;
    this.#isRetry = true;
    for (const [index, { slots, start, end }] of buckets.entries()) {
      const bucket: GradBucket = {
        ...{ index, isLast: index === buckets.length - 1, isRetry },
        buffer: this.gradient.subarray(start, end),
        parameters: slots.map(({ parameter, offset }) => ({
          index: parameter,
          offset: offset - start,
          shape: shapes[parameter]!,
          isUsed: this.#isUsed(parameter),
        })),
      };
      await hook(bucket, group);
    }
    await tallied;
    return { traces: [], issuedAt: lastReadAt, lastReadAt };
  }

  /**
   * Whether any rank used a parameter, once the tally is added up; true where that is not tracked.
   */
  #isUsed(parameter: number): boolean {
    return !this.#options.tracksUsage || this.#tally[USES + parameter] !== 0;
  }

  get #isEncoded(): boolean {
    return this.#codec !== 'fp32';
  }

  /** What travels together: the last bucket takes the tally with it, unless buckets are encoded. */
  #bucketView(bucket: number): Float32Array<ArrayBuffer> {
    const { buckets } = this.#layout;
    const { start, end } = buckets[bucket]!;
    const takesTally = bucket === buckets.length - 1 && !this.#isEncoded;
    return this.#buffer.subarray(start, takesTally ? this.#buffer.length : end);
  }
}
