/** What a language model has to beat: a table of which character follows which. */

/**
 * Mean loss over the characters of `test` but for the first, in nats, of a model that knows nothing
 * but how often each character of `train` followed the one before it; one is added to each count,
 * so that nothing is impossible.
 *
 * @param characters how many different ones there are, in both.
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
