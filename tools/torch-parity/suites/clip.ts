import { clipGradNorm } from '../../../src/parallel/flat/clip.ts';
import type { Suite } from '../suite.ts';

const CASES: [number[], number][] = [
  [[3, 4], 1],
  [[3, 4], 5],
  [[3, 4], 10],
  [[0, 0], 1],
  [[3, 4], 0],
  [[1e-3, 0], 1e-4],
  [[3, 4], Infinity],
  [[NaN, 1], 1],
  [[Infinity, 1], 1],
];

/** Gradient clipping by the norm, also for zero, infinite and NaN gradients. */
export const clip: Suite = {
  name: 'clip',
  tolerance: 1e-6,
  compute: () =>
    Promise.resolve({
      cases: CASES.map(([gradient, maxNorm]) => {
        const clipped = Float32Array.from(gradient);
        const norm = clipGradNorm(clipped, [{ start: 0, end: clipped.length }], maxNorm);
        return {
          gradient: gradient.map(String),
          maxNorm: String(maxNorm),
          norm: String(norm),
          clipped: Array.from(clipped, String),
        };
      }),
    }),
};
