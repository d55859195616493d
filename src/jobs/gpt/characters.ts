/** A tokenizer whose tokens are characters. */
import { MAX_CHARACTERS } from '../../spec/gpt.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError } from '../../util/errors.ts';
import type { Tokenizer } from './tokenizer.ts';

/** One token for each character (code point) of a text, in code point order. */
export class Characters implements Tokenizer {
  readonly #characters: readonly string[];
  readonly #tokens: ReadonlyMap<string, number>;

  /** @throws DataError if the text has too many different characters. */
  constructor(text: string) {
    const characters = [...new Set(text)].sort((a, b) => a.codePointAt(0)! - b.codePointAt(0)!);
    if (characters.length > MAX_CHARACTERS) {
      throw new DataError(
        `The text has ${characters.length} different characters, but a model supports at most ${MAX_CHARACTERS}. Choose ` +
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
