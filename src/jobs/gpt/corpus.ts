/**
 * A text as samples: consecutive windows of tokens, each with the token that follows it. The end of
 * the text is held out.
 */
import type { GptModel, TokenKind } from '../../spec/gpt.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import { bigramLoss } from './bigram.ts';
import { plainText, stretchOf, type Text } from './text.ts';
import { createTokenizer, tokenizerOf } from './createTokenizer.ts';
import type { Tokenizer } from './tokenizer.ts';

/** Held-out share, at the end of the text. */
const HELD_OUT_SHARE = 0.1;
/**
 * Most held-out characters. More would not make the loss more precise, and all of them are
 * evaluated at the end of every epoch.
 */
const MOST_HELD_OUT = 16_384;

/** Most unknown characters that an error lists. */
const MOST_NAMED = 8;
/** Number of Unicode code points, and the last one that fits one code unit. */
const CODES = 0x110000;
const LAST_SHORT_CODE = 0xffff;

/**
 * Consecutive windows of a token sequence: each token except the first is predicted once per epoch.
 */
export class Windows {
  readonly size: number;
  readonly context: number;
  /** Tokens per character: converts a loss per token to a loss per character. */
  readonly tokensPerCharacter: number;
  readonly tokens: Uint16Array;

  constructor(tokens: Uint16Array, context: number, characters: number) {
    this.tokens = tokens;
    this.context = context;
    this.size = Math.max(0, Math.floor((tokens.length - 1) / context));
    this.tokensPerCharacter = tokens.length / Math.max(1, characters);
  }

  /**
   * Writes windows `indices` one after the other to the start of `tokens`, and the successor of
   * each token to `next`; each window takes `context` elements in both.
   *
   * @throws UsageError if an index is out of range.
   */
  read(indices: ArrayLike<number>, tokens: Int32Array, next: Int32Array): void {
    const { context } = this;
    for (let i = 0; i < indices.length; i++) {
      const index = indices[i]!;
      if (!Number.isInteger(index) || index < 0 || index >= this.size) {
        throw new UsageError(`There is no sample ${index}: this text has samples 0 .. ${this.size - 1}.`);
      }
      const from = index * context;
      tokens.set(this.tokens.subarray(from, from + context), i * context);
      next.set(this.tokens.subarray(from + 1, from + 1 + context), i * context);
    }
  }
}

export interface Corpus {
  tokenizer: Tokenizer;
  train: Windows;
  test: Windows;
  /** Number of characters of the whole text. */
  characters: number;
  /** Loss of the bigram model on the held-out part, see {@link bigramLoss}. */
  bigramLoss: number;
}

/**
 * Tokenizes a text. It reads the text several times and keeps only the tokens.
 *
 * @param vocabulary of a resumed model; `null`: one is created for the text.
 * @throws (rejects) DataError if the text is too short, has too many different characters or some
 *   that `vocabulary` lacks, if `vocabulary` has another kind of tokens than the job, or if the
 *   text cannot be read.
 */
export async function createCorpus(
  text: Text,
  model: Pick<GptModel, 'tokens' | 'vocabulary' | 'context'>,
  vocabulary: Vocabulary | null = null,
): Promise<Corpus> {
  const { context } = model;
  const all = await survey(text.pieces());
  const heldOut = Math.min(MOST_HELD_OUT, Math.floor(all.length * HELD_OUT_SHARE));
  // Keeps surrogate pairs together.
  const after = (await joined(stretchOf(text, all.length - heldOut, all.length))).replace(/^[\uDC00-\uDFFF]/, '');
  const before = () => stretchOf(text, 0, all.length - after.length);
  if (vocabulary !== null) checkVocabulary(vocabulary, model.tokens, all.different);
  const tokenizer =
    vocabulary === null
      ? await createTokenizer(model, { characters: all.different, train: before() })
      : tokenizerOf(vocabulary);
  const held = await survey(plainText(after).pieces());
  const left = { characters: all.characters - held.characters, bytes: all.bytes - held.bytes };
  // A token is a character, or at least one byte.
  const most = model.tokens === 'characters' ? left.characters : left.bytes;
  const train = new Windows(await tokensOf(tokenizer, before(), most), context, left.characters);
  const test = new Windows(tokenizer.encode(after), context, held.characters);
  if (train.size === 0 || test.size === 0) {
    throw new DataError(
      `The text has ${all.length} characters, of which the last tenth is held out: too few for samples of ${context} ` +
        'tokens. Choose a longer text or a shorter context.',
    );
  }
  const bigram = await bigramLoss(before(), after, Array.from(all.different).length);
  return { tokenizer, train, test, characters: all.characters, bigramLoss: bigram };
}

/** @param characters the different characters of the text. @throws DataError */
function checkVocabulary(vocabulary: Vocabulary, tokens: TokenKind, characters: string): void {
  if (vocabulary.tokens !== tokens) {
    const [theirs, ours] = [vocabulary.tokens, tokens].map((kind) => kind.replace('-', ' '));
    throw new DataError(
      `The tokens of the resumed model are ${theirs}, but the job has ${ours}: choose ${theirs}, or start without the model's file.`,
    );
  }
  if (vocabulary.tokens === 'byte-pairs') return;
  const known = new Set(vocabulary.characters);
  const unknown = Array.from(characters).filter((character) => !known.has(character));
  if (unknown.length === 0) return;
  const some = unknown.slice(0, MOST_NAMED).map((character) => JSON.stringify(character));
  throw new DataError(
    `The text has ${unknown.length} characters for which the resumed model has no tokens (${some.join(', ')}` +
      `${unknown.length > some.length ? ', ...' : ''}): remove them, choose another text, or start without the model's file.`,
  );
}

interface Survey {
  /** Length in code units. */
  length: number;
  characters: number;
  /** Length in bytes of UTF-8. */
  bytes: number;
  /** The different characters, in code point order. */
  different: string;
}

async function survey(pieces: AsyncIterable<string>): Promise<Survey> {
  const isThere = new Uint8Array(CODES);
  let [length, characters, bytes] = [0, 0, 0];
  for await (const piece of pieces) {
    length += piece.length;
    for (let at = 0; at < piece.length; characters++) {
      const code = piece.codePointAt(at)!;
      isThere[code] = 1;
      bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code <= LAST_SHORT_CODE ? 3 : 4;
      at += code <= LAST_SHORT_CODE ? 1 : 2;
    }
  }
  let different = '';
  for (let code = isThere.indexOf(1); code >= 0; code = isThere.indexOf(1, code + 1)) {
    different += String.fromCodePoint(code);
  }
  return { length, characters, bytes, different };
}

async function joined(pieces: AsyncIterable<string>): Promise<string> {
  let all = '';
  for await (const piece of pieces) all += piece;
  return all;
}

/** @param most upper bound of the number of tokens. */
async function tokensOf(tokenizer: Tokenizer, pieces: AsyncIterable<string>, most: number): Promise<Uint16Array> {
  const tokens = new Uint16Array(most);
  let length = 0;
  for await (const some of tokenizer.encodePieces(pieces)) {
    tokens.set(some, length);
    length += some.length;
  }
  return length === most ? tokens : tokens.slice(0, length);
}
