/** The tally: a few numbers that ranks sum in addition to the gradient. */

export interface TallyValues {
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

export class Tally {
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
   * Whether any rank used a parameter; true if usage is not tracked. Call it after the tally is
   * summed over the ranks.
   */
  isUsed(parameter: number): boolean {
    return !this.#tracksUsage || this.values[USES + parameter] !== 0;
  }

  /** Returns the flags, which are the last `count` numbers. */
  flags(count: number): Float32Array<ArrayBuffer> {
    return this.values.subarray(this.values.length - count);
  }
}
