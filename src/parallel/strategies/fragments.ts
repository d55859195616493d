/** Fragments of the parameters that ranks exchange in turn, as in Streaming DiLoCo. */
import type { FragmentExchangeFacts } from '../../spec/strategies.ts';
import { UsageError } from '../../util/errors.ts';
import type { ElementRange } from '../../util/range.ts';

export const UNFRAGMENTED_STREAMING: FragmentExchangeFacts = { fragments: 1, delay: 0, mixing: 0 };

/** Parameters that are exchanged together. */
export interface ParameterFragment extends ElementRange {
  /** The fragment is exchanged after the steps s for which s mod `syncEvery` is this number. */
  readonly remainder: number;
  /** Number of this rank's samples since the last exchange began. */
  samples: number;
}

/** @throws UsageError if the exchanges of two fragments would overlap. */
export function createParameterFragments(
  size: number,
  syncEvery: number,
  { fragments, delay }: FragmentExchangeFacts,
): ParameterFragment[] {
  if ((delay + 1) * fragments > syncEvery) {
    throw new UsageError(
      `${fragments} fragments with a delay of ${delay} steps need at least ${(delay + 1) * fragments} steps between two exchanges, ` +
        `but syncEvery is ${syncEvery}. Raise syncEvery.`,
    );
  }
  return Array.from({ length: fragments }, (_, i) => ({
    start: Math.floor((size * i) / fragments),
    end: Math.floor((size * (i + 1)) / fragments),
    remainder: Math.floor((syncEvery * (i + 1)) / fragments) % syncEvery,
    samples: 0,
  }));
}
