/** Telling from what several say which of them are wrong: most of them are right. */

/**
 * The most frequent of `votes`; of equally frequent ones the first, `undefined` where nobody voted.
 */
export function majority(votes: readonly string[]): string | undefined {
  const counts = new Map<string, number>();
  for (const vote of votes) counts.set(vote, (counts.get(vote) ?? 0) + 1);
  // A map keeps the order of its first votes, so that only a vote more wins over an earlier one.
  let [common, most] = [votes[0], 0];
  for (const [vote, count] of counts) if (count > most) [common, most] = [vote, count];
  return common;
}

/** Indexes of the votes that differ from the {@link majority}; empty when all agree. */
export function dissenters(votes: readonly string[]): number[] {
  const common = majority(votes);
  return votes.flatMap((vote, i) => (vote === common ? [] : [i]));
}
