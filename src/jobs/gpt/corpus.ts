/**
 * Converts a text to samples. A sample is a window of consecutive tokens. Its labels are the tokens
 * that follow each of them. The end of the text is held out for evaluation.
 */
import type { GptModel, TokenKind } from '../../spec/gpt.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import { plainText, stretchOf, type Text } from './text.ts';
import type { Tokenizer } from './tokenizer.ts';
import { BytePairs } from './bytePairs.ts';
import { Characters } from './characters.ts';

/** Share of the text that is held out, at its end. */
const HELD_OUT_SHARE = 0.1;
/**
 * Maximum number of held-out characters. All of them are evaluated at the end of every epoch, and
 * more characters would hardly make the loss more precise.
 */
const MOST_HELD_OUT = 16_384;

/** Maximum number of unknown characters that an error lists. */
const MOST_NAMED = 8;
/**
 * CODES is the number of Unicode code points. LAST_SHORT_CODE is the largest code point that fits
 * in one code unit.
 */
const CODES = 0x110000;
const LAST_SHORT_CODE = 0xffff;

/**
 * Consecutive windows of a token sequence. In each epoch, each token is predicted once, except the
 * first token and the tokens after the last complete window.
 */
export class Windows {
  readonly size: number;
  readonly context: number;
  /**
   * Mean number of tokens per character. A loss per token times this number is a loss per
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
   * Writes the windows `indices` one after the other to the start of `tokens`. For each token, the
   * following token is written to `next`. Each window has `context` elements in both arrays.
   *
   * @throws UsageError if an index is out of range.
   */
  read(indices: ArrayLike<number>, tokens: Int32Array, next: Int32Array): void {
    const { context } = this;
    for (let i = 0; i < indices.length; i++) {
      const index = indices[i]!;
      if (!Number.isInteger(index) || index < 0 || index >= this.size) {
        throw new UsageError(`There is no sample ${index}. The samples of this text are 0 .. ${this.size - 1}.`);
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
  /** Number of characters (code points) in the whole text. */
  characters: number;
  /** Loss of the bigram model on the held-out part of the text, see {@link bigramLoss}. */
  bigramLoss: number;
}

/**
 * Tokenizes a text. The text is read several times, and only its tokens stay in memory.
 *
 * @param vocabulary the vocabulary of a resumed model. If it is `null`, a vocabulary is created for
 *   the text.
 * @throws (rejects) DataError if the text cannot be read, is too short, or has too many different
 *   characters. DataError if `vocabulary` lacks characters of the text, or has another kind of
 *   tokens than the job.
 */
export async function createCorpus(
  text: Text,
  model: Pick<GptModel, 'tokens' | 'vocabulary' | 'context'>,
  vocabulary: Vocabulary | null = null,
): Promise<Corpus> {
  const { context } = model;
  const all = await survey(text.pieces());
  const heldOut = Math.min(MOST_HELD_OUT, Math.floor(all.length * HELD_OUT_SHARE));
  // If the boundary of the training part is within a surrogate pair, the whole pair belongs to the
  // training part.
  const after = (await joined(stretchOf(text, all.length - heldOut, all.length))).replace(/^[\uDC00-\uDFFF]/, '');
  const before = () => stretchOf(text, 0, all.length - after.length);
  if (vocabulary !== null) checkVocabulary(vocabulary, model.tokens, all.different);
  const tokenizer =
    vocabulary === null
      ? await createTokenizer(model, { characters: all.different, train: before() })
      : tokenizerOf(vocabulary);
  const held = await survey(plainText(after).pieces());
  const left = { characters: all.characters - held.characters, bytes: all.bytes - held.bytes };
  // An upper bound of the number of tokens. If tokens are characters, each token is one character.
  // If they are byte pairs, each token is at least one byte.
  const most = model.tokens === 'characters' ? left.characters : left.bytes;
  const train = new Windows(await tokensOf(tokenizer, before(), most), context, left.characters);
  const test = new Windows(tokenizer.encode(after), context, held.characters);
  if (train.size === 0 || test.size === 0) {
    throw new DataError(
      `The text has ${all.length} characters, and the last tenth of them is held out. One of the two parts is too ` +
        `short for samples of ${context} tokens. Choose a longer text or a shorter context.`,
    );
  }
  const bigram = await bigramLoss(before(), after, Array.from(all.different).length);
  return { tokenizer, train, test, characters: all.characters, bigramLoss: bigram };
}

/**
 * @param characters the different characters of the text.
 * @throws DataError if the vocabulary cannot encode the text.
 */
function checkVocabulary(vocabulary: Vocabulary, tokens: TokenKind, characters: string): void {
  if (vocabulary.tokens !== tokens) {
    const [theirs, ours] = [vocabulary.tokens, tokens].map((kind) => kind.replace('-', ' '));
    throw new DataError(
      `The tokens of the resumed model are ${theirs}, but the job has ${ours}. Choose ${theirs}, or start without the model's file.`,
    );
  }
  if (vocabulary.tokens === 'byte-pairs') return;
  const known = new Set(vocabulary.characters);
  const unknown = Array.from(characters).filter((character) => !known.has(character));
  if (unknown.length === 0) return;
  const some = unknown.slice(0, MOST_NAMED).map((character) => JSON.stringify(character));
  throw new DataError(
    `The text has ${unknown.length} characters for which the resumed model has no tokens (${some.join(', ')}` +
      `${unknown.length > some.length ? ', ...' : ''}). Remove them, choose another text, or start without the model's file.`,
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

/**
 * Creates a new tokenizer for a text. Byte pairs are learned from the part `train` of the text.
 *
 * @param characters the different characters of the text, in any order.
 * @throws (rejects) DataError if there are too many different characters.
 */
async function createTokenizer(
  { tokens, vocabulary }: Pick<GptModel, 'tokens' | 'vocabulary'>,
  { characters, train }: { characters: string; train: AsyncIterable<string> },
): Promise<Tokenizer> {
  return tokens === 'characters' ? new Characters(characters) : BytePairs.of(train, vocabulary);
}

function tokenizerOf(vocabulary: Vocabulary): Tokenizer {
  return vocabulary.tokens === 'characters' ? new Characters(vocabulary.characters) : new BytePairs(vocabulary.pairs);
}
