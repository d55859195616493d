import { expect, test } from 'vitest';
import { servedPairsOf, countTransports } from '../../../src/engine/membership/transport.ts';
import type { LinkRoute } from '../../../src/protocol/runEvents.ts';
import type { RingLinkCounts } from '../../../src/protocol/runResult.ts';
import { createMeshes, runRanks } from '../../../src/testing/index.ts';
import type { Link } from '../../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';

test.each([
  [['memory', 'memory', 'memory'], { webrtc: 0, server: 0, memory: 3 }],
  [['direct', 'relayed', 'unknown'], { webrtc: 3, server: 0, memory: 0 }],
  [['server', 'server-clear', 'server'], { webrtc: 0, server: 3, memory: 0 }],
  [['server', 'direct', 'memory'], { webrtc: 1, server: 1, memory: 1 }],
  [['server'], { webrtc: 0, server: 1, memory: 0 }],
] as [LinkRoute[], RingLinkCounts][])('the links of the ring are counted by kind: %s', async (routes, transport) => {
  const rest = [...routes];
  const createPair = (): [Link, Link] => {
    const route = rest.shift()!;
    const pair = createMemoryLinkPair();
    for (const link of pair) link.describe = () => Promise.resolve({ route, roundTripMs: 1, connections: 1 });
    return pair;
  };
  const n = routes.length === 1 ? 2 : routes.length;
  expect(await runRanks(createMeshes(n, createPair), countTransports)).toEqual(
    Array.from({ length: n }, () => transport),
  );
});

test('a world of one rank has no links', async () => {
  expect(await runRanks(createMeshes(1), countTransports)).toEqual([{ webrtc: 0, server: 0, memory: 0 }]);
});

test('ranks agree on the lowest of the rates of the server that they know', async () => {
  const { meshes, close } = createMeshes(3);
  const lines = [{ areAll: true, bytesPerSecond: 2e6 }, { areAll: true, bytesPerSecond: 1e6 }, null];
  meshes.forEach((mesh, rank) => Object.assign(mesh, { serverLine: lines[rank] }));
  const transport = { webrtc: 1, server: 2, memory: 0 };
  const served = await runRanks({ meshes, close }, (group) => servedPairsOf(group, transport));
  expect(served).toEqual(Array.from({ length: 3 }, () => ({ pairs: 2, areAll: false, bytesPerSecond: 1e6 })));
});
