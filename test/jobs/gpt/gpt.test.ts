import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { BytePairTokenizer } from '../../../src/jobs/gpt/bytePairs.ts';
import { createCorpus } from '../../../src/jobs/gpt/corpus.ts';
import { FABLES_LENGTH, writeFables } from '../../../src/jobs/gpt/fables.ts';
import { openTrainingText } from '../../../src/jobs/gpt/openTrainingText.ts';
import {
  codePointsOf,
  textInMemory,
  stringOfCodePoints,
  textOfFiles,
  type TrainingText,
} from '../../../src/jobs/gpt/text.ts';
import { GptNetwork } from '../../../src/jobs/gpt/network.ts';
import type { GptNetworkSize } from '../../../src/jobs/gpt/shapes.ts';
import { CharacterCounts } from '../../../src/jobs/gpt/characterCounts.ts';
import { CharacterTokenReader, CharacterTokenizer } from '../../../src/jobs/gpt/characters.ts';
import { WordCounts } from '../../../src/jobs/gpt/wordCounts.ts';
import { createTokenForward, sampleTokens } from '../../../src/jobs/gpt/tokenSampler.ts';
import type { LoadProgress } from '../../../src/protocol/events.ts';
import { GPT_PRESETS } from '../../../src/spec/gpt.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { createRng } from '../../../src/util/rng.ts';

const SIZE: GptNetworkSize = { layers: 2, heads: 2, width: 8, context: 6, vocabulary: 11 };

async function wordsOf(text: TrainingText): Promise<WordCounts> {
  const words = new WordCounts();
  for await (const piece of text.pieces()) words.add(piece);
  words.end();
  return words;
}

const learn = async (text: string, vocabulary: number): Promise<BytePairTokenizer> =>
  BytePairTokenizer.of(await wordsOf(textInMemory(text)), vocabulary);

async function characterTokens(text: TrainingText): Promise<number[]> {
  const counts = new CharacterCounts();
  const reader = new CharacterTokenReader(counts, text.bytes);
  for await (const piece of text.pieces()) reader.add(piece, counts.add(piece));
  return [...(await reader.finish(null)).tokens];
}

const load = async (url: string, onprogress: (loading: LoadProgress) => void = () => {}): Promise<string> =>
  read(
    await openTrainingText({ job: 'gpt', data: { kind: 'url', url } }, { baseUrl: 'http://localhost/', onprogress }),
  );

async function read(text: TrainingText): Promise<string> {
  let all = '';
  for await (const piece of text.pieces()) all += stringOfCodePoints(piece);
  return all;
}

const file = (name: string, bytes: string | Uint8Array<ArrayBuffer>) => new File([bytes], name);

function tokensOf(batch: number, { context, vocabulary }: GptNetworkSize, seed = 1): Int32Array {
  const rng = createRng(seed);
  return Int32Array.from({ length: batch * context }, () => rng.below(vocabulary));
}

async function logitsOf(network: GptNetwork, tokens: Int32Array): Promise<Float32Array> {
  const { context } = network.size;
  const logits = tf.tidy(() => network.logits(tf.tensor2d(tokens, [tokens.length / context, context], 'int32')));
  const values = await logits.data<'float32'>();
  logits.dispose();
  return values;
}

/** Returns a network whose logits clearly depend on tokens and positions, and its weights. */
function loudNetwork(): { network: GptNetwork; weights: Float32Array } {
  const network = new GptNetwork(SIZE, 3);
  for (const variable of network.variables.slice(0, 2)) tf.tidy(() => variable.assign(variable.mul(40)));
  const weights = Float32Array.from(network.variables.flatMap((variable) => [...variable.dataSync()]));
  return { network, weights };
}

const be = (text: string): Buffer => Buffer.from(text, 'utf16le').swap16();

