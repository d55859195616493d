/**
 * Converts a text to samples. A sample is a window of consecutive tokens. Its labels are the tokens
 * that follow each of them. The end of the text is held out for evaluation.
 */
import type { GptModel, TokenKind } from '../../spec/gpt.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import type { LoadDataOptions } from '../fileSource.ts';
import { MAX_UTF16_UNIT_CODE, stringOfCodePoints, type TrainingText } from './text.ts';
import type { Tokenizer, TokenReader, Tokens } from './tokenizer.ts';
import { CharacterCounts } from './characterCounts.ts';
import { CharacterTokenReader } from './characters.ts';
import { BytePairTokenReader } from './bytePairs.ts';

/** Share of the text that is held out, at its end. */
const HELD_OUT_SHARE = 0.1;
/**
 * Maximum number of held-out characters. All of them are evaluated at the end of every epoch, and
 * more characters would hardly make the loss more precise.
 */
const MOST_HELD_OUT = 16_384;

/** Number of characters that the preview of a text shows. */
const BEGINNING = 300;

/** Maximum number of unknown characters that an error lists. */
const MOST_NAMED = 8;

/**
 * Consecutive windows of a token sequence. In each epoch, each token is predicted once, except the
 * first token and the tokens after the last complete window.
 */
export class TokenWindows {
  readonly size: number;
  readonly context: number;
  /**
   * Mean number of tokens per character. A loss per token times this number is a loss per
   * character.
   */
  readonly tokensPerCharacter: number;
  readonly tokens: Tokens;

  constructor(tokens: Tokens, context: number, characters: number) {
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
  train: TokenWindows;
  test: TokenWindows;
  /** Number of characters (code points) in the whole text. */
  characters: number;
  /** Loss of the bigram model on the held-out part of the text, see `CharacterCounts`. */
  bigramLoss: number;
  /** The first characters of the text, at most {@link BEGINNING}. */
  beginning: string;
}

/**
 * Tokenizes a text. The text is read once, and only its tokens stay in memory.
 *
 * @param vocabulary the vocabulary of a resumed model. If it is `null`, a vocabulary is created for
 *   the text.
 * @param onprogress receives the bytes that are read.
 * @throws (rejects) DataError if the text cannot be read, is too short, or has too many different
 *   characters. DataError if `vocabulary` lacks characters of the text, or has another kind of
 *   tokens than the job.
 */
export async function createCorpus(
  text: TrainingText,
  model: Pick<GptModel, 'tokens' | 'vocabulary' | 'context'>,
  vocabulary: Vocabulary | null = null,
  onprogress?: LoadDataOptions['onprogress'],
): Promise<Corpus> {
  const { context } = model;
  const counts = new CharacterCounts();
  const reader: TokenReader =
    model.tokens === 'characters'
      ? new CharacterTokenReader(counts, text.bytes)
      : new BytePairTokenReader(model.vocabulary);
  const { length, heldOut, beginning } = await readOnce(text, { counts, reader, onprogress });
  const held = counts.numbersOf(heldOut);
  if (vocabulary !== null) checkVocabulary(vocabulary, model.tokens, counts.different());
  const { tokenizer, tokens } = await reader.finish(vocabulary);
  const train = new TokenWindows(tokens, context, counts.counted);
  const test = new TokenWindows(tokenizer.encode(stringOfCodePoints(heldOut)), context, held.length);
  if (train.size === 0 || test.size === 0) {
    throw new DataError(
      `The text has ${length} characters, and the last tenth of them is held out. One of the two parts is too ` +
        `short for samples of ${context} tokens. Choose a longer text or a shorter context.`,
    );
  }
  const characters = counts.counted + held.length;
  return { tokenizer, train, test, characters, bigramLoss: counts.bigramLoss(held), beginning };
}

/**
 * Reads a text, of which `counts` and `reader` receive the training part. Resolves with its length
 * in code units, the code points of the held-out part, and the first characters.
 */
async function readOnce(
  text: TrainingText,
  {
    counts,
    reader,
    onprogress,
  }: { counts: CharacterCounts; reader: TokenReader; onprogress: LoadDataOptions['onprogress'] },
): Promise<{ length: number; heldOut: Uint32Array; beginning: string }> {
  /** Its first `kept` elements are the end of what has been read, which may be held out. */
  let buffer = new Uint32Array();
  let kept = 0;
  let beginning = '';
  const train = (end: number): void => {
    const characters = buffer.subarray(0, end);
    reader.add(characters, counts.add(characters));
    buffer.copyWithin(0, end, kept);
    kept -= end;
  };
  const onbytes = (done: number): void => onprogress?.({ unit: 'bytes read', done, total: text.bytes });
  for await (const characters of text.pieces(onbytes)) {
    if (beginning.length < BEGINNING) {
      beginning = (beginning + stringOfCodePoints(characters.subarray(0, BEGINNING))).slice(0, BEGINNING);
    }
    if (buffer.length < kept + characters.length) {
      const larger = new Uint32Array(kept + characters.length);
      larger.set(buffer.subarray(0, kept));
      buffer = larger;
    }
    buffer.set(characters, kept);
    kept += characters.length;
    train(Math.max(0, kept - MOST_HELD_OUT));
  }
  const length = buffer.subarray(0, kept).reduce((sum, code) => sum + unitsOf(code), counts.units);
  let left = Math.min(MOST_HELD_OUT, Math.floor(length * HELD_OUT_SHARE));
  let start = kept;
  // If the boundary of the training part is within a surrogate pair, the whole pair belongs to the
  // training part.
  while (left > 0 && unitsOf(buffer[start - 1]!) <= left) left -= unitsOf(buffer[--start]!);
  train(start);
  return { length, heldOut: buffer.subarray(0, kept), beginning };
}

/** Returns the number of code units of a character. */
function unitsOf(code: number): number {
  return code > MAX_UTF16_UNIT_CODE ? 2 : 1;
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
