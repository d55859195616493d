/**
 * Byte-pair encoding: starts with one token for each byte and repeatedly merges the most frequent
 * pair of tokens (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units",
 * ACL 2016; on bytes as in GPT-2). A pair never crosses the end of a word. The space before a word
 * belongs to the word.
 */
import { BYTES, type Vocabulary } from '../../spec/vocabulary.ts';
import type { Tokenizer } from './tokenizer.ts';

/** Matches a word with the space before it, or a single whitespace character. */
const WORD = / ?[^\s]+|\s/gu;

/** A word of the text with its current tokens and its number of occurrences. */
interface Word {
  tokens: number[];
  count: number;
}

export class BytePairs implements Tokenizer {
  /** The two tokens of which each learned token consists. Token 256 has index 0. */
  readonly #pairs: readonly (readonly [left: number, right: number])[];
  /** Maps the {@link keyOf key} of each pair to the token that replaces the pair. */
  readonly #tokens: ReadonlyMap<number, number>;
  /** The bytes of each token. */
  readonly #bytes: readonly Uint8Array[];

  constructor(pairs: readonly (readonly [left: number, right: number])[]) {
    this.#pairs = pairs;
    this.#tokens = new Map(pairs.map(([left, right], i) => [keyOf(left, right), BYTES + i]));
    const bytes = Array.from({ length: BYTES }, (_, byte) => Uint8Array.of(byte));
    for (const [left, right] of pairs) bytes.push(Uint8Array.of(...bytes[left]!, ...bytes[right]!));
    this.#bytes = bytes;
  }

  /**
   * Learns pairs from the `pieces` of a text until there are `vocabulary` tokens or no pair occurs
   * twice.
   */
  static async of(pieces: AsyncIterable<string>, vocabulary: number): Promise<BytePairs> {
    const words = await countWords(pieces);
    const pairs: [number, number][] = [];
    while (BYTES + pairs.length < vocabulary) {
      const best = mostFrequent(words);
      if (best === null) break;
      const token = BYTES + pairs.length;
      pairs.push(best);
      for (const word of words) word.tokens = merge(word.tokens, ...best, token);
    }
    return new BytePairs(pairs);
  }

  get size(): number {
    return BYTES + this.#pairs.length;
  }

  get vocabulary(): Vocabulary {
    return { tokens: 'byte-pairs', pairs: this.#pairs.map(([left, right]) => [left, right]) };
  }

  encode(text: string): Uint16Array {
    const out: number[] = [];
    for (const [word] of text.matchAll(WORD)) for (const token of this.#encodeWord(word)) out.push(token);
    return Uint16Array.from(out);
  }

  async *encodePieces(pieces: AsyncIterable<string>): AsyncGenerator<Uint16Array> {
    const known = new Map<string, readonly number[]>();
    for await (const piece of wholeWords(pieces)) {
      const out: number[] = [];
      for (const [word] of piece.matchAll(WORD)) {
        let tokens = known.get(word);
        if (tokens === undefined) {
          tokens = this.#encodeWord(word);
          known.set(word, tokens);
        }
        for (const token of tokens) out.push(token);
      }
      yield Uint16Array.from(out);
    }
  }

  /** Decodes tokens. Invalid UTF-8, which a model may generate, becomes U+FFFD. */
  decode(tokens: ArrayLike<number>): string {
    const bytes = Array.from(tokens, (token) => this.#bytes[token]!).flatMap((one) => [...one]);
    // A model may generate a byte order mark. It is decoded like any other character.
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }

  /** Encodes a word: merges its pairs in the order in which they were learned. */
  #encodeWord(word: string): number[] {
    let tokens = bytesOf(word);
    for (;;) {
      let first = Infinity;
      for (let i = 0; i + 1 < tokens.length; i++) {
        first = Math.min(first, this.#tokens.get(keyOf(tokens[i]!, tokens[i + 1]!)) ?? Infinity);
      }
      if (first === Infinity) return tokens;
      tokens = merge(tokens, ...this.#pairs[first - BYTES]!, first);
    }
  }
}

/** Splits the text only before whitespace, so no word is cut. */
async function* wholeWords(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = '';
  for await (const piece of pieces) {
    const cut = lastSpace(piece);
    if (cut === -1) {
      rest += piece;
      continue;
    }
    yield rest + piece.slice(0, cut);
    rest = piece.slice(cut);
  }
  yield rest;
}

function lastSpace(text: string): number {
  for (let at = text.length - 1; at >= 0; at--) if (/\s/.test(text[at]!)) return at;
  return -1;
}

async function countWords(pieces: AsyncIterable<string>): Promise<Word[]> {
  const counts = new Map<string, number>();
  for await (const piece of wholeWords(pieces)) {
    for (const [word] of piece.matchAll(WORD)) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return Array.from(counts, ([word, count]) => ({ tokens: bytesOf(word), count }));
}

/**
 * Returns the most frequent pair, or `null` if no pair occurs twice. If several pairs are equally
 * frequent, the pair with the lowest tokens is returned.
 */
function mostFrequent(words: readonly Word[]): [number, number] | null {
  const counts = new Map<number, number>();
  for (const { tokens, count } of words) {
    for (let i = 0; i + 1 < tokens.length; i++) {
      const key = keyOf(tokens[i]!, tokens[i + 1]!);
      counts.set(key, (counts.get(key) ?? 0) + count);
    }
  }
  let best = -1;
  let most = 1;
  for (const [key, count] of counts) {
    if (count > most || (count === most && best >= 0 && key < best)) [best, most] = [key, count];
  }
  return best < 0 ? null : [Math.floor(best / KEY), best % KEY];
}

/** Replaces each pair of tokens (`left`, `right`) with `token`. */
function merge(tokens: number[], left: number, right: number, token: number): number[] {
  const out: number[] = [];
  for (let i = 0; i < tokens.length; i++) {
    if (tokens[i] === left && tokens[i + 1] === right) {
      out.push(token);
      i += 1;
    } else {
      out.push(tokens[i]!);
    }
  }
  return out.length === tokens.length ? tokens : out;
}

/** Factor of {@link keyOf}; it is larger than any token. */
const KEY = 0x10000;

function keyOf(left: number, right: number): number {
  return left * KEY + right;
}

function bytesOf(text: string): number[] {
  return [...new TextEncoder().encode(text)];
}
