/** Builds parts of sentences. */

/** A list in words: `1`, `1 and 3`, `1, 2 and 3`. */
export function listInWords(items: readonly (string | number)[]): string {
  if (items.length < 2) return items.join('');
  return `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`;
}

export function capitalizeFirst(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Maximum number of ranks that {@link nameRanks} names. */
const MAX_NAMED = 8;

/**
 * Returns a phrase such as "rank 2", "ranks 1, 2 and 4" or, for more than eight ranks, "ranks 0, 1,
 * 2, 3, 4, 5, 6, 7 and 3 more".
 */
export function nameRanks(ranks: readonly number[]): string {
  const others = ranks.length - MAX_NAMED;
  const named = listInWords(others > 0 ? [...ranks.slice(0, MAX_NAMED), `${others} more`] : ranks);
  return `${ranks.length === 1 ? 'rank' : 'ranks'} ${named}`;
}