describe('tokenizers', () => {
  test('restore a text from its tokens, including characters of two code units', () => {
    const text = 'Zwölf Boxkämpfer jagen 🦊, na und?\n';
    const characters = new CharacterTokenizer(text);
    expect(characters.decode(characters.encode(text))).toBe(text);
    expect(characters.size).toBe(new Set(text).size);
    // Characters without a token are left out.
    expect(characters.decode(characters.encode('Bücher'))).toBe('Ber');
  });

  test('reject a text with more different characters than a model supports', () => {
    const text = Array.from({ length: 5000 }, (_, i) => String.fromCodePoint(0x4e00 + i)).join('');
    expect(() => new CharacterTokenizer(text)).toThrow(/5000 different characters.*Choose byte pairs/);
  });

  test('learn the most frequent byte pair first, and can restore any text', async () => {
    const pairs = await learn('abab abab abab xy', 259);
    expect(pairs.size).toBe(259);
    // Learned are "ab", then "abab", then " abab". " abab" is as frequent as "abab".
    expect([...pairs.encode('ab')]).toEqual([256]);
    for (const text of ['abab xyz', '  two  spaces\n\n', 'neu: ä 漢字 🦊', '', '\uFEFFab\uFEFF']) {
      expect(pairs.decode(pairs.encode(text))).toBe(text);
    }
    expect(pairs.encode('abab abab').length).toBeLessThan(5);
  });

  test('learn only byte pairs that occur more than once', async () => {
    expect((await learn('abc', 300)).size).toBe(256);
  });

  test('give the same tokens for a whole text as for its pieces, wherever the text is cut', async () => {
    const character = fc.oneof(
      fc.constantFrom(' ', ' ', '\n', 'a', 'b', 'a', 'ä', '漢', '🦊'),
      fc.string({ unit: 'grapheme', minLength: 1 }),
    );
    const text = fc.array(character, { maxLength: 60 }).map((all) => all.join(''));
    await fc.assert(
      fc.asyncProperty(text, fc.integer({ min: 4, max: 9 }), async (whole, pieceBytes) => {
        const cut = textOfFiles([file('a.txt', whole)], { pieceBytes });
        const asRead = whole.replace(/^\uFEFF/, '');
        expect(await read(cut)).toBe(asRead);
        const pairs = await learn(asRead, 270);
        const words = await wordsOf(cut);
        expect((await BytePairTokenizer.of(words, 270)).encode(asRead)).toEqual(pairs.encode(asRead));
        expect(await pairs.encodeWords(words)).toEqual(pairs.encode(asRead));
        expect(await characterTokens(cut)).toEqual([...new CharacterTokenizer(asRead).encode(asRead)]);
      }),
      { numRuns: 60 },
    );
  });
});

describe('the bigram model', () => {
  test.each([['abab'], ['aba', '', 'b'], ['a', 'b', 'a', 'b']])(
    'adds 1 to the count of each pair of characters, and counts the same however the text is cut into pieces',
    (...pieces) => {
      const counts = new CharacterCounts();
      for (const piece of pieces) counts.add(codePointsOf(piece));
      // There are 3 characters. "b" follows "a" twice: (2 + 1) / (2 + 3). "a" follows "b" once: 2 /
      // 4. "c" never follows "a": 1 / 5.
      const expected = -(Math.log(3 / 5) + Math.log(2 / 4) + Math.log(1 / 5)) / 3;
      expect(counts.bigramLoss(counts.numbersOf(codePointsOf('abac')))).toBeCloseTo(expected, 12);
    },
  );
});

