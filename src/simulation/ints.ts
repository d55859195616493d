/**
 * A list of int32 that grows. It can hold millions of numbers without an object for each of them.
 */
export class Ints {
  #values = new Int32Array(1024);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(value: number): void {
    if (this.#length === this.#values.length) {
      const grown = new Int32Array(2 * this.#values.length);
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values[this.#length++] = value;
  }

  /** All values. They are not copied. */
  get values(): Int32Array {
    return this.#values.subarray(0, this.#length);
  }
}
