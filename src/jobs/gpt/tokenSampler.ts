/**
 * Samples tokens from a language model on the CPU. Tokens are generated one after the other, so a
 * GPU would have little parallel work and a readback for each token. Keys and values of each layer
 * are cached, so each token needs only two operations per parameter.
 */
import { createRng } from '../../util/rng.ts';
import { NORM_EPSILON, EXPANSION, shapesOf, type NetworkSize } from './shapes.ts';

interface LayerWeights {
  norm1: Float32Array;
  attend: Float32Array;
  project: Float32Array;
  norm2: Float32Array;
  expand: Float32Array;
  contract: Float32Array;
}

interface Seen {
  keys: Float32Array;
  values: Float32Array;
}

export class TokenSampler {
  readonly #size: NetworkSize;
  readonly #choices: number;
  readonly #embedding: Float32Array;
  readonly #positions: Float32Array;
  readonly #layers: readonly LayerWeights[];
  readonly #norm: Float32Array;
  readonly #seen: readonly Seen[];
  /** Tokens in the context window. */
  #tokens: number[] = [];

  /**
   * @param tokens number of tokens in the vocabulary. The matrix may have more rows, which do not
   * correspond to tokens.
   * @param weights all variables of the network, one after the other; they must not change.
   */
  constructor(size: NetworkSize, tokens: number, weights: Float32Array) {
    const { layers, width, context } = size;
    this.#size = size;
    this.#choices = tokens;
    let at = 0;
    const parts = shapesOf(size).map((shape) => {
      const length = shape.reduce((all, side) => all * side, 1);
      return weights.subarray(at, (at += length));
    });
    this.#embedding = parts[0]!;
    this.#positions = parts[1]!;
    this.#layers = Array.from({ length: layers }, (_, layer) => {
      const [norm1, attend, project, norm2, expand, contract] = parts.slice(2 + 6 * layer);
      return {
        norm1: norm1!,
        attend: attend!,
        project: project!,
        norm2: norm2!,
        expand: expand!,
        contract: contract!,
      };
    });
    this.#norm = parts.at(-1)!;
    this.#seen = this.#layers.map(() => ({
      keys: new Float32Array(context * width),
      values: new Float32Array(context * width),
    }));
  }

  /**
   * Reads `prompt`, then samples and yields one token after the other.
   *
   * @param prompt at least one token.
   * @param temperature If it is above 1, unlikely tokens become more likely. If it is below 1, they
   *   become less likely. If it is 0, the most likely token is always chosen.
   */
  *sample(
    prompt: ArrayLike<number>,
    { temperature, seed }: { temperature: number; seed: number },
  ): Generator<number, never> {
    const rng = createRng(seed);
    let logits = new Float32Array();
    for (let i = 0; i < prompt.length; i++) logits = this.#read(prompt[i]!);
    for (;;) {
      const token = draw(logits, temperature, rng.next());
      yield token;
      logits = this.#read(token);
    }
  }

  /** Appends `token` and returns the logits of the next token. */
  #read(token: number): Float32Array<ArrayBuffer> {
    const { context } = this.#size;
    if (this.#tokens.length === context) {
      // The window is full, so its first half is dropped. Positions are relative to the start of
      // the window, so the second half is computed again.
      const rest = this.#tokens.slice(context >> 1);
      this.#tokens = [];
      for (const one of rest) this.#forward(one);
    }
    return this.#forward(token);
  }

  #forward(token: number): Float32Array<ArrayBuffer> {
    const { width } = this.#size;
    const place = this.#tokens.length;
    this.#tokens.push(token);
    const x = new Float32Array(width);
    for (let i = 0; i < width; i++) x[i] = this.#embedding[token * width + i]! + this.#positions[place * width + i]!;
    for (const [i, layer] of this.#layers.entries()) {
      addTo(x, this.#attend(normalize(x, layer.norm1), layer, this.#seen[i]!, place));
      const inner = product(normalize(x, layer.norm2), layer.expand, EXPANSION * width);
      for (let k = 0; k < inner.length; k++) if (inner[k]! < 0) inner[k] = 0;
      addTo(x, product(inner, layer.contract, width));
    }
    const last = normalize(x, this.#norm);
    const logits = new Float32Array(this.#choices);
    for (let row = 0; row < logits.length; row++) logits[row] = dot(last, 0, this.#embedding, row * width, width);
    return logits;
  }

  #attend(x: Float32Array, { attend, project }: LayerWeights, { keys, values }: Seen, place: number): Float32Array {
    const { width, heads } = this.#size;
    const depth = width / heads;
    const all = product(x, attend, 3 * width);
    keys.set(all.subarray(width, 2 * width), place * width);
    values.set(all.subarray(2 * width), place * width);
    const taken = new Float32Array(width);
    const weights = new Float32Array(place + 1);
    for (let head = 0; head < width; head += depth) {
      for (let at = 0; at <= place; at++) {
        weights[at] = dot(all, head, keys, at * width + head, depth) / Math.sqrt(depth);
      }
      softmax(weights, 1);
      for (let at = 0; at <= place; at++) {
        const weight = weights[at]!;
        for (let i = 0; i < depth; i++) taken[head + i]! += weight * values[at * width + head + i]!;
      }
    }
    return product(taken, project, width);
  }
}

/** Returns the product of the vector `x` and a matrix in row-major order. */
function product(x: Float32Array, matrix: Float32Array, columns: number): Float32Array {
  const out = new Float32Array(columns);
  for (let row = 0; row < x.length; row++) {
    const factor = x[row]!;
    // After relu, about half of the elements are 0, so this saves time.
    if (factor === 0) continue;
    const from = row * columns;
    for (let i = 0; i < columns; i++) out[i]! += factor * matrix[from + i]!;
  }
  return out;
}

function dot(a: Float32Array, fromA: number, b: Float32Array, fromB: number, length: number): number {
  let sum = 0;
  for (let i = 0; i < length; i++) sum += a[fromA + i]! * b[fromB + i]!;
  return sum;
}

function normalize(x: Float32Array, scale: Float32Array): Float32Array {
  const factor = 1 / Math.sqrt(dot(x, 0, x, 0, x.length) / x.length + NORM_EPSILON);
  return x.map((value, i) => value * factor * scale[i]!);
}

function addTo(sum: Float32Array, values: Float32Array): void {
  for (let i = 0; i < sum.length; i++) sum[i]! += values[i]!;
}

/** Replaces logits with the softmax of `scale` times the logits. */
function softmax(values: Float32Array, scale: number): void {
  const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] = Math.exp((values[i]! - most) * scale);
  for (let i = 0; i < values.length; i++) values[i]! /= sum;
}

/**
 * Chooses a token.
 *
 * @param chance a random number in [0, 1)
 */
function draw(logits: Float32Array, temperature: number, chance: number): number {
  if (temperature === 0) return logits.indexOf(logits.reduce((a, b) => Math.max(a, b), -Infinity));
  const probabilities = logits.slice();
  softmax(probabilities, 1 / temperature);
  let rest = chance;
  for (let token = 0; token < probabilities.length; token++) {
    rest -= probabilities[token]!;
    if (rest < 0) return token;
  }
  // Because of rounding errors, the probabilities may sum to less than `chance`.
  return probabilities.length - 1;
}