describe('the training text', () => {
  test('is long enough and always the same, if it is the built-in text', () => {
    const text = writeFables();
    expect(text.length).toBeGreaterThanOrEqual(FABLES_LENGTH);
    expect(writeFables()).toBe(text);
    expect(text).toMatch(/^[\x20-\x7e\n]+$/);
    expect(text).not.toMatch(/undefined|\ba [aeio]|,\?|\?,/);
  });

  const source = { job: 'gpt', data: { kind: 'files' } } as const;
  test('consists of all files, sorted by name', async () => {
    const files = [file('b.txt', 'two'), file('a.txt', 'one')];
    expect(await read(await openTrainingText(source, { files, baseUrl: 'http://localhost/' }))).toBe('one\ntwo');
  });

  test('is rejected with the position of the invalid byte if it is not UTF-8', async () => {
    const bytes = Uint8Array.of(...new TextEncoder().encode('ä and '), 0xff, 0x41);
    // The error must be the same for pieces of any size.
    for (const pieceBytes of [4, 5, 6, 7, 8, 9, 1024]) {
      const reading = read(textOfFiles([file('notes.txt', bytes)], { pieceBytes }));
      await expect(reading).rejects.toThrow(/notes.txt is not UTF-8 text: byte 7 \(255\)/);
    }
    const cut = read(textOfFiles([file('cut.txt', Uint8Array.of(0x41, 0xc3))]));
    await expect(cut).rejects.toThrow(/cut.txt is not UTF-8 text: byte 1 \(195\)/);
  });

  test('may have a stated encoding; a character may begin in one piece and end in the next', async () => {
    const bytes = Uint8Array.of(0x41, 0xd1, 0xd5, 0xc9, 0xab, 0x42);
    for (const pieceBytes of [1, 2, 3, 1024]) {
      expect(await read(textOfFiles([file('a.txt', bytes)], { encoding: 'gb18030', pieceBytes }))).toBe('A颜色B');
    }
    await expect(read(textOfFiles([file('a.txt', bytes)]))).rejects.toThrow('It may be gb18030 (Chinese)');
  });

  test('must be among the files, and cannot be synthetic', async () => {
    await expect(openTrainingText(source, { files: [], baseUrl: 'http://localhost/' })).rejects.toThrow(
      /There is no text among the files/,
    );
    const drawn = openTrainingText({ job: 'gpt', data: { kind: 'synthetic' } }, { baseUrl: 'http://localhost/' });
    await expect(drawn).rejects.toThrow(UsageError);
  });

  test('is cut into samples of tokens and their successors, and its end is held out', async () => {
    const text = textInMemory('abcdefghij'.repeat(20));
    const model = { tokens: 'characters', vocabulary: 512, context: 7 } as const;
    const { train, test: held, tokenizer, characters } = await createCorpus(text, model);
    expect(characters).toBe(200);
    expect([train.size, held.size]).toEqual([Math.floor(179 / 7), Math.floor(19 / 7)]);
    const [tokens, next] = [new Int32Array(14), new Int32Array(14)];
    train.read([0, 2], tokens, next);
    expect(tokenizer.decode(tokens)).toBe('abcdefgefghija');
    expect(tokenizer.decode(next)).toBe('bcdefghfghijab');
    expect(() => train.read([25], tokens, next)).toThrow(/no sample 25/);
  });

  test('is rejected if it is too short', async () => {
    const model = { tokens: 'characters', vocabulary: 512, context: 64 } as const;
    const making = createCorpus(textInMemory('too short'), model);
    await expect(making).rejects.toThrow(/has 9 characters.*samples of 64 tokens/);
  });

  test.each(['characters', 'byte-pairs'] as const)('is never cut within a character (tokens: %s)', async (tokens) => {
    // Each character has two code units. Without a correction, an odd number of code units would be
    // held out.
    const text = '🦊🐻🦁🐯🐷'.repeat(31);
    const model = { tokens, vocabulary: 257, context: 1 } as const;
    const { train, test: held, tokenizer } = await createCorpus(textInMemory(text), model);
    expect(tokenizer.decode(train.tokens) + tokenizer.decode(held.tokens)).toBe(text);
    expect(train.tokensPerCharacter).toBe(train.tokens.length / 140);
  });

  const base = 'The quick brown fox jumps over the lazy dog. '.repeat(99);
  test.each([
    ['UTF-16 with a mark', Buffer.from(`\ufeff${base}`, 'utf16le')],
    ['big-endian UTF-16 with a mark', be(`\ufeff${base}`)],
    ['UTF-16 without a mark', Buffer.from(base, 'utf16le')],
    ['big-endian UTF-16 without a mark', be(base)],
  ])('may be %s, and a note says so', async (_, bytes) => {
    for (const pieceBytes of [7, 4096]) {
      const text = textOfFiles([file('a.txt', Uint8Array.from(bytes))], { pieceBytes });
      expect(await read(text)).toBe(base);
      expect(text.notes).toEqual([{ kind: 'utf-16', count: 1, name: '', example: 'a.txt' }]);
    }
  });

  test.each([
    ['a PDF document', '%PDF-1.4\n'],
    ['an RTF document', '{\\rtf1\\ansi '],
    ['a Word, OpenDocument, EPUB or zip file', 'PK\x03\x04'],
    ['a gzip file', Uint8Array.of(0x1f, 0x8b, 8)],
  ])('is rejected by name if it is %s, and left out if there are other texts', async (format, start) => {
    const document = new File([start, base], 'a.txt');
    await expect(read(textOfFiles([document]))).rejects.toThrow(`a.txt is ${format}, not plain text. Export its text`);
    const files = [new File([start, base], 'a.doc'), new File([base], 'b.txt')];
    const text = await openTrainingText({ job: 'gpt', data: { kind: 'files' } }, { files, baseUrl: '' });
    expect(await read(text)).toBe(base);
    expect(text.notes).toEqual([{ kind: 'files-ignored', count: 1, name: '', example: 'a.doc' }]);
  });

  test('may be an HTML page, and a note names it; UTF-32 is rejected', async () => {
    const page = textOfFiles([file('a.html', Buffer.from(`\ufeff<!DOCTYPE html>${base}`))]);
    await read(page);
    expect(page.notes).toEqual([{ kind: 'markup', count: 1, name: '', example: 'a.html' }]);
    const wide = Uint8Array.from(`\xff\xfe\0\0a\0\0\0b\0\0\0`, (letter) => letter.charCodeAt(0));
    await expect(read(textOfFiles([file('a.txt', wide)]))).rejects.toThrow('a.txt is damaged UTF-16 text near byte 0');
  });

  test('of a folder excludes hidden files and files that are not text, with notes, and is rejected if a .txt file is damaged', async () => {
    const files = [
      new File([base], 'texts/a.txt'),
      new File([base], 'texts/b.md'),
      new File([Uint8Array.of(0, 0, 0, 1, 66, 117)], 'texts/.DS_Store'),
      new File([base], 'texts/.old/a.txt'),
      new File([Uint8Array.of(0x89, 80, 78, 71, 13, 10, 26, 10, 0, 0)], 'texts/cover.png'),
    ];
    const text = await openTrainingText({ job: 'gpt', data: { kind: 'files' } }, { files, baseUrl: '' });
    expect(await read(text)).toBe(`${base}\n${base}`);
    expect(text.notes).toEqual([
      { kind: 'files-ignored', count: 2, name: 'texts', example: 'texts/.DS_Store' },
      { kind: 'folder-hidden', count: 1, name: 'texts/.old', example: 'texts/.old/a.txt' },
    ]);
    const damaged = [...files, new File([Uint8Array.of(65, 0, 0, 1)], 'texts/c.txt')];
    const other = await openTrainingText({ job: 'gpt', data: { kind: 'files' } }, { files: damaged, baseUrl: '' });
    await expect(read(other)).rejects.toThrow('texts/c.txt is not text: byte 1 is 0.');
  });

  test('is fetched from a URL with a "%", or from the text files in a folder', async () => {
    const bodies: Record<string, string> = {
      '/100%25.txt': 'all of it',
      '/50%.txt': 'half of it',
      '/books/index.json': '["b.txt", "cover.png", "a.txt"]',
      '/books/a.txt': 'first',
      '/books/b.txt': 'second',
    };
    const fetched = vi.fn((url: URL) => {
      const body = bodies[url.pathname];
      return Promise.resolve(new Response(body ?? null, { status: body === undefined ? 404 : 200 }));
    });
    vi.stubGlobal('fetch', fetched);
    try {
      expect(await load('100%25.txt')).toBe('all of it');
      expect(await load('50%.txt')).toBe('half of it');
      const reports: LoadProgress[] = [];
      expect(await load('books/', (loading) => reports.push(loading))).toBe('first\nsecond');
      expect(reports.at(-1)).toEqual({ unit: 'bytes', done: 11, total: 11 });
      await expect(load('gone.txt')).rejects.toThrow('http://localhost/gone.txt does not exist');
      await expect(load('other/')).rejects.toThrow('has no index.json');
    } finally {
      vi.unstubAllGlobals();
    }
    expect(fetched.mock.calls.map(([url]) => url.pathname)).not.toContain('/books/cover.png');
  });
});

