/** A tokenizer whose tokens are characters. */
import { MAX_VOCABULARY_CHARACTERS } from '../../spec/gpt.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError } from '../../util/errors.ts';
import type { CharacterCounts } from './characterCounts.ts';
import { MAX_BYTE_TOKENS, type Tokenizer, type TokenReader, type Tokens } from './tokenizer.ts';

/** A vocabulary of the different characters (code points) of a text, in code point order. */
export class CharacterTokenizer implements Tokenizer {
  readonly #characters: readonly string[];
  readonly #tokens: ReadonlyMap<string, number>;

  /** @throws DataError if the text has too many different characters. */
  constructor(text: string) {
    const characters = [...new Set(text)].sort((a, b) => a.codePointAt(0)! - b.codePointAt(0)!);
    if (characters.length > MAX_VOCABULARY_CHARACTERS) {
      throw new DataError(
        `The text has ${characters.length} different characters, but a model supports at most ${MAX_VOCABULARY_CHARACTERS}. Choose ` +
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

  decode(tokens: ArrayLike<number>): string {
    return Array.from(tokens, (token) => this.#characters[token]).join('');
  }
}

/**
 * Reads a text whose tokens are characters. While the text is read, tokens are the numbers of the
 * characters in order of appearance, because the vocabulary is not yet known.
 */
export class CharacterTokenReader implements TokenReader {
  readonly #counts: CharacterCounts;
  readonly #most: number;
  #tokens: Tokens;
  #length = 0;

  /** @param most upper bound of the number of characters. */
  constructor(counts: CharacterCounts, most: number) {
    this.#counts = counts;
    this.#most = most;
    this.#tokens = new Uint8Array(most);
  }

  add(_: Uint32Array, numbers: Int32Array): void {
    this.#widen(this.#counts.codes.length);
    this.#tokens.set(numbers, this.#length);
    this.#length += numbers.length;
  }

  async finish(vocabulary: Vocabulary | null): Promise<{ tokenizer: Tokenizer; tokens: Tokens }> {
    const { codes } = this.#counts;
    const isOwn = vocabulary?.tokens === 'characters';
    const tokenizer = new CharacterTokenizer(isOwn ? vocabulary.characters : this.#counts.different());
    this.#widen(tokenizer.size);
    const tokens = this.#length === this.#most ? this.#tokens : this.#tokens.slice(0, this.#length);
    const tokenOf = Uint16Array.from(codes, (code) => tokenizer.encode(String.fromCodePoint(code))[0]!);
    for (let i = 0; i < tokens.length; i++) tokens[i] = tokenOf[tokens[i]!]!;
    return { tokenizer, tokens };
  }

  /** Makes room for tokens of a vocabulary of this size. */
  #widen(size: number): void {
    if (size <= MAX_BYTE_TOKENS || this.#tokens instanceof Uint16Array) return;
    const wide = new Uint16Array(this.#most);
    wide.set(this.#tokens.subarray(0, this.#length));
    this.#tokens = wide;
  }
}
