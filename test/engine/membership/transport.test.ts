import { expect, test } from 'vitest';
import { transportOf } from '../../../src/engine/membership/transport.ts';
import type { LinkRoute } from '../../../src/protocol/runEvents.ts';
import { createMeshes, runRanks } from '../../../src/testing/index.ts';
import type { Link } from '../../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';

test.each([
  [['memory', 'memory', 'memory'], 'memory'],
  [['direct', 'relayed', 'unknown'], 'webrtc'],
  [['server', 'server-clear', 'server'], 'server'],
  [['server', 'server', 'direct'], 'mixed'],
  [['server', 'memory', 'memory'], 'mixed'],
] as [LinkRoute[], string][])('links with the routes %s are the transport %s', async (routes, transport) => {
  const rest = [...routes];
  const createPair = (): [Link, Link] => {
    const route = rest.shift()!;
    const pair = createMemoryLinkPair();
    for (const link of pair) link.describe = () => Promise.resolve({ route, roundTripMs: 1, connections: 1 });
    return pair;
  };
  expect(await runRanks(createMeshes(3, createPair), transportOf)).toEqual([transport, transport, transport]);
});

test('a world of one rank has no transport', async () => {
  expect(await runRanks(createMeshes(1), transportOf)).toEqual(['none']);
});
