/** A text to learn from, cut into samples: windows of tokens, each with the token behind it. The end of the text is held out. */
import type { GptModel } from '../../protocol/gpt.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import { bigramLoss } from './bigram.ts';
import { createTokenizer, type Tokenizer } from './tokenizer.ts';

/** Of the text, at its end. */
const HELD_OUT_SHARE = 0.1;
/** Characters: more do not make the loss more certain, and all are tested at the end of every pass. */
const MOST_HELD_OUT = 16_384;

/** Windows that lie one behind the other: each token but the first is what a model is to tell once in a pass. */
export class Windows {
  readonly size: number;
  readonly context: number;
  /** Tokens for each character: what a loss by token is multiplied with, so that it is one by character. */
  readonly tokensPerCharacter: number;
  readonly tokens: Uint16Array;

  constructor(tokens: Uint16Array, context: number, characters: number) {
    this.tokens = tokens;
    this.context = context;
    this.size = Math.max(0, Math.floor((tokens.length - 1) / context));
    this.tokensPerCharacter = tokens.length / Math.max(1, characters);
  }

  /**
   * Writes windows `indices` one after the other to the front of `tokens`, and what follows each of their tokens to `next`; both have
   * `context` places for each.
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
  /** Of the held-out part, see {@link bigramLoss}. */
  bigramLoss: number;
}

/** @throws DataError where the text is too short, or has too many different characters. */
export function createCorpus(text: string, model: Pick<GptModel, 'tokens' | 'vocabulary' | 'context'>): Corpus {
  const { context } = model;
  const heldOut = Math.min(MOST_HELD_OUT, Math.floor(text.length * HELD_OUT_SHARE));
  const [before, after] = [text.slice(0, text.length - heldOut), text.slice(text.length - heldOut)];
  const tokenizer = createTokenizer(model, { text, train: before });
  const windowsOf = (part: string) => new Windows(tokenizer.encode(part), context, Array.from(part).length);
  const [train, test] = [windowsOf(before), windowsOf(after)];
  if (train.size === 0 || test.size === 0) {
    throw new DataError(
      `The text has ${text.length} characters, of which the last tenth is held out: too few for samples of ${context} ` +
        'tokens. Choose a longer text, or a shorter context.',
    );
  }
  return { tokenizer, train, test, bigramLoss: bigramLoss(before, after) };
}
