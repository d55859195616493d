/** Worlds of a class and of a full room, over memory links. */
import { describe, expect, test } from 'vitest';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { FRAME_HEADER_BYTES } from '../../src/protocol/frame.ts';
import { createMeshes, runRanks, runWorld } from '../../src/testing/index.ts';
import { PeerGoneError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';
import { ManualClock } from '../manualClock.ts';

/** Elements of a tensor, which neither 30 nor 64 ranks can divide into equal chunks. */
const ELEMENTS = 2003;
const BYTES = ELEMENTS * Float32Array.BYTES_PER_ELEMENT;
/** No deadline passes on this clock, so that a busy machine changes no outcome. */
const STILL = { clock: new ManualClock() };

/** Tensors of small integers, whose sum is exact in every order. */
const tensorOf = (rank: number): Float32Array => Float32Array.from({ length: ELEMENTS }, (_, i) => 3 * rank + i);
const sumOf = (n: number): Float32Array =>
  Float32Array.from({ length: ELEMENTS }, (_, i) => (3 * n * (n - 1)) / 2 + n * i);

const ALGORITHMS = ['ring', 'two-level', 'halving-doubling', 'doubling'] as const;

describe.each([30, 64])('in a world of %i ranks', (n) => {
  test.each(ALGORITHMS)('an all-reduce by %s returns the sum on all ranks', async (algorithm) => {
    const sums = await runWorld(n, async (group) => group.allReduce(tensorOf(group.rank), { algorithm }), STILL);
    for (const sum of sums) expect(sum).toEqual(sumOf(n));
  });

  test('each rank of a ring sends 2(n-1)/n of the tensor, all of it to its right neighbour', async () => {
    const world = createMeshes(n);
    const sent = await runRanks(
      world,
      async (group) => {
        const work = group.allReduce(tensorOf(group.rank), { algorithm: 'ring' });
        await work;
        return work.bytesSent;
      },
      STILL,
    );
    const hops = 2 * (n - 1);
    for (const [rank, bytes] of sent.entries()) {
      const payload = bytes - hops * FRAME_HEADER_BYTES;
      // Chunks differ by at most one element.
      expect(Math.abs(payload - (hops / n) * BYTES)).toBeLessThanOrEqual(2 * Float32Array.BYTES_PER_ELEMENT);
      expect([...world.links[rank]!.keys()].sort((a, b) => a - b)).toEqual(
        [(rank + n - 1) % n, (rank + 1) % n].sort((a, b) => a - b),
      );
    }
  });

  test.each(['ring', 'two-level'] as const)(
    'when five ranks are lost during an all-reduce by %s, all other calls end with an error, and a new world works',
    async (algorithm) => {
      const { meshes, links, close } = createMeshes(n);
      const groups = meshes.map((mesh) => new ProcessGroup(mesh, STILL));
      const lost = new Set([3, 4, 11, 19, n - 1]);
      // The lost ranks never call, so no call can end before they are lost.
      const calls = groups
        .filter(({ rank }) => !lost.has(rank))
        .map((group) => errorOf(group.allReduce(tensorOf(group.rank), { algorithm })));
      for (const rank of lost) for (const link of links[rank]!.values()) link.close();
      for (const error of await Promise.all(calls)) expect(error).toBeInstanceOf(PeerGoneError);
      for (const group of groups) group.destroy();
      close();
      const next = createMeshes(n - lost.size, undefined, 2);
      const sums = await runRanks(next, async (group) => group.allReduce(tensorOf(group.rank), { algorithm: 'auto' }));
      for (const sum of sums) expect(sum).toEqual(sumOf(n - lost.size));
    },
  );
});
