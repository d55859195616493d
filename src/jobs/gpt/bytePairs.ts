/**
 * Byte-pair encoding: starts with one token for each byte and repeatedly merges the most frequent
 * pair of tokens (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units",
 * ACL 2016; on bytes as in GPT-2). A pair never crosses the end of a word. The space before a word
 * belongs to the word.
 */
import { BYTE_TOKEN_COUNT, type Vocabulary } from '../../spec/vocabulary.ts';
import { systemClock, EventLoopYielder, type Clock } from '../../util/clock.ts';
import { codePointsOf } from './text.ts';
import type { Tokenizer, TokenReader, Tokens } from './tokenizer.ts';
import { WordCounts } from './wordCounts.ts';

/** Longest time without a yield, ms. */
const STRETCH_MS = 50;

export class BytePairTokenizer implements Tokenizer {
  /** For each learned token: the two tokens that it replaces. Token 256 has index 0. */
  readonly #pairs: readonly (readonly [left: number, right: number])[];
  /** Maps the {@link keyOf key} of each pair to the token that replaces the pair. */
  readonly #tokens: ReadonlyMap<number, number>;
  readonly #bytes: readonly Uint8Array[];

  constructor(pairs: readonly (readonly [left: number, right: number])[]) {
    this.#pairs = pairs;
    this.#tokens = new Map(pairs.map(([left, right], i) => [keyOf(left, right), BYTE_TOKEN_COUNT + i]));
    const bytes = Array.from({ length: BYTE_TOKEN_COUNT }, (_, byte) => Uint8Array.of(byte));
    for (const [left, right] of pairs) bytes.push(Uint8Array.of(...bytes[left]!, ...bytes[right]!));
    this.#bytes = bytes;
  }

  /**
   * Learns pairs from the words of a text until there are `vocabulary` tokens or no pair occurs
   * twice.
   */
  static async of(words: WordCounts, vocabulary: number, clock: Clock = systemClock): Promise<BytePairTokenizer> {
    const yielder = new EventLoopYielder(clock, STRETCH_MS);
    const counts = await PairCounts.of(words, yielder);
    const pairs: [number, number][] = [];
    while (BYTE_TOKEN_COUNT + pairs.length < vocabulary) {
      const best = counts.mostFrequent();
      if (best === null) break;
      counts.merge(best, BYTE_TOKEN_COUNT + pairs.length);
      pairs.push(best);
      await yielder.yieldIfDue();
    }
    return new BytePairTokenizer(pairs);
  }

  get size(): number {
    return BYTE_TOKEN_COUNT + this.#pairs.length;
  }

