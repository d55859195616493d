/** Converts text to tokens and back. The same text gives the same tokens on every machine. */
import type { Vocabulary } from '../../spec/vocabulary.ts';

export interface Tokenizer {
  /** Number of tokens. Tokens are 0 .. size-1. */
  readonly size: number;
  /** The data from which `tokenizerOf` rebuilds this tokenizer. */
  readonly vocabulary: Vocabulary;
  /** Encodes a text. Characters without a token are left out. */
  encode(text: string): Uint16Array;
  /**
   * Encodes a text that is read in pieces. The yielded arrays may split the text at other positions
   * than the pieces do.
   */
  encodePieces(pieces: AsyncIterable<string>): AsyncIterable<Uint16Array>;
  decode(tokens: ArrayLike<number>): string;
}
