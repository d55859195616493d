/**
 * The layers of the language model on the CPU, for one token at a time. Keys and values of earlier
 * tokens are cached, so a token needs only two operations per parameter. A layer knows only its own
 * weights, so the layers of a model may be on several ranks. Layers have the same names as in
 * `gptNetworkLayers`.
 */
import { FEED_FORWARD_EXPANSION, RMS_NORM_EPSILON, type GptNetworkSize } from './shapes.ts';

/**
 * Computes the output of a layer for the token at `place` in the context window. Tokens come in the
 * order of their places; a window begins again at place 0. `x` may be changed.
 */
export type SingleTokenLayer = (x: Float32Array, place: number) => Float32Array;

type Weights = readonly Float32Array[];

/** Returns the output of the layer `embedding` for a token. */
export function embedToken(token: number, place: number, [table, positions]: Weights, width: number): Float32Array {
  const x = new Float32Array(width);
  for (let i = 0; i < width; i++) x[i] = table![token * width + i]! + positions![place * width + i]!;
  return x;
}

/**
 * Returns the layer `name`, which is not the embedding.
 *
 * @param weights the layer's variables. They are read in every call.
 */
export function createTokenLayer(name: string, weights: Weights, size: GptNetworkSize): SingleTokenLayer {
  if (name === 'norm') return (x) => normalize(x, weights[0]!);
  return name.endsWith('.attention') ? attention(weights, size) : feedForward(weights, size);
}

/**
 * Returns the logits of the next token.
 *
 * @param x output of the last layer.
 * @param table the shared matrix. It may have more rows than the vocabulary has tokens.
 * @param tokens number of tokens in the vocabulary.
 */
export function tokenLogits(x: Float32Array, table: Float32Array, tokens: number): Float32Array<ArrayBuffer> {
  const logits = new Float32Array(tokens);
  for (let row = 0; row < tokens; row++) logits[row] = dot(x, 0, table, row * x.length, x.length);
  return logits;
}

/** Replaces logits with the softmax of `scale` times the logits. */
export function softmaxInPlace(values: Float32Array, scale: number): void {
  const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] = Math.exp((values[i]! - most) * scale);
  for (let i = 0; i < values.length; i++) values[i]! /= sum;
}

function feedForward([norm, expand, contract]: Weights, { width }: GptNetworkSize): SingleTokenLayer {
  return (x) => {
    const inner = product(normalize(x, norm!), expand!, FEED_FORWARD_EXPANSION * width);
    for (let k = 0; k < inner.length; k++) if (inner[k]! < 0) inner[k] = 0;
    return addTo(x, product(inner, contract!, width));
  };
}

function attention([norm, attend, project]: Weights, { width, heads, context }: GptNetworkSize): SingleTokenLayer {
  const keys = new Float32Array(context * width);
  const values = new Float32Array(context * width);
  const depth = width / heads;
  return (x, place) => {
    const all = product(normalize(x, norm!), attend!, 3 * width);
    keys.set(all.subarray(width, 2 * width), place * width);
    values.set(all.subarray(2 * width), place * width);
    const taken = new Float32Array(width);
    const shares = new Float32Array(place + 1);
    for (let head = 0; head < width; head += depth) {
      for (let at = 0; at <= place; at++) {
        shares[at] = dot(all, head, keys, at * width + head, depth) / Math.sqrt(depth);
      }
      softmaxInPlace(shares, 1);
      for (let at = 0; at <= place; at++) {
        const share = shares[at]!;
        for (let i = 0; i < depth; i++) taken[head + i]! += share * values[at * width + head + i]!;
      }
    }
    return addTo(x, product(taken, project!, width));
  };
}

/** Returns the product of the vector `x` and a matrix in row-major order. */
function product(x: Float32Array, matrix: Float32Array, columns: number): Float32Array {
  const out = new Float32Array(columns);
  for (let row = 0; row < x.length; row++) {
    const factor = x[row]!;
    // After ReLU, about half of the elements are 0. Skipping them saves time.
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
  const factor = 1 / Math.sqrt(dot(x, 0, x, 0, x.length) / x.length + RMS_NORM_EPSILON);
  return x.map((value, i) => value * factor * scale[i]!);
}

function addTo(sum: Float32Array, values: Float32Array): Float32Array {
  for (let i = 0; i < sum.length; i++) sum[i]! += values[i]!;
  return sum;
}
