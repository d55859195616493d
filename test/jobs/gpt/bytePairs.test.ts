import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BytePairTokenizer } from '../../../src/jobs/gpt/bytePairs.ts';
import { codePointsOf } from '../../../src/jobs/gpt/text.ts';
import { WordCounts } from '../../../src/jobs/gpt/wordCounts.ts';
import { systemClock, type Clock } from '../../../src/util/clock.ts';
import { createRng } from '../../../src/util/rng.ts';

function wordsOf(text: string): WordCounts {
  const words = new WordCounts();
  words.add(codePointsOf(text));
  words.end();
  return words;
}

/** Replaces each pair of tokens (`left`, `right`) with `token`. */
function merged(tokens: readonly number[], left: number, right: number, token: number): number[] {
  const at = tokens.findIndex((one, i) => one === left && tokens[i + 1] === right);
  if (at === -1) return [...tokens];
  return [...tokens.slice(0, at), token, ...merged(tokens.slice(at + 2), left, right, token)];
}

/** Learns pairs, and counts all pairs of all words again for each of them. */
function learnSlowly(words: WordCounts, vocabulary: number): [number, number][] {
  const all = words.counts.map((count, i) => ({ count, tokens: Array.from(words.bytesOf(i)) }));
  const pairs: [number, number][] = [];
  while (256 + pairs.length < vocabulary) {
    const counts = new Map<string, { pair: [number, number]; count: number }>();
    for (const { count, tokens } of all) {
      for (let i = 0; i + 1 < tokens.length; i++) {
        const pair: [number, number] = [tokens[i]!, tokens[i + 1]!];
        const one = counts.get(pair.join()) ?? { pair, count: 0 };
        one.count += count;
        counts.set(pair.join(), one);
      }
    }
    const [best] = [...counts.values()].sort(
      (a, b) => b.count - a.count || a.pair[0] - b.pair[0] || a.pair[1] - b.pair[1],
    );
    if (best === undefined || best.count === 1) break;
    for (const word of all) word.tokens = merged(word.tokens, ...best.pair, 256 + pairs.length);
    pairs.push(best.pair);
  }
  return pairs;
}

/** Encodes a word: replaces each pair in the order in which they were learned. */
function encodeSlowly(word: Uint8Array, pairs: readonly (readonly [number, number])[]): number[] {
  return pairs.reduce((tokens, [left, right], i) => merged(tokens, left, right, 256 + i), Array.from(word));
}

describe('byte pairs', () => {
  test('are those that follow if all pairs are counted again after each merge', async () => {
    const text = fc.array(fc.constantFrom('a', 'a', 'a', 'b', ' ', 'c', '漢', '字'), { maxLength: 200 });
    await fc.assert(
      fc.asyncProperty(text, fc.integer({ min: 257, max: 300 }), async (characters, vocabulary) => {
        const words = wordsOf(characters.join(''));
        const learned = await BytePairTokenizer.of(words, vocabulary);
        const pairs = learnSlowly(words, vocabulary);
        expect(learned.vocabulary).toEqual({ tokens: 'byte-pairs', pairs });
        const expected = [...words.numbers()].flatMap((numbers) =>
          Array.from(numbers, (number) => encodeSlowly(words.bytesOf(number), pairs)),
        );
        expect([...learned.encode(characters.join(''))]).toEqual(expected.flat());
      }),
      { numRuns: 300 },
    );
  });

  test('are learned and applied in stretches, between which timers of the thread run', async () => {
    const rng = createRng(1);
    const text = Array.from({ length: 2000 }, () => String.fromCodePoint(0x4e00 + rng.below(2000))).join('');
    const words = wordsOf(text);
    let [now, stretches] = [0, 0];
    const clock: Clock = {
      now: () => (now += 60),
      after: (ms, callback) => {
        stretches++;
        return systemClock.after(ms, callback);
      },
    };
    const pairs = await BytePairTokenizer.of(words, 400, clock);
    const learning = stretches;
    await pairs.encodeWords(words, clock);
    expect([learning > 0, stretches > learning]).toEqual([true, true]);
  });
});

test('a word has at most 256 characters', () => {
  const words = wordsOf(`${'漢'.repeat(256)}${'字'.repeat(300)} ${'a'.repeat(255)} b`);
  const [numbers] = words.numbers();
  const lengths = Array.from(numbers!, (number) => new TextDecoder().decode(words.bytesOf(number)).length);
  expect(lengths).toEqual([256, 256, 44, 256, 2]);
});
