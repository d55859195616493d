/** Converts text to tokens and back. The same text gives the same tokens on every machine. */
import type { Vocabulary } from '../../spec/vocabulary.ts';

export interface Tokenizer {
  /** Number of tokens. Tokens are 0 .. size-1. */
  readonly size: number;
  /** The data from which `tokenizerOf` rebuilds this tokenizer. */
  readonly vocabulary: Vocabulary;
  /** Encodes a text. Characters without a token are left out. */
  encode(text: string): Uint16Array;
  decode(tokens: ArrayLike<number>): string;
}

/** A vocabulary with at most this number of tokens has tokens of one byte. */
export const MAX_BYTE_TOKENS = 256;

export type Tokens = Uint8Array | Uint16Array;

/** Reads the training part of a text once, and then converts it to tokens. */
export interface TokenReader {
  /**
   * @param characters the code points of the next characters.
   * @param numbers their numbers, see `CharacterCounts`.
   */
  add(characters: Uint32Array, numbers: Int32Array): void;
  /**
   * @param vocabulary the vocabulary of the tokenizer; `null`: one is created for the text.
   * @throws (rejects) DataError if the text has too many different characters.
   */
  finish(vocabulary: Vocabulary | null): Promise<{ tokenizer: Tokenizer; tokens: Tokens }>;
}
