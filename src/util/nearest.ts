/** Suggestions for misspelt names. */

/**
 * Returns the known name that is most similar to `name`; `null` if none is similar. Up to two
 * letters may differ, or a third of the letters if that is more.
 */
export function mostSimilarName(name: string, known: readonly string[]): string | null {
  const most = Math.max(2, Math.floor(name.length / 3));
  const distances = known.map((one) => distance(name.toLowerCase(), one.toLowerCase()));
  const least = Math.min(...distances);
  return least <= most && least < name.length ? known[distances.indexOf(least)]! : null;
}

/** Returns the Levenshtein distance: the number of letters to insert, remove or replace. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      next.push(Math.min(next[j]! + 1, row[j + 1]! + 1, row[j]! + (a[i] === b[j] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}
