import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { dissenters, mostFrequentVote } from '../../src/util/mostFrequentVote.ts';

describe('a majority', () => {
  test('is the most frequent vote, or the first of equally frequent votes', () => {
    expect(mostFrequentVote(['b', 'a', 'a'])).toBe('a');
    expect(mostFrequentVote(['a', 'b'])).toBe('a');
    expect(mostFrequentVote(['c', 'b', 'a', 'a', 'b'])).toBe('b');
    expect(mostFrequentVote([])).toBeUndefined();
  });

  test('is the vote of all indices except those that dissenters returns', () => {
    expect(dissenters(['a', 'a', 'b', 'a'])).toEqual([2]);
    expect(dissenters(['b', 'a', 'a', 'a'])).toEqual([0]);
    expect(dissenters(['a', 'b'])).toEqual([1]);
    expect(dissenters(['a', 'a'])).toEqual([]);
    expect(dissenters([])).toEqual([]);
  });

  test('is never smaller than another group of equal votes', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1 }), (votes) => {
        const size = (vote: string | undefined) => votes.filter((one) => one === vote).length;
        const common = mostFrequentVote(votes);
        for (const vote of votes) expect(size(common)).toBeGreaterThanOrEqual(size(vote));
        expect(dissenters(votes)).toHaveLength(votes.length - size(common));
      }),
    );
  });
});
