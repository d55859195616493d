/** A bigram model, whose loss is the baseline for a language model. */

/**
 * Returns the mean loss of a bigram model in nats. The model counts in `train` how often each
 * character follows another. Each count starts at 1, so no pair has probability 0. The mean is over
 * all characters of `test` except the first.
 *
 * @param characters number of different characters in the two texts together.
 */
export async function bigramLoss(train: AsyncIterable<string>, test: string, characters: number): Promise<number> {
  const pairs = new Map<string, number>();
  const firsts = new Map<string, number>();
  let last = '';
  for await (const piece of train) {
    for (const [a, b] of pairsOf(last + piece)) {
      pairs.set(a + b, (pairs.get(a + b) ?? 0) + 1);
      firsts.set(a, (firsts.get(a) ?? 0) + 1);
    }
    last = Array.from(piece.slice(-2)).at(-1) ?? last;
  }
  let sum = 0;
  let count = 0;
  for (const [a, b] of pairsOf(test)) {
    sum -= Math.log(((pairs.get(a + b) ?? 0) + 1) / ((firsts.get(a) ?? 0) + characters));
    count += 1;
  }
  return count === 0 ? 0 : sum / count;
}

function* pairsOf(text: string): Generator<[string, string]> {
  let before: string | null = null;
  for (const character of text) {
    if (before !== null) yield [before, character];
    before = character;
  }
}
