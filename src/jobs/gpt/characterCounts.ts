/** Numbers the characters of a text, and counts which character follows which. */

/** Number of Unicode code points. */
const CODES = 0x110000;
/** The first and the last code unit that begins a surrogate pair. */
const [FIRST_HIGH, LAST_HIGH] = [0xd800, 0xdbff];
/**
 * Pairs of characters with numbers below this are counted in an array, other pairs in a map. Even
 * in a Chinese text, most characters have lower numbers. A power of two would be slower, because
 * counts with the same second character would share few lines of the processor's cache.
 */
const COMMON = 2000;

export class CharacterCounts {
  /** For each code point: the number of the character plus 1, or 0 if it has not appeared. */
  readonly #numbers = new Uint32Array(CODES);
  /** The code points of the characters, by their numbers. */
  readonly codes: number[] = [];
  /** Number of characters that {@link count} has counted. */
  counted = 0;
  #scratch = new Uint32Array();
  /** Number of the character that was counted last; -1 at the start. */
  #last = -1;
  /** How often each character is followed by another one. */
  readonly #firsts = new Uint32Array(CODES);
  readonly #commonPairs = new Uint32Array(COMMON * COMMON);
  readonly #otherPairs = new Map<number, number>();

  /**
   * Returns the numbers of the characters of a text. Characters are numbered in the order in which
   * they appear first. The returned array is valid until the next call.
   */
  numbersOf(text: string): Uint32Array {
    if (this.#scratch.length < text.length) this.#scratch = new Uint32Array(text.length);
    const [numbers, out] = [this.#numbers, this.#scratch];
    let length = 0;
    for (let at = 0; at < text.length; at++) {
      let code = text.charCodeAt(at);
      if (code >= FIRST_HIGH && code <= LAST_HIGH) {
        code = text.codePointAt(at)!;
        if (code > LAST_HIGH) at += 1;
      }
      if (numbers[code] === 0) numbers[code] = this.codes.push(code);
      out[length++] = numbers[code]! - 1;
    }
    return out.subarray(0, length);
  }

  /** Counts the pairs of the next characters of the text. */
  count(numbers: Uint32Array): void {
    const [firsts, pairs] = [this.#firsts, this.#commonPairs];
    let last = this.#last;
    for (let i = 0; i < numbers.length; i++) {
      const number = numbers[i]!;
      if (last >= 0) {
        firsts[last]! += 1;
        if (last < COMMON && number < COMMON) pairs[last * COMMON + number]! += 1;
        else this.#countOther(last * CODES + number);
      }
      last = number;
    }
    this.#last = last;
    this.counted += numbers.length;
  }

  #countOther(key: number): void {
    this.#otherPairs.set(key, (this.#otherPairs.get(key) ?? 0) + 1);
  }

  /**
   * Returns the mean loss of a bigram model in nats. The model uses the counts of the text, each
   * plus 1, so no pair has probability 0. The mean is over all characters of `test` except the
   * first.
   */
  bigramLoss(test: Uint32Array): number {
    let sum = 0;
    for (let i = 1; i < test.length; i++) {
      const [a, b] = [test[i - 1]!, test[i]!];
      const pairs =
        a < COMMON && b < COMMON ? this.#commonPairs[a * COMMON + b]! : (this.#otherPairs.get(a * CODES + b) ?? 0);
      sum -= Math.log((pairs + 1) / (this.#firsts[a]! + this.codes.length));
    }
    return test.length < 2 ? 0 : sum / (test.length - 1);
  }

  /** Returns the different characters, in code point order. */
  different(): string {
    let all = '';
    for (const code of this.codes.toSorted((a, b) => a - b)) all += String.fromCodePoint(code);
    return all;
  }
}
