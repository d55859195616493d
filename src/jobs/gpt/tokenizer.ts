/** Text as numbers, and back: what a language model reads and writes. The same text gives the same tokens on every machine. */
import type { GptModel } from '../../protocol/gpt.ts';
import { MAX_VOCABULARY } from '../../protocol/gpt.ts';
import type { Vocabulary } from '../../protocol/vocabulary.ts';
import { DataError } from '../../util/errors.ts';
import { BytePairs } from './bytePairs.ts';

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

/**
 * For a text of these `characters`, in whatever order; byte pairs are those of its part `train`.
 *
 * @throws (rejects) DataError where there are too many different characters.
 */
export async function createTokenizer(
  { tokens, vocabulary }: Pick<GptModel, 'tokens' | 'vocabulary'>,
  { characters, train }: { characters: string; train: AsyncIterable<string> },
): Promise<Tokenizer> {
  return tokens === 'characters' ? new Characters(characters) : BytePairs.of(train, vocabulary);
}

export function tokenizerOf(vocabulary: Vocabulary): Tokenizer {
  return vocabulary.tokens === 'characters' ? new Characters(vocabulary.characters) : new BytePairs(vocabulary.pairs);
}

/** A token for each character (code point) that a text has, in the order of their codes. */
export class Characters implements Tokenizer {
  readonly #characters: readonly string[];
  readonly #tokens: ReadonlyMap<string, number>;

  /** @throws DataError where there are too many. */
  constructor(text: string) {
    const characters = [...new Set(text)].sort((a, b) => a.codePointAt(0)! - b.codePointAt(0)!);
    if (characters.length > MAX_VOCABULARY) {
      throw new DataError(
        `The text has ${characters.length} different characters, and a model takes ${MAX_VOCABULARY} at most: choose ` +
          'byte pairs as tokens.',
      );
    }
    this.#characters = characters;
    this.#tokens = new Map(characters.map((character, token) => [character, token]));
  }

  get size(): number {
    return this.#characters.length;
  }

  get vocabulary(): Vocabulary {
    return { tokens: 'characters', characters: this.#characters.join('') };
  }

  encode(text: string): Uint16Array {
    const out = new Uint16Array(text.length);
    let length = 0;
    for (const character of text) {
      const token = this.#tokens.get(character);
      if (token !== undefined) out[length++] = token;
    }
    return out.subarray(0, length);
  }

  async *encodePieces(pieces: AsyncIterable<string>): AsyncGenerator<Uint16Array> {
    for await (const piece of pieces) yield this.encode(piece);
  }

  decode(tokens: ArrayLike<number>): string {
    return Array.from(tokens, (token) => this.#characters[token]).join('');
  }
}
