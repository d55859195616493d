/**
 * Byte-pair encoding: starts with one token for each byte and repeatedly merges the most frequent
 * pair of tokens (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units",
 * ACL 2016; on bytes as in GPT-2). A pair never crosses the end of a word. The space before a word
 * belongs to the word.
 */
import { BYTES, type Vocabulary } from '../../spec/vocabulary.ts';
import { codePointsOf } from './text.ts';
import type { Tokenizer, TokenReader, Tokens } from './tokenizer.ts';
import { Words } from './words.ts';

/** A word of the text with its current tokens and its number of occurrences. */
interface Word {
  tokens: number[];
  count: number;
}

export class BytePairs implements Tokenizer {
  /** For each learned token: the two tokens that it replaces. Token 256 has index 0. */
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
   * Learns pairs from the words of a text until there are `vocabulary` tokens or no pair occurs
   * twice.
   */
  static of(words: Words, vocabulary: number): BytePairs {
    const counts = new PairCounts(
      words.counts.map((count, number) => ({ tokens: Array.from(words.bytesOf(number)), count })),
    );
    const pairs: [number, number][] = [];
    while (BYTES + pairs.length < vocabulary) {
      const best = counts.mostFrequent();
      if (best === null) break;
      counts.merge(best, BYTES + pairs.length);
      pairs.push(best);
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
    const words = new Words();
    words.add(codePointsOf(text));
    words.end();
    return this.encodeWords(words);
  }

  /** Encodes the text of `words`. */
  encodeWords(words: Words): Uint16Array {
    const encoded = words.counts.map((_, number) => this.#encodeWord(words.bytesOf(number)));
    const out = new Uint16Array(words.counts.reduce((sum, count, i) => sum + count * encoded[i]!.length, 0));
    let at = 0;
    for (const numbers of words.numbers()) {
      for (let i = 0; i < numbers.length; i++) {
        const tokens = encoded[numbers[i]!]!;
        for (let k = 0; k < tokens.length; k++) out[at++] = tokens[k]!;
      }
    }
    return out;
  }

  /** Decodes tokens. Invalid UTF-8, which a model may generate, becomes U+FFFD. */
  decode(tokens: ArrayLike<number>): string {
    const bytes = Array.from(tokens, (token) => this.#bytes[token]!).flatMap((one) => [...one]);
    // A model may generate a byte order mark. It is decoded like any other character.
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }

  /** Encodes a word: merges its pairs in the order in which they were learned. */
  #encodeWord(word: Uint8Array): number[] {
    let tokens = Array.from(word);
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

/** Reads a text whose tokens are byte pairs. */
export class WordReader implements TokenReader {
  readonly #words = new Words();
  readonly #vocabulary: number;

  /** @param vocabulary the number of tokens of a new tokenizer. */
  constructor(vocabulary: number) {
    this.#vocabulary = vocabulary;
  }

  add(characters: Uint32Array): void {
    this.#words.add(characters);
  }

  finish(vocabulary: Vocabulary | null): { tokenizer: Tokenizer; tokens: Tokens } {
    this.#words.end();
    const isOwn = vocabulary?.tokens === 'byte-pairs';
    const tokenizer = isOwn ? new BytePairs(vocabulary.pairs) : BytePairs.of(this.#words, this.#vocabulary);
    return { tokenizer, tokens: tokenizer.encodeWords(this.#words) };
  }
}

/**
 * The number of occurrences of each pair. A merge visits only the words that have the pair, so
 * thousands of pairs are learned in seconds.
 */
class PairCounts {
  readonly #words: readonly Word[];
  readonly #counts = new Map<number, number>();
  /** For each pair: the words that have it or had it before. */
  readonly #wordsOf = new Map<number, Set<number>>();
  /**
   * Pairs by number of occurrences, as a binary heap. A pair may have several entries. An entry is
   * out of date if its number differs from the pair's current number.
   */
  readonly #heap: { key: number; count: number }[] = [];

  constructor(words: readonly Word[]) {
    this.#words = words;
    for (const index of words.keys()) this.#add(index, 1);
    for (const [key, count] of this.#counts) this.#push({ key, count });
  }

  /**
   * Returns the most frequent pair, or `null` if no pair occurs twice. If several pairs are equally
   * frequent, the pair with the lowest tokens is returned.
   */
  mostFrequent(): [number, number] | null {
    for (let top = this.#heap[0]; top; top = this.#heap[0]) {
      const count = this.#counts.get(top.key) ?? 0;
      if (count === top.count) return count > 1 ? [Math.floor(top.key / KEY), top.key % KEY] : null;
      this.#pop();
    }
    return null;
  }

  /** Replaces a pair by `token` in all words. */
  merge([left, right]: readonly [number, number], token: number): void {
    const changed = new Set<number>();
    for (const index of this.#wordsOf.get(keyOf(left, right)) ?? []) {
      const word = this.#words[index]!;
      const merged = merge(word.tokens, left, right, token);
      if (merged === word.tokens) continue;
      for (const key of this.#add(index, -1)) changed.add(key);
      word.tokens = merged;
      for (const key of this.#add(index, 1)) changed.add(key);
    }
    for (const key of changed) this.#push({ key, count: this.#counts.get(key)! });
  }

  /** Adds the pairs of a word to the counts, or subtracts them. Returns the keys of the pairs. */
  #add(index: number, sign: 1 | -1): number[] {
    const { tokens, count } = this.#words[index]!;
    const keys: number[] = [];
    for (let i = 0; i + 1 < tokens.length; i++) {
      const key = keyOf(tokens[i]!, tokens[i + 1]!);
      keys.push(key);
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + sign * count);
      const words = this.#wordsOf.get(key);
      if (words) words.add(index);
      else this.#wordsOf.set(key, new Set([index]));
    }
    return keys;
  }

  #push(entry: { key: number; count: number }): void {
    const heap = this.#heap;
    let at = heap.push(entry) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(heap[at]!, heap[parent]!)) return;
      [heap[at], heap[parent]] = [heap[parent]!, heap[at]!];
      at = parent;
    }
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    heap[0] = last;
    for (let at = 0; ;) {
      const [left, right] = [2 * at + 1, 2 * at + 2];
      let first = at;
      if (left < heap.length && isBefore(heap[left]!, heap[first]!)) first = left;
      if (right < heap.length && isBefore(heap[right]!, heap[first]!)) first = right;
      if (first === at) return;
      [heap[at], heap[first]] = [heap[first]!, heap[at]!];
      at = first;
    }
  }
}

function isBefore(a: { key: number; count: number }, b: { key: number; count: number }): boolean {
  return a.count > b.count || (a.count === b.count && a.key < b.key);
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
