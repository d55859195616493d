/**
 * Loops over flat arrays in WebAssembly, about three times as fast as in JavaScript, with the same
 * bits.
 */
import { compileSimd } from '../util/simdModule.ts';
import { MODULE } from './moduleBytes.ts';

/** Coefficients of a step: see `adam` in `rules.ts`. */
export interface AdamCoefficients {
  beta1: number;
  take1: number;
  beta2: number;
  take2: number;
  stepSize: number;
  epsilon: number;
  keep: number;
  decay: number;
  squaresFirst: boolean;
}

type Adam = (
  params: number,
  gradient: number,
  mean: number,
  square: number,
  count: number,
  ...coefficients: number[]
) => void;

/**
 * Elements that are copied to the module's memory at a time. With fewer elements, calls and views
 * take longer; with more elements, nothing is gained.
 */
const CHUNK = 4096;
/** With fewer elements, calls of the module take more time than they save. */
const FEWEST = 512;
/** With fewer chunks, copies to shared memory take more time than threads save. */
const FEWEST_CHUNKS = 4;
const PAGE_BYTES = 65_536;

/** Four arrays in the module's memory, and their addresses. */
interface Part {
  arrays: readonly Float32Array[];
  addresses: readonly [params: number, gradient: number, mean: number, square: number];
}

/** The module's update, and parts of its memory. */
export interface AdamUpdater {
  /** Begins to update the arrays at these addresses. */
  adam: Adam;
  /** Waits until the update has ended. */
  finish: () => void;
  /** While one part is updated, the other one is written and read. */
  parts: readonly [Part, Part];
  /** Length of the arrays. */
  chunk: number;
}

interface Vectors extends AdamUpdater {
  divide: (values: number, count: number, by: number) => void;
}

let vectors: Vectors | null | undefined;
let threadedUpdater: () => AdamUpdater | null = () => null;

/** From now on, the result of `updater` updates large arrays, unless the result is `null`. */
export function setAdamUpdater(updater: () => AdamUpdater | null): void {
  threadedUpdater = updater;
}

/** Returns `null` if there are too few elements, or if the browser cannot run the module. */
function vectorsFor(count: number): Vectors | null {
  if (count < FEWEST) return null;
  if (vectors === undefined) vectors = openVectors();
  return vectors;
}

function updaterFor(count: number): AdamUpdater | null {
  const threaded = threadedUpdater();
  return threaded !== null && count >= FEWEST_CHUNKS * threaded.chunk ? threaded : vectorsFor(count);
}

function openVectors(): Vectors | null {
  const compiled = compileSimd(MODULE);
  if (compiled === null) return null;
  const pages = Math.ceil((VECTOR_PART_BYTES * CHUNK) / PAGE_BYTES);
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
  const { exports } = new WebAssembly.Instance(compiled, { env: { memory } });
  return {
    adam: exports['adam'] as unknown as Adam,
    finish: () => {},
    divide: exports['divide'] as unknown as Vectors['divide'],
    ...vectorParts(memory, 0, CHUNK),
  };
}

/** Bytes of {@link vectorParts} for each element of a chunk. */
export const VECTOR_PART_BYTES = 2 * 4 * Float32Array.BYTES_PER_ELEMENT;

/** Returns two parts with arrays of `chunk` elements, from `address` on. */
export function vectorParts(
  memory: WebAssembly.Memory,
  address: number,
  chunk: number,
): Pick<AdamUpdater, 'parts' | 'chunk'> {
  const arrayBytes = chunk * Float32Array.BYTES_PER_ELEMENT;
  const partAt = (start: number): Part => {
    const addresses = [0, 1, 2, 3].map((i) => start + i * arrayBytes) as unknown as Part['addresses'];
    return { addresses, arrays: addresses.map((at) => new Float32Array(memory.buffer, at, chunk)) };
  };
  return { parts: [partAt(address), partAt(address + 4 * arrayBytes)], chunk };
}

/**
 * Updates the elements from `start` to `end` - 1 of the arrays: parameters, gradient, mean and mean
 * square. Returns false, and changes nothing, if the browser cannot run the module or there are few
 * elements.
 */
export function updateAdamWithVectors(
  arrays: readonly [params: Float32Array, gradient: Float32Array, mean: Float32Array, square: Float32Array],
  start: number,
  end: number,
  c: AdamCoefficients,
): boolean {
  const found = updaterFor(end - start);
  if (found === null) return false;
  const { adam, finish, parts, chunk } = found;
  const { beta1, take1, beta2, take2, stepSize, epsilon, keep, decay } = c;
  const copyBack = (part: Part, at: number): void => {
    finish();
    const count = Math.min(chunk, end - at);
    for (const [i, array] of arrays.entries()) if (i !== 1) array.set(part.arrays[i]!.subarray(0, count), at);
  };
  let before: [Part, at: number] | null = null;
  for (let at = start; at < end; at += chunk) {
    const part: Part = parts[before?.[0] === parts[0] ? 1 : 0];
    const next = Math.min(end, at + chunk);
    for (const [i, array] of arrays.entries()) part.arrays[i]!.set(array.subarray(at, next));
    if (before) copyBack(...before);
    adam(
      ...([...part.addresses, next - at, beta1, take1, beta2, take2] as const),
      ...[stepSize, epsilon, keep, decay, c.squaresFirst ? 1 : 0],
    );
    before = [part, at];
  }
  if (before) copyBack(...before);
  return true;
}

/**
 * Divides all `values` in place by `by`; does nothing if `by` is 0. IEEE division returns the same
 * bits on every machine.
 */
export function divideVector(values: Float32Array, by: number): void {
  if (!(by > 0) || by === 1) return;
  // If `by` is not a float32 number, the quotient needs float64.
  const found = Math.fround(by) === by ? vectorsFor(values.length) : null;
  if (found === null) {
    for (let i = 0; i < values.length; i++) values[i]! /= by;
    return;
  }
  const { divide: divideInModule, parts, chunk } = found;
  const [{ addresses, arrays }] = parts;
  const part = arrays[0]!;
  for (let at = 0; at < values.length; at += chunk) {
    const count = Math.min(chunk, values.length - at);
    part.set(values.subarray(at, at + count));
    divideInModule(addresses[0], count, by);
    values.set(part.subarray(0, count), at);
  }
}
