/**
 * Text as numbers, and back: what a language model reads and writes. The same text gives the same
 * tokens on every machine.
 */
import type { Vocabulary } from '../../spec/vocabulary.ts';

export interface Tokenizer {
  /** Tokens are 0 .. size-1. */
  readonly size: number;
  /** What makes the same again, see {@link tokenizerOf}. */
  readonly vocabulary: Vocabulary;
  /** What it has no token for is left out. */
  encode(text: string): Uint16Array;
  /** The same of a text in pieces, whose tokens come in pieces, too: other ones. */
  encodePieces(pieces: AsyncIterable<string>): AsyncIterable<Uint16Array>;
  decode(tokens: ArrayLike<number>): string;
}
