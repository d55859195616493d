/** The losses of a run's steps, where each rank knows its own samples' only until all agree; and whether they are numbers. */
import type { ProcessGroup } from '../collectives/processGroup.ts';
import { PeergradError } from '../util/errors.ts';

export class StepLosses {
  readonly #isRangeTest: boolean;
  /** Steps whose losses only their ranks know yet: summed loss and samples of this one's. */
  #own: { sum: number; samples: number }[] = [];
  /** Losses known to be numbers. */
  #checked = 0;

  /** @param isRangeTest losses that are no numbers are what it looks for, but for the first. */
  constructor(isRangeTest: boolean) {
    this.#isRangeTest = isRangeTest;
  }

  /** Of a step, the mean loss of this rank's samples. */
  add(loss: number, samples: number): void {
    this.#own.push({ sum: loss * samples, samples });
  }

  /**
   * Puts those of all ranks' samples since the last time behind `losses`. Every rank must call it, after the same step.
   *
   * @throws (rejects) PeergradError where one is no number: on all ranks, as all know the same losses here.
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

/** With the lowest of all rates it is not the rate. */
function checkFirstLoss(loss: number): void {
  if (Number.isFinite(loss)) return;
  throw new PeergradError(
    'The loss is no number from the first step on, before any rate was tried: look for numbers in the data that are infinite, or none.',
    { step: 0 },
  );
}

/** A diverged run goes on for ever and learns nothing. */
function checkLoss(loss: number, step: number): void {
  if (Number.isFinite(loss)) return;
  throw new PeergradError(
    `The loss is no longer a number at step ${step + 1}: start again with a lower learning rate.`,
    { step },
  );
}
