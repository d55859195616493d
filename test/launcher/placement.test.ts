import { describe, expect, test } from 'vitest';
import { type Environment, type PlacementOptions, placementOf, rankOfJoin } from '../../launcher/options/placement.ts';
import { UsageError } from '../../src/util/errors.ts';

/**
 * Returns the placement for options and for environment variables, such as `RANK=0 WORLD_SIZE=2`.
 */
function place(options: PlacementOptions, variables = '') {
  return placementOf(options, environment(variables));
}

function environment(variables: string): Environment {
  return Object.fromEntries(variables.split(' ').map((text) => text.split('=') as [string, string]));
}

const MASTER = { masterAddr: '10.0.0.1' };
type World = number | { start: number; elastic: { min: number; max: number } };
const at = (world: World, firstRank: number, tabs: number, host = '127.0.0.1', port = 0) => {
  const { start: worldSize, elastic } = typeof world === 'number' ? { start: world, elastic: null } : world;
  return { worldSize, elastic, firstRank, tabs, master: { host, port } };
};

describe('placementOf returns the world and the ranks of this process:', () => {
  test.each<[string, PlacementOptions, string, ReturnType<typeof at>]>([
    ['one machine with four tabs by default', {}, '', at(4, 0, 4)],
    ['one machine with the given number of tabs', { tabs: 2 }, '', at(2, 0, 2)],
    ["one machine with torchrun's name of the option", { nprocPerNode: 3, tabs: 3 }, '', at(3, 0, 3)],
    ['node 0 of two', { nnodes: 2, nprocPerNode: 2, ...MASTER }, '', at(4, 0, 2, '10.0.0.1', 29500)],
    ['node 1 of three', { nnodes: 3, nodeRank: 1, tabs: 2, ...MASTER }, '', at(6, 2, 2, '10.0.0.1', 29500)],
    [
      'node 1 of three, from the environment',
      { nnodes: 3, tabs: 2 },
      'NODE_RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=4000 WORLD_SIZE=6',
      at(6, 2, 2, '10.0.0.1', 4000),
    ],
    [
      'equal values in options and environment',
      { nnodes: 2, nodeRank: 1, masterPort: 4000, tabs: 1, ...MASTER },
      'NODE_RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=4000 RANK=1 LOCAL_RANK=0',
      at(2, 1, 1, '10.0.0.1', 4000),
    ],
    [
      'a number of tabs that follows from WORLD_SIZE',
      { nnodes: 2, ...MASTER },
      'WORLD_SIZE=6',
      at(6, 0, 3, '10.0.0.1', 29500),
    ],
    ['env://, rank 0, on one machine', {}, 'RANK=0 WORLD_SIZE=2', at(2, 0, 1, '127.0.0.1', 29500)],
    [
      'env://, another rank',
      { tabs: 1 },
      'RANK=2 WORLD_SIZE=3 LOCAL_RANK=1 NODE_RANK=1 MASTER_ADDR=host',
      at(3, 2, 1, 'host', 29500),
    ],
    ['env://, a world of one rank', {}, 'RANK=0 WORLD_SIZE=1', at(1, 0, 1)],
    [
      'node 0 of two to four elastic nodes',
      { nnodes: { min: 2, max: 4 }, tabs: 2, ...MASTER },
      '',
      at({ start: 4, elastic: { min: 4, max: 8 } }, 0, 2, '10.0.0.1', 29500),
    ],
    [
      'a node that joins later',
      { nnodes: { min: 1, max: 4 }, nodeRank: 3, tabs: 1, ...MASTER },
      '',
      at({ start: 1, elastic: { min: 1, max: 4 } }, 3, 1, '10.0.0.1', 29500),
    ],
    ['empty variables', {}, 'RANK= WORLD_SIZE= MASTER_ADDR=', at(4, 0, 4)],
  ])('%s', (_, options, variables, expected) => {
    expect(place(options, variables)).toEqual(expected);
  });
});

