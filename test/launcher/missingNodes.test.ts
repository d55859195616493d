import { describe, expect, test } from 'vitest';
import { placementOf, type PlacementOptions } from '../../launcher/options/placement.ts';
import { callOthers, MissingNodes } from '../../launcher/output/missingNodes.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';

type Options = PlacementOptions & { rdzvId?: string };
const room = (ranks: (number | null)[], phase = 'FORMING') =>
  ({ type: 'room', phase, members: ranks.map((rank) => ({ rank })) }) as EngineEvent;

function follow(options: Options, env: Record<string, string> = {}) {
  const missing = new MissingNodes(placementOf(options, env), options);
  return { missing, lines: (...events: EngineEvent[]) => events.map((event) => missing.on(event)) };
}

const two: Options = { nnodes: 2, tabs: 2, masterAddr: '10.0.0.1' };

describe('node 0', () => {
  test('names a missing node once, and says when all nodes are present', () => {
    const { missing, lines } = follow(two);
    expect(lines(room([0]), room([0, 1]), room([0, 1, 2]), room([0, 1, 2, 3]))).toEqual([
      '1 of 2 nodes is here; node 1 is missing.',
      null,
      '2 of 2 nodes are here.',
      null,
    ]);
    expect(missing.line).toBeNull();
  });

  test('names a node that has left before the start, even in a later error', () => {
    const { missing, lines } = follow(two);
    lines(room([0, 1, 2, 3]));
    expect(lines(room([0, 1]))).toEqual(['1 of 2 nodes is here; node 1 is missing.']);
    expect(missing.line).toBe('1 of 2 nodes is here; node 1 is missing.');
  });

  test('names at most eight missing nodes', () => {
    const { lines } = follow({ ...two, nnodes: 12 });
    expect(lines(room([0, 1, 23]))).toEqual([
      '2 of 12 nodes are here; nodes 1, 2, 3, 4, 5, 6, 7, 8 and 2 more are missing.',
    ]);
  });

  test('names missing ranks if each process is a rank', () => {
    const { lines } = follow({ masterAddr: '10.0.0.1' }, { RANK: '0', WORLD_SIZE: '3' });
    expect(lines(room([0]), room([0, 2]))).toEqual([
      '1 of 3 processes is here; ranks 1, 2 are missing.',
      '2 of 3 processes are here; rank 1 is missing.',
    ]);
  });

  test('prints only the number of ranks that are present in an elastic run, because its tabs request no particular ranks', () => {
    const { missing, lines } = follow({ ...two, nnodes: { min: 2, max: 4 } });
    expect(lines(room([null]), room([null, null, null, null]))).toEqual([
      '1 of the 4 ranks that start the run is here.',
      '4 of the 4 ranks that start the run are here.',
    ]);
    expect(missing.line).toBeNull();
  });

  test('says nothing about a run that has begun, or that needs only this machine', () => {
    expect(follow(two).lines(room([0], 'RUNNING'))).toEqual([null]);
    expect(follow({ tabs: 2 }).lines(room([0]))).toEqual([null]);
  });
});

test.each<[string, string, Options, Record<string, string>]>([
  [
    'On the other machine, run:',
    '  peergrad run --nnodes 2 --node-rank 1 --nproc-per-node 2 --master-addr 10.0.0.1 --master-port 29500',
    two,
    {},
  ],
  [
    'On the other machines, where N is 1 to 3, run:',
    "  peergrad run --nnodes 1:4 --node-rank N --nproc-per-node 2 --master-addr 10.0.0.1 --master-port 3000 --rdzv-id 'Ann'\\''s run'",
    { ...two, nnodes: { min: 1, max: 4 }, masterPort: 3000, rdzvId: "Ann's run" },
    {},
  ],
  [
    'On the other machines, where N is 1 to 2, run:',
    '  RANK=N WORLD_SIZE=3 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 peergrad run --rdzv-id mine',
    { masterAddr: '10.0.0.1', rdzvId: 'mine' },
    { RANK: '0', WORLD_SIZE: '3' },
  ],
])('%s %s', (place, command, options, env) => {
  expect(callOthers(placementOf(options, env), options)).toEqual([place, command]);
});
