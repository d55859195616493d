/** Majority votes: finds the values that are wrong if most are right. */

/** The most frequent of `votes`; of equally frequent ones the first; `undefined` without votes. */
export function majority(votes: readonly string[]): string | undefined {
  const counts = new Map<string, number>();
  for (const vote of votes) counts.set(vote, (counts.get(vote) ?? 0) + 1);
  // A map keeps insertion order, so a later vote only wins with more votes.
  let [common, most] = [votes[0], 0];
  for (const [vote, count] of counts) if (count > most) [common, most] = [vote, count];
  return common;
}

/** Indexes of the votes that differ from the {@link majority}; empty when all agree. */
export function dissenters(votes: readonly string[]): number[] {
  const common = majority(votes);
  return votes.flatMap((vote, i) => (vote === common ? [] : [i]));
}
