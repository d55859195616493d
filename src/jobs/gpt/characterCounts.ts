/** Numbers the characters of a text, and counts which character follows which. */
import { MAX_UTF16_UNIT_CODE } from './text.ts';

/** Number of Unicode code points. */
const CODES = 0x110000;
/**
 * Pairs of characters with numbers below this are counted in an array, other pairs in a map. Even
 * in a Chinese text, most characters have lower numbers. A power of two would be slower, because
 * counts with the same second character would share few lines of the processor's cache.
 */
const COMMON = 2000;

export class CharacterCounts {
  /** The characters as code points, in the order in which they appeared first. */
  readonly codes: number[] = [];
  /** Number of characters that {@link add} has counted. */
  counted = 0;
  /** Number of their code units. */
  units = 0;
  /** For each code point: the position in {@link codes} plus 1, or 0 if it has not appeared. */
  readonly #numbers = new Int32Array(CODES);
  /** The result of {@link add}. */
  #added = new Int32Array();
  /** Number of the character that was counted last; -1 at the start. */
  #last = -1;
  /** For -1 and each number below {@link COMMON}: how often each such number follows it. */
  readonly #commonPairs = new Uint32Array((COMMON + 1) * COMMON);
  readonly #otherPairs = new Map<number, number>();

  /**
   * Counts the next characters of the text. Returns their numbers. The array is valid until the
   * next call.
   *
   * @param characters code points.
   */
  add(characters: Uint32Array): Int32Array {
    if (this.#added.length < characters.length) this.#added = new Int32Array(characters.length);
    const [numbers, pairs, added] = [this.#numbers, this.#commonPairs, this.#added];
    let last = this.#last;
    let long = 0;
    for (let i = 0; i < characters.length; i++) {
      const code = characters[i]!;
      const number = (numbers[code] || this.#appear(code)) - 1;
      added[i] = number;
      if (code > MAX_UTF16_UNIT_CODE) long += 1;
      if (last < COMMON && number < COMMON) pairs[(last + 1) * COMMON + number]! += 1;
      else this.#otherPairs.set(keyOf(last, number), (this.#otherPairs.get(keyOf(last, number)) ?? 0) + 1);
      last = number;
    }
    this.#last = last;
    this.counted += characters.length;
    this.units += characters.length + long;
    return added.subarray(0, characters.length);
  }

  /** Returns the numbers of characters, which are not counted. */
  numbersOf(characters: Uint32Array): Int32Array {
    return Int32Array.from(characters, (code) => (this.#numbers[code] || this.#appear(code)) - 1);
  }

  /** Returns the different characters, in code point order. */
  different(): string {
    let all = '';
    for (const code of this.codes.toSorted((a, b) => a - b)) all += String.fromCodePoint(code);
    return all;
  }

  /**
   * Returns the mean loss of a bigram model in nats. The model uses the counts of the text, each
   * plus 1, so no pair has probability 0. The mean is over all characters of `test` except the
   * first.
   *
   * @param test the numbers of characters.
   */
  bigramLoss(test: Int32Array): number {
    const firsts = this.#firsts();
    let sum = 0;
    for (let i = 1; i < test.length; i++) {
      const [a, b] = [test[i - 1]!, test[i]!];
      const isCommon = a < COMMON && b < COMMON;
      const pairs = isCommon ? this.#commonPairs[(a + 1) * COMMON + b]! : (this.#otherPairs.get(keyOf(a, b)) ?? 0);
      sum -= Math.log((pairs + 1) / (firsts[a]! + this.codes.length));
    }
    return test.length < 2 ? 0 : sum / (test.length - 1);
  }

  /** Returns how often each character is followed by another one. */
  #firsts(): Float64Array {
    const firsts = new Float64Array(this.codes.length);
    const common = Math.min(COMMON, this.codes.length);
    for (let a = 0; a < common; a++) {
      const row = this.#commonPairs.subarray((a + 1) * COMMON, (a + 2) * COMMON);
      firsts[a] = row.reduce((sum, count) => sum + count, 0);
    }
    for (const [key, count] of this.#otherPairs) firsts[Math.floor(key / CODES)]! += count;
    return firsts;
  }

  /** Numbers a character that has not appeared before. Returns its number plus 1. */
  #appear(code: number): number {
    return (this.#numbers[code] = this.codes.push(code));
  }
}

function keyOf(first: number, second: number): number {
  return first * CODES + second;
}