describe('the network of the job gpt', () => {
  let network: GptNetwork;
  beforeAll(() => {
    network = new GptNetwork(SIZE, 7);
  });
  afterAll(() => network.dispose());

  test('has presets with the expected numbers of parameters', () => {
    const parameters = (['tiny', 'small', 'medium', 'large'] as const).map((name) => {
      const { layers, width, context } = GPT_PRESETS[name].model;
      return (68 + context + 1) * width + layers * (12 * width * width + 2 * width);
    });
    expect(parameters).toEqual([55_744, 1_009_536, 4_772_096, 10_746_240]);
  });

  test('starts with the loss of uniform predictions: the logarithm of the vocabulary size', async () => {
    const logits = await logitsOf(network, tokensOf(4, SIZE));
    const { vocabulary } = SIZE;
    for (let row = 0; row < logits.length; row += vocabulary) {
      const values = [...logits.subarray(row, row + vocabulary)];
      const sum = values.reduce((total, value) => total + Math.exp(value), 0);
      for (const value of values) expect(Math.log(sum) - value).toBeCloseTo(Math.log(vocabulary), 0);
    }
  });

  test('has outputs that depend on every earlier position, and on no later one', async () => {
    const { context, vocabulary } = SIZE;
    const tokens = tokensOf(1, SIZE);
    const before = await logitsOf(network, tokens);
    for (let changed = 0; changed < context; changed++) {
      const other = tokens.slice();
      other[changed] = (other[changed]! + 1) % vocabulary;
      const after = await logitsOf(network, other);
      for (let place = 0; place < context; place++) {
        const at = place * vocabulary;
        const isSame = Array.from({ length: vocabulary }, (_, i) => before[at + i] === after[at + i]).every(
          (same) => same,
        );
        expect(isSame, `token ${changed} at place ${place}`).toBe(place < changed);
      }
    }
  });

  test('has the gradients of finite differences', async () => {
    const tokens = tf.tensor2d(tokensOf(3, SIZE), [3, SIZE.context], 'int32');
    const weights = tf.randomNormal([3 * SIZE.context, SIZE.vocabulary], 0, 1, 'float32', 5);
    const { network: loud } = loudNetwork();
    const loss = (): tf.Scalar => loud.logits(tokens).mul(weights).sum<tf.Scalar>();
    const { value, grads } = tf.variableGrads(loss, [...loud.variables]);
    for (const [i, variable] of loud.variables.entries()) {
      const direction = tf.randomNormal(variable.shape, 0, 1, 'float32', 9 + i);
      const along = tf.tidy(() => grads[variable.name]!.mul(direction).sum().dataSync()[0]!);
      const before = variable.clone();
      const lossAt = (step: number): number =>
        tf.tidy(() => {
          variable.assign(before.add(direction.mul(step)));
          return loss().dataSync()[0]!;
        });
      const STEP = 5e-4;
      const change = (lossAt(STEP) - lossAt(-STEP)) / (2 * STEP);
      variable.assign(before);
      expect(Math.abs(change - along), `variable ${i}`).toBeLessThan(0.02 * Math.max(1, Math.abs(along)));
      tf.dispose([direction, before]);
    }
    tf.dispose([value, grads, tokens, weights]);
    loud.dispose();
  });

  test('has the same initial weights on every machine, and different weights for a different seed', () => {
    const [own, same, other] = [network, new GptNetwork(SIZE, 7), new GptNetwork(SIZE, 8)].map((one) =>
      one.variables.flatMap((variable) => [...variable.dataSync()]),
    );
    expect(same).toEqual(own);
    expect(other).not.toEqual(own);
  });

  test('drops all activations if dropout masks are 0, and none if they are 1', async () => {
    const tokens = tf.tensor2d(tokensOf(2, SIZE), [2, SIZE.context], 'int32');
    const ones = Array.from({ length: 5 }, () => tf.ones([2, 1, SIZE.width]));
    const without = await logitsOf(network, tokensOf(2, SIZE));
    const kept = tf.tidy(() => network.logits(tokens, ones));
    expect(await kept.data()).toEqual(without);
    const none = tf.tidy(() =>
      network.logits(
        tokens,
        ones.map((mask) => mask.mul(0)),
      ),
    );
    expect((await none.data()).every((value) => value === 0)).toBe(true);
    tf.dispose([tokens, ones, kept, none]);
  });
});

