/**
 * Assigns numbers to a group's collectives in the order of the calls, so that the numbers are the
 * same on every rank.
 */
export class SequenceNumbers {
  #next = 0;
  /** Numbers of ops that will be issued as soon as their sizes are known. */
  readonly #reserved = new Set<number>();
  /** The reserved number of the op that is being issued. */
  #current: number | null = null;

  /**
   * Reserves the next number for an op whose size is not known yet, so that numbers keep the order
   * of the calls.
   *
   * @returns a function that issues the op under that number.
   */
  reserve(): <T>(issue: () => T) => T {
    const seq = this.#next++;
    this.#reserved.add(seq);
    return (issue) => {
      this.#current = seq;
      try {
        return issue();
      } finally {
        this.#current = null;
      }
    };
  }

  /** Assigns a number to the op that is being issued: its reserved number, or the next one. */
  take(): { seq: number; isReserved: boolean } {
    const isReserved = this.#current !== null;
    const seq = this.#current ?? this.#next++;
    this.#reserved.delete(seq);
    this.#current = null;
    return { seq, isReserved };
  }

  /** Whether an op was issued under the number. */
  isIssued(seq: number): boolean {
    return seq < this.#next && !this.#reserved.has(seq);
  }
}
