/** Adam's loop in WebAssembly, about three times as fast as in JavaScript, with the same bits. */
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

type Run = (
  params: number,
  gradient: number,
  mean: number,
  square: number,
  count: number,
  ...coefficients: number[]
) => void;

/** Elements that are copied to the module's memory at a time. They stay in the first cache. */
const CHUNK = 2048;
/** With fewer elements, the calls take longer than they save. */
const FEWEST = 512;
const PAGE_BYTES = 65_536;

interface Vectors {
  run: Run;
  /** The module's memory: parts of {@link CHUNK} elements, and their addresses. */
  parts: readonly Float32Array[];
  addresses: readonly [params: number, gradient: number, mean: number, square: number];
}

let vectors: Vectors | null | undefined;

/** Returns `null` if the browser cannot run the module. */
function openVectors(): Vectors | null {
  const compiled = compileSimd(MODULE);
  if (compiled === null) return null;
  const memory = new WebAssembly.Memory({ initial: Math.ceil((4 * 4 * CHUNK) / PAGE_BYTES) });
  const { exports } = new WebAssembly.Instance(compiled, { env: { memory } });
  const all = new Float32Array(memory.buffer);
  return {
    run: exports['adam'] as unknown as Run,
    parts: [0, 1, 2, 3].map((part) => all.subarray(part * CHUNK, (part + 1) * CHUNK)),
    addresses: [0, 4 * CHUNK, 8 * CHUNK, 12 * CHUNK],
  };
}

/**
 * Updates the elements from `start` to `end` - 1 of the arrays: parameters, gradient, mean and mean
 * square. Returns whether it did: not if the browser cannot, or if there are few elements.
 */
export function updateByVectors(
  arrays: readonly [params: Float32Array, gradient: Float32Array, mean: Float32Array, square: Float32Array],
  start: number,
  end: number,
  c: AdamCoefficients,
): boolean {
  if (end - start < FEWEST) return false;
  if (vectors === undefined) vectors = openVectors();
  if (vectors === null) return false;
  const { run, parts, addresses } = vectors;
  const { beta1, take1, beta2, take2, stepSize, epsilon, keep, decay } = c;
  for (let at = start; at < end; at += CHUNK) {
    const next = Math.min(end, at + CHUNK);
    const count = next - at;
    for (const [i, array] of arrays.entries()) parts[i]!.set(array.subarray(at, next));
    run(
      ...([...addresses, count, beta1, take1, beta2, take2] as const),
      ...[stepSize, epsilon, keep, decay, c.squaresFirst ? 1 : 0],
    );
    for (const [i, array] of arrays.entries()) if (i !== 1) array.set(parts[i]!.subarray(0, count), at);
  }
  return true;
}
