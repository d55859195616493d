/** The cut of layers into stages against all possible cuts. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  cutLayers,
  pipelineLoadOfRanks,
  type CutLayersOptions,
  type LayerCost,
} from '../../../src/parallel/pipeline/cutLayers.ts';

const layersOf = (costs: readonly number[], bytes: readonly number[] = costs): LayerCost[] =>
  costs.map((cost, i) => ({ name: `layer${i}`, cost, bytes: bytes[i]! }));

const someLayers = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 0, max: 9 })), { minLength: 1, maxLength: 7 })
  .map((pairs) =>
    layersOf(
      pairs.map(([cost]) => cost),
      pairs.map(([, bytes]) => bytes),
    ),
  );

/** All cuts into stages with at least one layer; in a ring the last stage may be empty. */
function allCuts(layers: number, stages: number, ring: boolean): number[][] {
  const cuts = (left: number, parts: number): number[][] => {
    if (parts === 0) return left === 0 ? [[]] : [];
    const least = ring && parts === 1 ? 0 : 1;
    return Array.from({ length: Math.max(0, left - least + 1) }, (_, i) => i + least).flatMap((count) =>
      cuts(left - count, parts - 1).map((rest) => [count, ...rest]),
    );
  };
  return cuts(layers, stages);
}

function largest(
  layers: readonly LayerCost[],
  cut: readonly number[],
  key: 'cost' | 'bytes',
  options: CutLayersOptions,
): number {
  return Math.max(...pipelineLoadOfRanks(layers, cut, options).map((load) => load[key]));
}

test('cutLayers minimizes the cost of the slowest rank and, among such cuts, the bytes of the rank with the most bytes', () => {
  fc.assert(
    fc.property(
      someLayers,
      fc.integer({ min: 1, max: 4 }),
      fc.boolean(),
      fc.integer({ min: 0, max: 9 }),
      fc.option(fc.integer({ min: 1, max: 40 })),
      (layers, ranks, ring, lossCost, maxBytes) => {
        fc.pre(ranks <= layers.length);
        const options = { ring, lossCost, maxBytes };
        const fitting = allCuts(layers.length, ring ? ranks + 1 : ranks, ring)
          .filter(([first]) => !ring || first === 1)
          .filter((cut) => largest(layers, cut, 'bytes', options) <= (maxBytes ?? Infinity));
        if (fitting.length === 0) {
          expect(() => cutLayers(layers, ranks, options)).toThrow('does not fit');
          return;
        }
        const chosen = cutLayers(layers, ranks, options);
        const cost = Math.min(...fitting.map((cut) => largest(layers, cut, 'cost', options)));
        expect(largest(layers, chosen, 'cost', options)).toBe(cost);
        const fastest = fitting.filter((cut) => largest(layers, cut, 'cost', options) === cost);
        const bytes = Math.min(...fastest.map((cut) => largest(layers, cut, 'bytes', options)));
        expect(largest(layers, chosen, 'bytes', options)).toBe(bytes);
      },
    ),
  );
});

test('equal layers are divided evenly', () => {
  expect(cutLayers(layersOf([1, 1, 1, 1, 1, 1]), 3)).toEqual([2, 2, 2]);
  expect(cutLayers(layersOf([1, 1, 1, 1, 1, 1]), 3, { ring: true, lossCost: 1 })).toEqual([1, 2, 2, 1]);
});

test('more stages than layers are rejected by cutLayers', () => {
  expect(() => cutLayers(layersOf([1, 1]), 3)).toThrow(
    'A model of 2 layers cannot be cut into 3 stages. Use 1 to 2 stages. The layers are layer0, layer1.',
  );
});

test('the error for a model that does not fit names rank, layers, memory and a number of stages that fits', () => {
  const layers = layersOf([1, 1, 1, 1], [4e6, 4e6, 4e6, 4e6]);
  expect(() => cutLayers(layers, 2, { maxBytes: 5e6 })).toThrow(
    'The model does not fit in 2 stages: rank 0 with the layers layer0, layer1 needs 8 MB and may use 5 MB. It fits in 4 stages.',
  );
  expect(() => cutLayers(layers, 2, { maxBytes: 3e6 })).toThrow(
    'The layer "layer0" alone needs 4 MB, so more stages do not help: use a smaller model or tabs with more memory.',
  );
});
