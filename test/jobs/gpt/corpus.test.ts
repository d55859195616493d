/** Compares corpora with those that follow from the whole text as a string. */
import { describe, expect, test } from 'vitest';
import { createCorpus, type Corpus } from '../../../src/jobs/gpt/corpus.ts';
import { textInMemory, textOfFiles, type TrainingText } from '../../../src/jobs/gpt/text.ts';
import { WordCounts } from '../../../src/jobs/gpt/wordCounts.ts';
import type { LoadProgress } from '../../../src/protocol/events.ts';
import type { Vocabulary } from '../../../src/spec/vocabulary.ts';
import { createRng } from '../../../src/util/rng.ts';

const model = (tokens: 'characters' | 'byte-pairs') => ({ tokens, vocabulary: 300, context: 4 });

/** Returns a text of these characters in an order that follows from `seed`. */
function written(characters: string, length: number, seed = 1): string {
  const all = Array.from(characters);
  const rng = createRng(seed);
  return Array.from({ length }, () => all[Math.min(rng.below(all.length), rng.below(all.length))]).join('');
}

/** Divides a text into its training part and its held-out part. */
function divided(text: string): { train: string; heldOut: string } {
  const length = Math.min(16_384, Math.floor(text.length * 0.1));
  const heldOut = text.slice(text.length - length).replace(/^[\uDC00-\uDFFF]/, '');
  return { train: text.slice(0, text.length - heldOut.length), heldOut };
}

function bigramLoss(train: string, heldOut: string, characters: number): number {
  const [pairs, firsts] = [new Map<string, number>(), new Map<string, number>()];
  const letters = Array.from(train);
  for (let i = 1; i < letters.length; i++) {
    const [a, b] = [letters[i - 1]!, letters[i]!];
    pairs.set(a + b, (pairs.get(a + b) ?? 0) + 1);
    firsts.set(a, (firsts.get(a) ?? 0) + 1);
  }
  const held = Array.from(heldOut);
  let sum = 0;
  for (let i = 1; i < held.length; i++) {
    const [a, b] = [held[i - 1]!, held[i]!];
    sum -= Math.log(((pairs.get(a + b) ?? 0) + 1) / ((firsts.get(a) ?? 0) + characters));
  }
  return sum / (held.length - 1);
}

function expectCharacters(corpus: Corpus, text: string, vocabulary?: string): void {
  const { train, heldOut } = divided(text);
  const different = [...new Set(text)].sort((a, b) => a.codePointAt(0)! - b.codePointAt(0)!);
  const known = vocabulary === undefined ? different : Array.from(vocabulary);
  const tokenOf = new Map(known.map((character, token) => [character, token]));
  const tokensOf = (part: string): number[] => Array.from(part, (character) => tokenOf.get(character)!);
  expect(corpus.tokenizer.vocabulary).toEqual({ tokens: 'characters', characters: known.join('') });
  expect(Buffer.from(Uint16Array.from(corpus.train.tokens).buffer)).toEqual(
    Buffer.from(Uint16Array.from(tokensOf(train)).buffer),
  );
  expect([...corpus.test.tokens]).toEqual(tokensOf(heldOut));
  expect(corpus.characters).toBe(Array.from(text).length);
  expect([corpus.train.tokensPerCharacter, corpus.test.tokensPerCharacter]).toEqual([1, 1]);
  expect(corpus.train.tokens.BYTES_PER_ELEMENT).toBe(known.length <= 256 ? 1 : 2);
  // The same number, not only nearly.
  expect(corpus.bigramLoss).toBe(bigramLoss(train, heldOut, different.length));
}

const textFrom = (
  parts: readonly (string | Uint8Array<ArrayBuffer>)[],
  options: Parameters<typeof textOfFiles>[1],
): TrainingText =>
  textOfFiles(
    parts.map((part, i) => new File([part], `${i}.txt`)),
    options,
  );

const chinese = Array.from({ length: 3000 }, (_, i) => String.fromCodePoint(0x4e00 + i)).join('');

