/**
 * Measures how long this rank's passes take, by their size: the whole batch size, or a quarter of
 * it. A part of a pass's cost does not depend on its samples. So a quarter of the samples takes
 * more than a quarter of the time. On some devices a quarter takes as long as a whole batch.
 */
import { median } from '../../util/statistics.ts';

/** A pass has a whole batch or a quarter of it, so that tensors have few shapes. */
export const QUARTERS_PER_BATCH = 4;
/** A time is the median over this number of the latest steps, so that one slow step is ignored. */
const SMOOTHED_STEPS = 5;
/** The two sizes are compared by this many steps before and after a change of size. */
const COMPARED_STEPS = 3;

/** Milliseconds of a pass of the whole batch size, and of a pass of a quarter of it. */
export interface PassTimes {
  whole: number;
  quarter: number;
}

export interface MeasuredPassTime {
  isWhole: boolean;
  ms: number;
}

type Size = keyof PassTimes;

/**
 * Measures the passes of both sizes. If the latest steps had passes of one size only, the time of
 * the other size is computed from the ratio of both times. The ratio was measured when the size
 * changed.
 */
export class PassTimer {
  /** For each size: the mean milliseconds of a pass in each of the latest steps. */
  readonly #latest: Record<Size, number[]> = { whole: [], quarter: [] };
  /** The sizes of the latest step's passes. */
  #sizes: Size[] = [];
  /** Whether the size of the passes has changed in one of the latest steps. */
  #isComparing = false;
  /**
   * Time of a whole pass divided by the time of a quarter. The initial value assumes no fixed cost.
   */
  #ratio = QUARTERS_PER_BATCH;

  /** Adds the passes of a step. If the clock did not advance, nothing was measured. */
  add(passes: readonly MeasuredPassTime[]): void {
    const before = this.#sizes;
    const sizes: Size[] = [];
    for (const size of ['whole', 'quarter'] as const) {
      const own = passes.filter(({ isWhole }) => isWhole === (size === 'whole'));
      const ms = own.reduce((sum, pass) => sum + pass.ms, 0) / own.length;
      if (own.length === 0 || ms <= 0) continue;
      sizes.push(size);
      const earlier = before.includes(size) ? this.#latest[size] : [];
      this.#latest[size] = [...earlier, ms].slice(-SMOOTHED_STEPS);
    }
    if (sizes.length === 0) return;
    this.#sizes = sizes;
    this.#compare(before);
  }

  /** The present times of both sizes; `null` if nothing has been measured. */
  get times(): PassTimes | null {
    const [size] = this.#sizes;
    if (size === undefined) return null;
    const ms = median(this.#latest[size]);
    const whole = size === 'whole' ? ms : ms * this.#ratio;
    return { whole, quarter: whole / this.#ratio };
  }

  #compare(before: readonly Size[]): void {
    const [size] = this.#sizes as [Size];
    const { whole, quarter } = this.#latest;
    if (this.#sizes.length === 2) {
      this.#isComparing = false;
      this.#ratio = limitPassTimeRatio(median(whole) / median(quarter));
      return;
    }
    if (!before.includes(size)) this.#isComparing = before.length === 1;
    // Only the first `COMPARED_STEPS` steps after the change count. In later steps, the speed may
    // have changed since the other size was measured.
    if (this.#latest[size].length > COMPARED_STEPS) this.#isComparing = false;
    if (!this.#isComparing) return;
    this.#ratio = limitPassTimeRatio(median(whole.slice(-COMPARED_STEPS)) / median(quarter.slice(-COMPARED_STEPS)));
  }
}

/**
 * Limits the time of a whole pass divided by that of a quarter. It is at least 1 (a quarter takes
 * as long as a whole) and at most {@link QUARTERS_PER_BATCH} (a pass has no fixed cost).
 */
export function limitPassTimeRatio(ratio: number): number {
  return Number.isNaN(ratio) ? QUARTERS_PER_BATCH : Math.min(QUARTERS_PER_BATCH, Math.max(1, ratio));
}
