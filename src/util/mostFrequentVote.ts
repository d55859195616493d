/** Majority votes: finds the ranks that are wrong, on the assumption that most ranks are right. */

/**
 * Returns the most frequent of `votes`. If several are equally frequent, it returns the first of
 * them. It returns `undefined` if there are no votes.
 */
export function mostFrequentVote(votes: readonly string[]): string | undefined {
  const counts = new Map<string, number>();
  for (const vote of votes) counts.set(vote, (counts.get(vote) ?? 0) + 1);
  // A Map keeps the insertion order, so a later value wins only with more votes.
  let [common, most] = [votes[0], 0];
  for (const [vote, count] of counts) if (count > most) [common, most] = [vote, count];
  return common;
}

/**
 * Returns the indices of the votes that differ from the {@link mostFrequentVote}; an empty list if
 * all agree.
 */
export function dissenters(votes: readonly string[]): number[] {
  const common = mostFrequentVote(votes);
  return votes.flatMap((vote, i) => (vote === common ? [] : [i]));
}