describe('the error about contradictory settings names both values', () => {
  test.each<[PlacementOptions, string, RegExp]>([
    [{ tabs: 2, nprocPerNode: 4 }, '', /--tabs 2 and --nproc-per-node 4/],
    [{}, 'RANK=2 WORLD_SIZE=2', /no RANK 2 in a world of 2\. Ranks are 0 \.\. 1/],
    [{ nnodes: 2, tabs: 1, ...MASTER }, 'RANK=2', /no RANK 2 in a world of 2/],
    [{ nnodes: 2, tabs: 2, ...MASTER }, 'WORLD_SIZE=2', /WORLD_SIZE is 2, .*--nnodes 2 with 2 tabs each makes 4 ranks/],
    [{ tabs: 4 }, 'WORLD_SIZE=2', /WORLD_SIZE is 2, .*--nnodes 1 with 4 tabs each makes 4 ranks/],
    [{ nnodes: 2, ...MASTER }, 'WORLD_SIZE=3', /WORLD_SIZE is 3, .*--nnodes 2/],
    [{ nnodes: 2, nodeRank: 2, ...MASTER }, '', /no node rank 2 with --nnodes 2/],
    [{ nnodes: 2, ...MASTER }, 'NODE_RANK=2', /no node rank 2 with --nnodes 2/],
    [{ nodeRank: 1 }, '', /no node rank 1 with --nnodes 1/],
    [{ tabs: 2 }, 'LOCAL_RANK=2', /LOCAL_RANK is 2, but a node has 2 tabs/],
    [{}, 'RANK=1 WORLD_SIZE=4 LOCAL_RANK=2 MASTER_ADDR=host', /LOCAL_RANK is 2, but RANK is 1/],
    [{ nnodes: 2, nodeRank: 1, tabs: 2, ...MASTER }, 'RANK=1', /RANK is 1, but node 1 has ranks 2 to 3/],
    [
      { nnodes: 2, tabs: 2 },
      '',
      /world has 4 ranks, and this process has only 2 of them\. .*as --master-addr \(or MASTER_ADDR\)/,
    ],
    [{}, 'RANK=1 WORLD_SIZE=2', /world has 2 ranks, and this process has only 1 of them\. .*as --master-addr/],
    [{}, 'RANK=1', /RANK is 1, but WORLD_SIZE is not set/],
    [{ tabs: 4 }, 'RANK=0 WORLD_SIZE=4', /RANK 0 .*for a single tab, but 4 tabs are requested/],
    [{ nodeRank: 1 }, 'RANK=0 WORLD_SIZE=2', /RANK is set \(0\), so .* Remove --node-rank 1, or pass --nnodes/],
    [
      { nnodes: 2, nodeRank: 1, ...MASTER },
      'NODE_RANK=0',
      /--node-rank 1 contradicts the environment, where NODE_RANK is 0/,
    ],
    [
      { nnodes: 2, ...MASTER },
      'MASTER_ADDR=other',
      /--master-addr 10.0.0.1 contradicts the environment, where MASTER_ADDR is other/,
    ],
    [{ masterPort: 1 }, 'MASTER_PORT=2', /--master-port 1 contradicts the environment, where MASTER_PORT is 2/],
    [{ nnodes: 33, tabs: 8, ...MASTER }, '', /264 ranks is too large\. At most 256/],
    [{}, 'RANK=two WORLD_SIZE=2', /RANK is "two" in the environment\. .*whole number/],
    [{}, 'RANK=0 WORLD_SIZE=2.5', /WORLD_SIZE is "2.5"/],
    [{}, 'RANK=-1 WORLD_SIZE=2', /RANK is "-1"/],
    [{}, 'WORLD_SIZE=0', /WORLD_SIZE is "0"/],
    [{}, 'LOCAL_RANK=x', /LOCAL_RANK is "x"/],
    [{}, 'NODE_RANK=1e3', /NODE_RANK is "1e3"/],
    [{}, 'MASTER_PORT=70000', /MASTER_PORT is "70000" .* from 1 to 65535/],
  ])('%j, %s', (options, variables, sentence) => {
    expect(() => place(options, variables)).toThrow(sentence);
    expect(() => place(options, variables)).toThrow(UsageError);
  });
});

test('rankOfJoin returns RANK for a single tab, and rejects several tabs with RANK', () => {
  expect(rankOfJoin(1, {})).toBeNull();
  expect(rankOfJoin(2, {})).toBeNull();
  expect(rankOfJoin(1, { RANK: '3' })).toBe(3);
  expect(() => rankOfJoin(2, { RANK: '3' })).toThrow(/RANK 3 .*but 2 tabs/);
  expect(() => rankOfJoin(1, { RANK: '256' })).toThrow(/from 0 to 255/);
});
