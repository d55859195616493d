/**
 * Byte-pair tokens: every byte, and then again and again the pair of tokens that the text has most
 * often, made one (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units",
 * ACL 2016; on bytes as GPT-2 has it). Pairs do not reach over the end of a word, which takes the
 * space before it along.
 */
import { BYTES, type Vocabulary } from '../../spec/vocabulary.ts';
import type { Tokenizer } from './tokenizer.ts';

/** A word with the space before it, or what else there is between words. */
const WORD = / ?[^\s]+|\s/gu;

/** A different word of the text, as tokens so far, and how often it is there. */
interface Word {
  tokens: number[];
  count: number;
}

export class BytePairs implements Tokenizer {
  /** What each token above the bytes is made of. */
  readonly #pairs: readonly (readonly [left: number, right: number])[];
  /** The token of a pair. */
  readonly #tokens: ReadonlyMap<number, number>;
  /** Of each token. */
  readonly #bytes: readonly Uint8Array[];

  constructor(pairs: readonly (readonly [left: number, right: number])[]) {
    this.#pairs = pairs;
    this.#tokens = new Map(pairs.map(([left, right], i) => [keyOf(left, right), BYTES + i]));
    const bytes = Array.from({ length: BYTES }, (_, byte) => Uint8Array.of(byte));
    for (const [left, right] of pairs) bytes.push(Uint8Array.of(...bytes[left]!, ...bytes[right]!));
    this.#bytes = bytes;
  }

  /**
   * Learned from a text's `pieces`: as many as `vocabulary` has place for, or fewer where no pair
   * is there twice.
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

  /** Bytes that are no character, as a model may write them, show as the sign for that. */
  decode(tokens: ArrayLike<number>): string {
    const bytes = Array.from(tokens, (token) => this.#bytes[token]!).flatMap((one) => [...one]);
    // A byte-order mark that was written is a character like others.
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }

  /** Pairs are made in the order in which they were learned. */
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

/** Cut where a word cannot go on: before a space, or what else lies between words. */
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

/** Of those as frequent, that of the lowest tokens; `null` where none is there twice. */
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

/** `tokens` with each `left` before a `right` made one. */
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

/** Above all tokens. */
const KEY = 0x10000;

function keyOf(left: number, right: number): number {
  return left * KEY + right;
}

function bytesOf(text: string): number[] {
  return [...new TextEncoder().encode(text)];
}
