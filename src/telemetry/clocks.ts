/**
 * Estimates the offsets between ranks' clocks from collectives that need every rank. No rank ends
 * such a collective before all have begun it: rank s ends after rank r begins, and r ends after s
 * begins. So the offset of s's clock to r's is between `begin_s - end_r` and `end_s - begin_r`. NTP
 * (RFC 5905, section 8) computes such bounds from exchanges between two clocks, and also uses the
 * tightest of the latest bounds. Nothing has side effects, except that a {@link ClockComparison}
 * remembers its latest bounds.
 */

/** Begin and end of a collective on one rank, milliseconds of its own clock. */
export interface CollectiveSpan {
  begin: number;
  end: number;
}

interface ClockOffset {
  /** How far the clock is ahead of this rank's clock. */
  offsetMs: number;
  /** Maximum error of the offset, in either direction. */
  errorMs: number;
}

/**
 * Number of latest comparisons that are used. Older comparisons are dropped, because the clocks of
 * two machines drift apart by about 10 us per second.
 */
const REMEMBERED = 8;

export class ClockComparison {
  #bounds: { low: number; high: number }[][] = [];

  /** Adds the spans of one collective. @param spans by rank. */
  add(spans: readonly CollectiveSpan[], self: number): void {
    const own = spans[self]!;
    const bounds = spans.map(({ begin, end }) => ({ low: begin - own.end, high: end - own.begin }));
    this.#bounds = [...this.#bounds, bounds].slice(-REMEMBERED);
  }

  /** Returns the clock offsets by rank; empty before the first comparison. */
  offsets(self: number): ClockOffset[] {
    const newest = this.#bounds.at(-1) ?? [];
    return newest.map((last, rank) => {
      if (rank === self) return { offsetMs: 0, errorMs: 0 };
      const low = Math.max(...this.#bounds.map((one) => one[rank]!.low));
      const high = Math.min(...this.#bounds.map((one) => one[rank]!.high));
      // If older bounds contradict the latest ones, a clock has drifted or jumped, so only the
      // latest bounds are used.
      return low <= high ? middleOf({ low, high }) : middleOf(last);
    });
  }
}

function middleOf({ low, high }: { low: number; high: number }): ClockOffset {
  return { offsetMs: (low + high) / 2, errorMs: (high - low) / 2 };
}
