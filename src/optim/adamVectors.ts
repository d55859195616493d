/** Adam's loop in WebAssembly, about three times as fast as in JavaScript, with the same bits. */
import { backendOfCpu } from '../util/fallbackBackend.ts';
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
const PAGE_BYTES = 65_536;

interface Vectors {
  run: Run;
  /** The module's memory: parts of {@link CHUNK} elements. */
  parts: readonly Float32Array[];
}

let vectors: Vectors | null | undefined;

/** Returns `null` if the browser has no WebAssembly with SIMD, or if the page forbids it. */
function openVectors(): Vectors | null {
  if (backendOfCpu() !== 'simd') return null;
  const compiled = compile();
  if (compiled === null) return null;
  const memory = new WebAssembly.Memory({ initial: Math.ceil((4 * 4 * CHUNK) / PAGE_BYTES) });
  const { exports } = new WebAssembly.Instance(compiled, { env: { memory } });
  const all = new Float32Array(memory.buffer);
  return {
    run: exports['adam'] as unknown as Run,
    parts: [0, 1, 2, 3].map((part) => all.subarray(part * CHUNK, (part + 1) * CHUNK)),
  };
}

function compile(): WebAssembly.Module | null {
  try {
    return new WebAssembly.Module(Uint8Array.from(atob(MODULE), (character) => character.codePointAt(0)!));
  } catch {
    // A Content-Security-Policy forbids it. The error has another class in Safari than elsewhere.
    return null;
  }
}

/**
 * Updates the elements from `start` to `end` - 1 of the arrays: parameters, gradient, mean and mean
 * square. Returns whether it did: not if the browser cannot.
 */
export function updateByVectors(
  arrays: readonly [params: Float32Array, gradient: Float32Array, mean: Float32Array, square: Float32Array],
  start: number,
  end: number,
  c: AdamCoefficients,
): boolean {
  if (vectors === undefined) vectors = openVectors();
  if (vectors === null) return false;
  const { run, parts } = vectors;
  const [params, gradient, mean, square] = parts.map(({ byteOffset }) => byteOffset) as [
    number,
    number,
    number,
    number,
  ];
  const { beta1, take1, beta2, take2, stepSize, epsilon, keep, decay } = c;
  for (let at = start; at < end; at += CHUNK) {
    const next = Math.min(end, at + CHUNK);
    const count = next - at;
    for (const [i, array] of arrays.entries()) parts[i]!.set(array.subarray(at, next));
    run(
      ...([params, gradient, mean, square, count, beta1, take1, beta2, take2] as const),
      ...[stepSize, epsilon, keep, decay, c.squaresFirst ? 1 : 0],
    );
    for (const [i, array] of arrays.entries()) if (i !== 1) array.set(parts[i]!.subarray(0, count), at);
  }
  return true;
}