  get vocabulary(): Vocabulary {
    return { tokens: 'byte-pairs', pairs: this.#pairs.map(([left, right]) => [left, right]) };
  }

  encode(text: string): Uint16Array {
    const words = new WordCounts();
    words.add(codePointsOf(text));
    words.end();
    return joined(
      words,
      words.counts.map((_, number) => this.#encodeWord(words.bytesOf(number))),
    );
  }

  async encodeWords(words: WordCounts, clock: Clock = systemClock): Promise<Uint16Array> {
    const yielder = new EventLoopYielder(clock, STRETCH_MS);
    const encoded: number[][] = [];
    for (const number of words.counts.keys()) {
      encoded.push(this.#encodeWord(words.bytesOf(number)));
      await yielder.yieldIfDue();
    }
    return joined(words, encoded);
  }

  /** Decodes tokens. Invalid UTF-8, which a model may generate, becomes U+FFFD. */
  decode(tokens: ArrayLike<number>): string {
    const bytes = Array.from(tokens, (token) => this.#bytes[token]!).flatMap((one) => [...one]);
    // A model may generate a byte order mark. It is decoded like any other character.
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }

  /** Encodes a word: merges its pairs in the order in which they were learned. */
  #encodeWord(word: Uint8Array): number[] {
    const tokens = Array.from(word);
    /** For each token: the token that replaces it and the next one; `Infinity` if none does. */
    const merged = tokens.map((_, i) => this.#merged(tokens, i));
    for (;;) {
      let first = Infinity;
      for (let i = 0; i < merged.length; i++) if (merged[i]! < first) first = merged[i]!;
      if (first === Infinity) return tokens;
      let length = 0;
      for (let i = 0; i < tokens.length; i++, length++) {
        const isMerged = merged[i] === first;
        tokens[length] = isMerged ? first : tokens[i]!;
        // The pair that begins with this token has changed if the next token is merged.
        merged[length] = isMerged ? -1 : merged[i]!;
        if (isMerged) i++;
      }
      tokens.length = merged.length = length;
      for (let i = 0; i < length; i++) {
        if (merged[i] === -1 || merged[i + 1] === -1) merged[i] = this.#merged(tokens, i);
      }
    }
  }

  #merged(tokens: readonly number[], at: number): number {
    return (at + 1 < tokens.length && this.#tokens.get(keyOf(tokens[at]!, tokens[at + 1]!))) || Infinity;
  }
}

/** Reads a text whose tokens are byte pairs. */
export class BytePairTokenReader implements TokenReader {
  readonly #words = new WordCounts();
  readonly #vocabulary: number;

  /** @param vocabulary the number of tokens of a new tokenizer. */
  constructor(vocabulary: number) {
    this.#vocabulary = vocabulary;
  }

  add(characters: Uint32Array): void {
    this.#words.add(characters);
  }

  async finish(vocabulary: Vocabulary | null): Promise<{ tokenizer: Tokenizer; tokens: Tokens }> {
    this.#words.end();
    const isOwn = vocabulary?.tokens === 'byte-pairs';
    const tokenizer = isOwn
      ? new BytePairTokenizer(vocabulary.pairs)
      : await BytePairTokenizer.of(this.#words, this.#vocabulary);
    return { tokenizer, tokens: await tokenizer.encodeWords(this.#words) };
  }
}

interface Pair {
  readonly key: number;
  count: number;
  /** The positions where the pair is or was before, in ascending order. */
  readonly positions: number[];
}

/** Marks bytes at which no token begins or ends. */
const NO_TOKEN = -1;

/**
 * The occurrences of each pair. A merge visits only the occurrences of its pair and the tokens
 * beside them, so thousands of pairs are learned in seconds, also from long words.
 */
class PairCounts {
  /**
   * The different words one after the other, with a {@link NO_TOKEN} after each of them. A token is
   * at the positions of its first and its last byte.
   */
  readonly #tokens: Int32Array;
  /** For each position: how often its word occurs. */
  readonly #occurrences: Uint32Array;
  #end = 0;
  /** Number of bytes of each token. */
  readonly #lengths = Array.from({ length: BYTE_TOKEN_COUNT }, () => 1);
  readonly #pairs = new Map<number, Pair>();
  /**
   * Pairs by number of occurrences, as a binary heap. A pair may have several entries. An entry is
   * out of date if its number differs from the pair's current number.
   */
  readonly #heap: { key: number; count: number }[] = [];

  private constructor(words: WordCounts) {
    this.#tokens = new Int32Array(words.bytes + words.counts.length).fill(NO_TOKEN);
    this.#occurrences = new Uint32Array(this.#tokens.length);
  }

  static async of(words: WordCounts, yielder: EventLoopYielder): Promise<PairCounts> {
    const counts = new PairCounts(words);
    for (const [number, count] of words.counts.entries()) {
      counts.#add(words.bytesOf(number), count);
      await yielder.yieldIfDue();
    }
    for (const pair of counts.#pairs.values()) counts.#push(pair);
    return counts;
  }

  #add(word: Uint8Array, count: number): void {
    const [start, end] = [this.#end, this.#end + word.length];
    this.#tokens.set(word, start);
    this.#occurrences.fill(count, start, end);
    for (let at = start; at + 1 < end; at++) this.#count(this.#tokens[at]!, this.#tokens[at + 1]!, at);
    this.#end = end + 1;
  }

  /**
   * Returns the most frequent pair, or `null` if no pair occurs twice. If several pairs are equally
   * frequent, the pair with the lowest tokens is returned.
   */
  mostFrequent(): [number, number] | null {
    for (let top = this.#heap[0]; top; top = this.#heap[0]) {
      const count = this.#pairs.get(top.key)?.count;
      if (count === top.count) return count > 1 ? [Math.floor(top.key / KEY), top.key % KEY] : null;
      this.#pop();
    }
    return null;
  }

  /** Replaces a pair by `token` in all words. */
  merge([left, right]: readonly [number, number], token: number): void {
    const [tokens, lengths, key] = [this.#tokens, this.#lengths, keyOf(left, right)];
    const changed = new Set<Pair>();
    const length = (lengths[token] = lengths[left]! + lengths[right]!);
    for (const at of this.#pairs.get(key)!.positions) {
      const middle = at + lengths[left]!;
      if (tokens[at] !== left || tokens[middle] !== right) continue;
      const end = at + length;
      const [before, after] = [tokens[at - 1] ?? NO_TOKEN, tokens[end]!];
      tokens[middle - 1] = tokens[middle] = NO_TOKEN;
      tokens[at] = tokens[end - 1] = token;
      if (before !== NO_TOKEN) {
        const start = at - lengths[before]!;
        changed.add(this.#discount(before, left, at));
        changed.add(this.#count(before, token, start));
      }
      if (after !== NO_TOKEN) {
        changed.add(this.#discount(right, after, at));
        changed.add(this.#count(token, after, at));
      }
    }
    this.#pairs.delete(key);
    for (const pair of changed) this.#push(pair);
  }

  /** Counts a pair whose first token is at position `at`. */
  #count(left: number, right: number, at: number): Pair {
    const key = keyOf(left, right);
    let pair = this.#pairs.get(key);
    if (pair === undefined) this.#pairs.set(key, (pair = { key, count: 0, positions: [] }));
    pair.count += this.#occurrences[at]!;
    pair.positions.push(at);
    return pair;
  }

  /** Subtracts an occurrence of a pair in the word at position `at`. */
  #discount(left: number, right: number, at: number): Pair {
    const pair = this.#pairs.get(keyOf(left, right))!;
    pair.count -= this.#occurrences[at]!;
    return pair;
  }

  #push({ key, count }: Pair): void {
    const heap = this.#heap;
    let at = heap.push({ key, count }) - 1;
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

/** Returns the tokens of a text, of which `encoded` has those of each different word. */
function joined(words: WordCounts, encoded: readonly (readonly number[])[]): Uint16Array {
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

/** Factor of {@link keyOf}; it is larger than any token. */
const KEY = 0x10000;

function keyOf(left: number, right: number): number {
  return left * KEY + right;
}
