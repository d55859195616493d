/**
 * Collects the losses of a run's steps from all ranks. Without them, a rank would know only the
 * losses of its own samples.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { PeergradError } from '../../util/errors.ts';

export class StepLosses {
  readonly #isRangeTest: boolean;
  /**
   * Steps whose losses are not collected yet. For each step: the sum of the losses of this rank's
   * samples, and the number of these samples.
   */
  #own: { sum: number; samples: number }[] = [];
  /** The number of losses that are already checked. */
  #checked = 0;

  /**
   * @param isRangeTest whether this is a range test. If so, only the first loss must be finite,
   *   because a range test ends when the loss is no longer finite.
   */
  constructor(isRangeTest: boolean) {
    this.#isRangeTest = isRangeTest;
  }

  /** Adds the mean loss of this rank's samples in a step. */
  add(loss: number, samples: number): void {
    this.#own.push({ sum: loss * samples, samples });
  }

  /**
   * Computes each step's mean loss over the samples of all ranks, and appends it to `losses`. Every
   * rank must call it, after the same step.
   *
   * @throws (rejects) PeergradError on all ranks if a loss is NaN or infinite. In a range test,
   *   only the first loss is checked.
   */
  async collect(group: ProcessGroup, losses: number[]): Promise<void> {
    const own = this.#own.splice(0);
    if (own.length > 0) {
      const sums = Float64Array.from(own.flatMap(({ sum, samples }) => [sum, samples]));
      await group.allReduce(sums);
      for (let i = 0; i < sums.length; i += 2) losses.push(sums[i + 1]! > 0 ? sums[i]! / sums[i + 1]! : 0);
    }
    const checked = this.#checked;
    this.#checked = losses.length;
    const invalid = losses.findIndex((loss, step) => step >= checked && !Number.isFinite(loss));
    if (invalid < 0 || (this.#isRangeTest && invalid > 0)) return;
    // All ranks know the same losses. They wait for each other, because the first rank that throws
    // ends the group, and the others would not learn the reason.
    await group.barrier();
    throw this.#isRangeTest ? invalidFirstLoss() : invalidLoss(invalid);
  }
}

/**
 * Returns the error for a range test whose first loss is invalid. The first step has the lowest
 * learning rate, so the rate cannot be the cause.
 */
function invalidFirstLoss(): PeergradError {
  return new PeergradError(
    'The loss is NaN or infinite at the first step, before any learning rate was tried. Check the data for NaN or infinity.',
    { step: 0 },
  );
}

/** Returns the error that stops a run that has diverged, because it would not learn any more. */
function invalidLoss(step: number): PeergradError {
  return new PeergradError(
    `The loss is NaN or infinite at step ${step + 1}. Start again with a lower learning rate, and check the data for NaN or infinity.`,
    { step },
  );
}