describe('a corpus of characters', () => {
  test.each([
    ['English', written('etaoin shrdlu\n', 5000)],
    ['characters of one to four bytes', written('ab é漢🦊\n—🐻', 2000)],
    ['an odd number of held-out code units in surrogate pairs', '🦊🐻🦁🐯🐷'.repeat(31)],
    ['as many held-out characters as possible', written('abc dé🦊', 180_000)],
    ['300 characters, the last of which are late', written('ab', 900) + written(chinese.slice(0, 300), 2000)],
    ['a character that only the held-out part has', `${written('ab', 500)}z🦊`],
    ['more characters than have numbers in the array of pairs', written(chinese, 60_000)],
  ])('has the tokens and the bigram loss of the whole text: %s', async (_, text) => {
    for (const pieceBytes of [5, 4096, 2 ** 20]) {
      if (pieceBytes === 5 && text.length > 2500) continue;
      expectCharacters(await createCorpus(textFrom([text], { pieceBytes }), model('characters')), text);
    }
    expectCharacters(await createCorpus(textInMemory(text), model('characters')), text);
  });

  const base = written('the cät\r\nsat 漢', 900);
  test.each([
    ['several files, joined by line breaks', [base, '', 'second\r\n', base], {}, `${base}\n\nsecond\r\n\n${base}`],
    ['files with byte order marks', [`\uFEFF${base}`, `\uFEFF\uFEFF${base}`], {}, `${base}\n\uFEFF${base}`],
    ['UTF-16', [Uint8Array.from(Buffer.from(`\uFEFF${base}🦊`, 'utf16le'))], {}, `${base}🦊`],
    [
      'GBK',
      [Uint8Array.from([...Buffer.from('abc '.repeat(50)), 0xd1, 0xd5, 0xc9, 0xab])],
      { encoding: 'gb18030' as const },
      `${'abc '.repeat(50)}颜色`,
    ],
  ])('may be read from %s', async (_, parts, options, text) => {
    for (const pieceBytes of [7, 2 ** 20]) {
      const corpus = await createCorpus(textFrom(parts, { ...options, pieceBytes }), model('characters'));
      expectCharacters(corpus, text);
    }
  });

  test('uses the vocabulary of a resumed model, and names the characters that the vocabulary lacks', async () => {
    const text = written('abc 🦊', 900);
    const larger = ' abcdé漢🦊';
    const vocabulary: Vocabulary = { tokens: 'characters', characters: larger };
    expectCharacters(await createCorpus(textInMemory(text), model('characters'), vocabulary), text, larger);
    const wide = ` abc${chinese.slice(0, 300)}🦊`;
    const wideVocabulary: Vocabulary = { tokens: 'characters', characters: wide };
    expectCharacters(await createCorpus(textInMemory(text), model('characters'), wideVocabulary), text, wide);
    const other = createCorpus(textInMemory(`${text}zyxé`), model('characters'), vocabulary);
    await expect(other).rejects.toThrow('has 3 characters for which the resumed model has no tokens ("x", "y", "z")');
  });

  test('is rejected with the number of different characters, if there are too many', async () => {
    const many = Array.from({ length: 70_000 }, (_, i) => String.fromCodePoint(0x10000 + i)).join('');
    const reading = createCorpus(textInMemory(many), model('characters'));
    await expect(reading).rejects.toThrow('The text has 70000 different characters');
  });
});

describe('a corpus of byte pairs', () => {
  test.each([
    ['words', written('a b  ab\n\t', 4000)],
    ['characters of one to four bytes', written('ab é漢🦊\n\u3000', 3000)],
    ['words that begin in one piece and end in another', 'abcdefghij'.repeat(300) + written('ab ', 500)],
    ['as many held-out characters as possible', written('abc dé', 180_000)],
  ])('has the tokens of both parts, and the bigram loss of characters: %s', async (_, text) => {
    const { train, heldOut } = divided(text);
    for (const pieceBytes of [64, 4096]) {
      if (pieceBytes === 64 && text.length > 10_000) continue;
      const corpus = await createCorpus(textFrom([text], { pieceBytes }), model('byte-pairs'));
      const { tokenizer } = corpus;
      expect(Buffer.from(corpus.train.tokens.buffer)).toEqual(Buffer.from(tokenizer.encode(train).buffer));
      expect(corpus.test.tokens).toEqual(tokenizer.encode(heldOut));
      expect(tokenizer.decode(corpus.train.tokens)).toBe(train);
      expect(corpus.bigramLoss).toBe(bigramLoss(train, heldOut, new Set(text).size));
      // A pair never crosses the end of a word.
      const start = train
        .slice(0, 5000)
        .match(/ ?[^\s]+|\s/gu)!
        .slice(0, -1);
      const tokens = start.flatMap((word) => [...tokenizer.encode(word)]);
      expect([...corpus.train.tokens.subarray(0, tokens.length)]).toEqual(tokens);
    }
  });

  test('has words that end where a regular expression finds whitespace', () => {
    const wrong = Array.from({ length: 0x10000 }, (_, code) => code).filter((code) => {
      const words = new WordCounts();
      words.add(Uint32Array.of(0x61, code, 0x61));
      words.end();
      const [numbers] = words.numbers();
      const isSpace = code === 0x20;
      return numbers!.length > 1 !== /\s/.test(String.fromCharCode(code)) || (isSpace && numbers!.length !== 2);
    });
    expect(wrong).toEqual([]);
  });

  test('uses the pairs of a resumed model', async () => {
    const text = written('ab c', 600);
    const vocabulary: Vocabulary = { tokens: 'byte-pairs', pairs: [[97, 98]] };
    const { tokenizer, train } = await createCorpus(textInMemory(text), model('byte-pairs'), vocabulary);
    expect(tokenizer.vocabulary).toEqual(vocabulary);
    expect([...train.tokens.slice(0, 40)]).toEqual([...tokenizer.encode(text).slice(0, 40)]);
  });
});

test('reading reports the bytes of all files, and ends when it is aborted', async () => {
  const files = [new File(['abc '.repeat(100)], 'a.txt'), new File(['xyz '.repeat(100)], 'b.txt')];
  const reports: LoadProgress[] = [];
  const text = textOfFiles(files, { pieceBytes: 200 });
  await createCorpus(text, model('characters'), null, (loading) => reports.push(loading));
  expect(reports.map(({ done }) => done)).toEqual([200, 400, 601, 801]);
  expect(reports.at(-1)).toEqual({ unit: 'bytes read', done: 801, total: 801 });
  const controller = new AbortController();
  const aborted = textOfFiles(files, { pieceBytes: 200, signal: controller.signal });
  const reading = createCorpus(aborted, model('characters'), null, () => controller.abort());
  await expect(reading).rejects.toThrow(controller.signal.reason);
});
