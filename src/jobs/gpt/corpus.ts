/**
 * A text to learn from, cut into samples: windows of tokens, each with the token behind it. The end
 * of the text is held out.
 */
import type { GptModel, TokenKind } from '../../spec/gpt.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import { bigramLoss } from './bigram.ts';
import { plainText, stretchOf, type Text } from './text.ts';
import { createTokenizer, tokenizerOf } from './createTokenizer.ts';
import type { Tokenizer } from './tokenizer.ts';

/** Of the text, at its end. */
const HELD_OUT_SHARE = 0.1;
/**
 * Characters: more do not make the loss more certain, and all are tested at the end of every pass.
 */
const MOST_HELD_OUT = 16_384;

/** Of those that a model does not know. */
const TOLD_CHARACTERS = 8;
/** Unicode's, and the last of those that are one code unit. */
const CODES = 0x110000;
const LAST_SHORT_CODE = 0xffff;

/**
 * Windows that lie one behind the other: each token but the first is what a model is to tell once
 * in a pass.
 */
export class Windows {
  readonly size: number;
  readonly context: number;
  /**
   * Tokens for each character: what a loss by token is multiplied with, so that it is one by
   * character.
   */
  readonly tokensPerCharacter: number;
  readonly tokens: Uint16Array;

  constructor(tokens: Uint16Array, context: number, characters: number) {
    this.tokens = tokens;
    this.context = context;
    this.size = Math.max(0, Math.floor((tokens.length - 1) / context));
    this.tokensPerCharacter = tokens.length / Math.max(1, characters);
  }

  /**
   * Writes windows `indices` one after the other to the front of `tokens`, and what follows each of
   * their tokens to `next`; both have `context` places for each.
   *
   * @throws UsageError where there is no such window.
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
  /** Of the whole text. */
  characters: number;
  /** Of the held-out part, see {@link bigramLoss}. */
  bigramLoss: number;
}

/**
 * Reads the text some times over, and keeps its tokens and no more of it.
 *
 * @param vocabulary of a model that is gone on with; `null`: one is made for the text.
 * @throws (rejects) DataError where the text is too short, has too many different characters, or
 *   some that `vocabulary` has not; where that is of other tokens than the job's; or where the text
 *   cannot be read.
 */
export async function createCorpus(
  text: Text,
  model: Pick<GptModel, 'tokens' | 'vocabulary' | 'context'>,
  vocabulary: Vocabulary | null = null,
): Promise<Corpus> {
  const { context } = model;
  const all = await survey(text.pieces());
  const heldOut = Math.min(MOST_HELD_OUT, Math.floor(all.length * HELD_OUT_SHARE));
  // A character of two code units is not cut in two.
  const after = (await joined(stretchOf(text, all.length - heldOut, all.length))).replace(/^[\uDC00-\uDFFF]/, '');
  const before = () => stretchOf(text, 0, all.length - after.length);
  if (vocabulary !== null) checkVocabulary(vocabulary, model.tokens, all.different);
  const tokenizer =
    vocabulary === null
      ? await createTokenizer(model, { characters: all.different, train: before() })
      : tokenizerOf(vocabulary);
  const held = await survey(plainText(after).pieces());
  const left = { characters: all.characters - held.characters, bytes: all.bytes - held.bytes };
  // A token is a character, or one byte at least.
  const most = model.tokens === 'characters' ? left.characters : left.bytes;
  const train = new Windows(await tokensOf(tokenizer, before(), most), context, left.characters);
  const test = new Windows(tokenizer.encode(after), context, held.characters);
  if (train.size === 0 || test.size === 0) {
    throw new DataError(
      `The text has ${all.length} characters, of which the last tenth is held out: too few for samples of ${context} ` +
        'tokens. Choose a longer text, or a shorter context.',
    );
  }
  const bigram = await bigramLoss(before(), after, Array.from(all.different).length);
  return { tokenizer, train, test, characters: all.characters, bigramLoss: bigram };
}

/** @param characters the text's. @throws DataError */
function checkVocabulary(vocabulary: Vocabulary, tokens: TokenKind, characters: string): void {
  if (vocabulary.tokens !== tokens) {
    const [theirs, ours] = [vocabulary.tokens, tokens].map((kind) => kind.replace('-', ' '));
    throw new DataError(
      `The model to go on with has ${theirs} as tokens, and the job ${ours}: choose ${theirs}, or begin without its file.`,
    );
  }
  if (vocabulary.tokens === 'byte-pairs') return;
  const known = new Set(vocabulary.characters);
  const unknown = Array.from(characters).filter((character) => !known.has(character));
  if (unknown.length === 0) return;
  const some = unknown.slice(0, TOLD_CHARACTERS).map((character) => JSON.stringify(character));
  throw new DataError(
    `The text has ${unknown.length} characters that the model to go on with has no tokens for (${some.join(', ')}` +
      `${unknown.length > some.length ? ', ...' : ''}): take them out, choose another text, or begin without the model's file.`,
  );
}

interface Survey {
  /** Code units. */
  length: number;
  characters: number;
  /** In UTF-8. */
  bytes: number;
  /** Each of the characters once, in the order of their codes. */
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

/** @param most how many there may be. */
async function tokensOf(tokenizer: Tokenizer, pieces: AsyncIterable<string>, most: number): Promise<Uint16Array> {
  const tokens = new Uint16Array(most);
  let length = 0;
  for await (const some of tokenizer.encodePieces(pieces)) {
    tokens.set(some, length);
    length += some.length;
  }
  return length === most ? tokens : tokens.slice(0, length);
}
