/**
 * The losses of a run's steps. Each rank knows only its own samples' losses until all ranks collect
 * them.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { PeergradError } from '../../util/errors.ts';

export class StepLosses {
  readonly #isRangeTest: boolean;
  /** Steps whose losses only their ranks know yet: summed loss and samples of this one's. */
  #own: { sum: number; samples: number }[] = [];
  /** Losses that were found finite. */
  #checked = 0;

  /** @param isRangeTest it ends where a loss is not finite; only its first loss must be. */
  constructor(isRangeTest: boolean) {
    this.#isRangeTest = isRangeTest;
  }

  /** Adds the mean loss of this rank's samples in a step. */
  add(loss: number, samples: number): void {
    this.#own.push({ sum: loss * samples, samples });
  }

  /**
   * Puts those of all ranks' samples since the last time behind `losses`. Every rank must call it,
   * after the same step.
   *
   * @throws (rejects) PeergradError where one is NaN or infinite: on all ranks, as all know the
   *   same losses here.
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

/** At the lowest rate of all, the rate is not the cause. */
function checkFirstLoss(loss: number): void {
  if (Number.isFinite(loss)) return;
  throw new PeergradError(
    'The loss is NaN or infinite at the first step, before any learning rate was tried. Check the data for NaN or infinity.',
    { step: 0 },
  );
}

/** A diverged run would go on and learn nothing. */
function checkLoss(loss: number, step: number): void {
  if (Number.isFinite(loss)) return;
  throw new PeergradError(
    `The loss is NaN or infinite at step ${step + 1}. Start again with a lower learning rate, and check the data for NaN or infinity.`,
    { step },
  );
}
