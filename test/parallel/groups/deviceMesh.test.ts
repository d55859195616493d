/** The groups of a mesh of ranks. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { initDeviceMesh, groupsAlongDimension } from '../../../src/parallel/groups/deviceMesh.ts';
import { runWorld } from '../../../src/testing/index.ts';

test('a mesh has a group for each line of ranks in each dimension', async () => {
  const all = await runWorld(6, async (world) => {
    const mesh = await initDeviceMesh(world, { data: 2, pipeline: 3 });
    const sums = [];
    for (const name of mesh.dimNames) sums.push([...(await mesh.getGroup(name).allReduce(Int32Array.of(world.rank)))]);
    const groups = mesh.dimNames.map((name) => [...mesh.getGroup(name).ranks]);
    return { coordinate: mesh.getCoordinate(), groups, sums, size: mesh.size(), stages: mesh.size('pipeline') };
  });
  expect(all.map(({ coordinate }) => coordinate)).toEqual([
    [0, 0],
    [0, 1],
    [0, 2],
    [1, 0],
    [1, 1],
    [1, 2],
  ]);
  expect(all[4]).toEqual({
    coordinate: [1, 1],
    groups: [
      [1, 4],
      [3, 4, 5],
    ],
    sums: [[5], [12]],
    size: 6,
    stages: 3,
  });
});

test('the lines of each dimension contain every rank once', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 3 }), (sizes) => {
      const shape = Object.fromEntries(sizes.map((size, i) => [`dim${i}`, size]));
      const total = sizes.reduce((product, size) => product * size, 1);
      for (const [i, size] of sizes.entries()) {
        const lines = groupsAlongDimension(shape, `dim${i}`);
        expect(lines.every((line) => line.length === size)).toBe(true);
        expect(lines.flat().sort((a, b) => a - b)).toEqual(Array.from({ length: total }, (_, rank) => rank));
      }
    }),
  );
});

test.each([
  [{ data: 2, pipeline: 3 }, 'The mesh data 2 x pipeline 3 has 6 places, but the world has 4 ranks.'],
  [{ pipeline: 0 }, 'The mesh pipeline 0 has an invalid number of places, but the world has 4 ranks.'],
  [{}, 'The mesh without dimensions has an invalid number of places, but the world has 4 ranks.'],
])('a mesh with another number of places than ranks is rejected: %j', async (shape, message) => {
  await expect(runWorld(4, (world) => initDeviceMesh(world, shape))).rejects.toThrow(message);
});

test('a name that is not a dimension is rejected', async () => {
  await runWorld(2, async (world) => {
    const mesh = await initDeviceMesh(world, { pipeline: 2 });
    expect(() => mesh.getGroup('tensor')).toThrow('The mesh has no dimension "tensor". Its dimensions are pipeline.');
  });
});
