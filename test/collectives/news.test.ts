/** News between ranks: that they reach everybody. */
import { describe, expect, test } from 'vitest';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createMeshes, type World } from '../../src/testing/index.ts';
import { PeerGoneError } from '../../src/util/errors.ts';

/** Time for frames over memory links to arrive and be passed on. */
const arrivals = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

/** Ends a wait that should not be one. */
const TIMEOUT_MS = 2000;

function groupsOf({ meshes }: World): ProcessGroup[] {
  return meshes.map((mesh) => new ProcessGroup(mesh));
}

function newGroup(worlds: readonly ProcessGroup[], ranks: readonly number[]): Promise<ProcessGroup[]> {
  return Promise.all(worlds.map((world) => world.newGroup(ranks)));
}

describe('news', () => {
  test('pass ranks that have left their groups', async () => {
    const world = createMeshes(4);
    const worlds = groupsOf(world);
    const groups = await newGroup(worlds, [0, 2]);
    for (const rank of [1, 3]) {
      groups[rank]!.destroy();
      worlds[rank]!.destroy();
    }
    await Promise.all([0, 2].map((rank) => groups[rank]!.monitoredBarrier({ timeoutMs: TIMEOUT_MS })));
    world.close();
  });

  test('are no longer passed on, and links have no handlers, once the epoch has ended', async () => {
    const world = createMeshes(4);
    const worlds = groupsOf(world);
    for (const rank of [1, 3]) world.meshes[rank]!.end(new PeerGoneError('the room closed'));
    for (const { onframe, onclose } of world.links[1]!.values()) expect([onframe, onclose]).toEqual([null, null]);
    worlds[0]!.abort(new Error('over'));
    await arrivals();
    expect(worlds[2]!.failure).toBeNull();
    world.close();
  });
});
