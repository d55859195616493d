/** Chooses the ranks whose rows are shown. */

/** Maximum number of rows; more would be hard to read. */
const MOST_ROWS = 16;

/** Returns all ranks if there are few, otherwise this rank and its neighbours. */
export function ranksShownInRows(n: number, you: number): number[] {
  if (n <= MOST_ROWS) return Array.from({ length: n }, (_, rank) => rank);
  return [you + n - 1, you, you + 1].map((rank) => rank % n);
}