describe('sampling', () => {
  test('chooses the most likely token at temperature 0, even for a text longer than the context', async () => {
    const { network, weights } = loudNetwork();
    const { context, vocabulary } = SIZE;
    const written: number[] = [];
    const forward = createTokenForward(SIZE, SIZE.vocabulary, weights);
    const tokens = sampleTokens(forward, SIZE, [3, 1], { temperature: 0, seed: 1 });
    // The tokens in the window when the next token is sampled. A full window drops its first half.
    let view = [3, 1];
    while (written.length < 12) {
      const padded = new Int32Array(context);
      padded.set(view);
      const logits = await logitsOf(network, padded);
      const row = [...logits.subarray((view.length - 1) * vocabulary, view.length * vocabulary)];
      const token = (await tokens.next()).value;
      expect(token).toBe(row.indexOf(Math.max(...row)));
      written.push(token);
      if (view.length === context) view = view.slice(context >> 1);
      view.push(token);
    }
    network.dispose();
  });

  test('gives the same text for the same seed, and more varied texts at higher temperatures', async () => {
    const { network, weights } = loudNetwork();
    const write = async (temperature: number, seed: number): Promise<number[]> => {
      const forward = createTokenForward(SIZE, SIZE.vocabulary, weights);
      const tokens = sampleTokens(forward, SIZE, [0], { temperature, seed });
      const written: number[] = [];
      while (written.length < 200) written.push((await tokens.next()).value);
      return written;
    };
    expect(await write(1, 5)).toEqual(await write(1, 5));
    expect(await write(1, 6)).not.toEqual(await write(1, 5));
    expect(new Set(await write(100, 5)).size).toBeGreaterThan(new Set(await write(0.2, 5)).size);
    network.dispose();
  });
});
