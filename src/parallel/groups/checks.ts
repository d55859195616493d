/** Checks of numeric arguments. */
import { UsageError } from '../../util/errors.ts';

/** @throws UsageError if `rank` is not one of 0 .. worldSize-1. */
export function checkRank(rank: number, worldSize: number): void {
  checkWholeAtLeast('The number of ranks', worldSize, 1);
  if (!Number.isSafeInteger(rank) || rank < 0 || rank >= worldSize) {
    throw new UsageError(`Rank ${rank} is not one of the ${worldSize} ranks 0 .. ${worldSize - 1}.`, {
      rank,
      worldSize,
    });
  }
}

/**
 * Returns `value`.
 *
 * @throws UsageError if `value` is below `min` or not a whole number.
 */
export function checkWholeAtLeast(name: string, value: number, min: number): number {
  if (Number.isSafeInteger(value) && value >= min) return value;
  throw new UsageError(`${name} is ${value}; pass a whole number of at least ${min}.`);
}
