/**
 * The losses of a run's steps. Each rank knows only its own samples' losses until all ranks collect
 * them.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { PeergradError } from '../../util/errors.ts';

export class StepLosses {
  readonly #isRangeTest: boolean;
  /**
   * Steps whose losses are not collected yet: the summed loss and number of this rank's samples.
   */
  #own: { sum: number; samples: number }[] = [];
  /** Number of losses that were checked. */
  #checked = 0;

  /**
   * @param isRangeTest only the first loss must be finite: a range test ends with the first that is
   *   not.
   */
  constructor(isRangeTest: boolean) {
    this.#isRangeTest = isRangeTest;
  }

  /** Adds the mean loss of this rank's samples in a step. */
  add(loss: number, samples: number): void {
    this.#own.push({ sum: loss * samples, samples });
  }

  /**
   * Appends the steps' losses over all ranks' samples to `losses`. Every rank must call it, after
   * the same step.
   *
   * @throws (rejects) PeergradError if one is NaN or infinite. All ranks throw, as all have the
   *   same losses.
   */
  async collect(group: ProcessGroup, losses: number[]): Promise<void> {
    const own = this.#own.splice(0);
    if (own.length > 0) {
      const sums = Float64Array.from(own.flatMap(({ sum, samples }) => [sum, samples]));
      await group.allReduce(sums);
      for (let i = 0; i < sums.length; i += 2) losses.push(sums[i + 1]! > 0 ? sums[i]! / sums[i + 1]! : 0);
    }
    for (; this.#checked < losses.length; this.#checked++) {
      if (this.#isRangeTest) checkFirstLoss(losses[0]!);
      else checkLoss(losses[this.#checked]!, this.#checked);
    }
  }
}

/** The first step of a range test has the lowest rate, which cannot be the cause. */
function checkFirstLoss(loss: number): void {
  if (Number.isFinite(loss)) return;
  throw new PeergradError(
    'The loss is NaN or infinite at the first step, before any learning rate was tried. Check the data for NaN or infinity.',
    { step: 0 },
  );
}

/** A run that has diverged would continue without learning. */
function checkLoss(loss: number, step: number): void {
  if (Number.isFinite(loss)) return;
  throw new PeergradError(
    `The loss is NaN or infinite at step ${step + 1}. Start again with a lower learning rate, and check the data for NaN or infinity.`,
    { step },
  );
}
