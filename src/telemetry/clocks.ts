/**
 * Ranks' clocks laid over each other, from collectives that need everyone: as nobody ends one
 * before all have begun it, rank s ends after rank r begins, and r ends after s begins. So what s's
 * clock is ahead of r's lies between `begin_s - end_r` and `end_s - begin_r`. NTP (RFC 5905,
 * section 8) reads one exchange of two clocks the same way, and like it trusts the tightest of the
 * last few. Pure but for what {@link ClockComparison} remembers.
 */

/** When a rank began and ended a collective, milliseconds of its own clock. */
export interface Span {
  begin: number;
  end: number;
}

interface ClockOffset {
  /** How far the clock is ahead of this rank's. */
  offsetMs: number;
  /** By so much the offset may be wrong, either way. */
  errorMs: number;
}

/** Comparisons that count, the newest: clocks of two machines part by some 10 us a second. */
const REMEMBERED = 8;

export class ClockComparison {
  #bounds: { low: number; high: number }[][] = [];

  /** One collective, by rank. */
  add(spans: readonly Span[], self: number): void {
    const own = spans[self]!;
    const bounds = spans.map(({ begin, end }) => ({ low: begin - own.end, high: end - own.begin }));
    this.#bounds = [...this.#bounds, bounds].slice(-REMEMBERED);
  }

  /** By rank; empty before the first comparison. */
  offsets(self: number): ClockOffset[] {
    const newest = this.#bounds.at(-1) ?? [];
    return newest.map((last, rank) => {
      if (rank === self) return { offsetMs: 0, errorMs: 0 };
      const low = Math.max(...this.#bounds.map((one) => one[rank]!.low));
      const high = Math.min(...this.#bounds.map((one) => one[rank]!.high));
      // Where old bounds contradict new ones, a clock has drifted or jumped.
      return low <= high ? middleOf({ low, high }) : middleOf(last);
    });
  }
}

function middleOf({ low, high }: { low: number; high: number }): ClockOffset {
  return { offsetMs: (low + high) / 2, errorMs: (high - low) / 2 };
}
