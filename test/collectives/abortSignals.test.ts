/** Tests of AbortSignals in the calls of a group, and of the event of a failed group. */
import { describe, expect, test } from 'vitest';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createMeshes, runWorld } from '../../src/testing/index.ts';
import { AbortError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';

type Call = (group: ProcessGroup, signal: AbortSignal) => PromiseLike<unknown>;

/** Calls of rank 1 that wait for other ranks. */
const CALLS: Record<string, Call> = {
  allReduce: (group, signal) => group.allReduce(new Float32Array(4), { signal }),
  allReduceCoalesced: (group, signal) => group.allReduceCoalesced([new Float32Array(4)], { signal }),
  reduceScatter: (group, signal) => group.reduceScatter(new Float32Array(3), { signal }),
  barrier: (group, signal) => group.barrier({ signal }),
  monitoredBarrier: (group, signal) => group.monitoredBarrier({ signal }),
  recv: (group, signal) => group.recv(new Float32Array(4), 0, { signal }),
  send: (group, signal) => group.send(new Float32Array(4), 0, { signal }),
  broadcastObject: (group, signal) => group.broadcastObject({}, 1, { signal }),
  allGatherObject: (group, signal) => group.allGatherObject({}, { signal }),
  gatherObject: (group, signal) => group.gatherObject({}, 0, { signal }),
  scatterObjects: (group, signal) => group.scatterObjects([1, 2, 3], 1, { signal }),
  newGroup: (group, signal) => group.newGroup([0, 1], { signal }),
};

describe('An AbortSignal', () => {
  test.each(Object.entries(CALLS))('ends %s, and the group on every rank', async (_name, call) => {
    const errors = await runWorld(3, async (group) => {
      if (group.rank !== 1) return group.failed;
      const controller = new AbortController();
      const error = errorOf(call(group, controller.signal));
      setTimeout(() => controller.abort(new Error('The user left the page.')), 1);
      return error;
    });
    for (const error of errors) {
      expect(error).toBeInstanceOf(AbortError);
      expect(error).toMatchObject({ name: 'AbortError', context: { rank: 1 } });
      expect(error.message).toMatch(
        /^Aborted: the signal of rank 1 ended \w+.*: The user left the page\. The group has/,
      );
    }
  });

  test.each(Object.entries(CALLS))(
    'that was aborted before the call rejects %s, and the group continues',
    async (_name, call) => {
      await runWorld(3, async (group) => {
        if (group.rank === 1) {
          const error = await errorOf(call(group, AbortSignal.abort('no time')));
          expect(error).toBeInstanceOf(AbortError);
          expect(error.message).toMatch(/^Aborted: rank 1 did not call \w+.* already aborted: no time\./);
          expect(group.flightRecording.records).toEqual([]);
        }
        expect(await group.allReduce(Float32Array.of(1))).toEqual(Float32Array.of(3));
      });
    },
  );

  test('has no effect on an op that has ended', async () => {
    await runWorld(2, async (group) => {
      const controller = new AbortController();
      await group.allReduce(Float32Array.of(1), { signal: controller.signal });
      controller.abort();
      await group.barrier();
      expect(group.failure).toBeNull();
    });
  });
});

describe('The event of a failed group', () => {
  test('reports a lost link while no op is in flight', async () => {
    const { meshes, links } = createMeshes(3);
    const groups = meshes.map((mesh) => new ProcessGroup(mesh));
    links[0]!.get(1)!.close();
    for (const group of groups) {
      const error = await group.failed;
      expect(error).toBe(group.failure);
      expect(error.message).toMatch(/lost its link to rank/);
    }
  });

  test('does not report that this rank has left the group', async () => {
    const [mesh] = createMeshes(1).meshes;
    const group = new ProcessGroup(mesh!);
    let failures = 0;
    void group.failed.then(() => (failures += 1));
    group.destroy();
    await new Promise((resolve) => setTimeout(resolve, 1));
    expect(group.failure).not.toBeNull();
    expect(failures).toBe(0);
  });
});
