// Object collectives, with the lists of torch.distributed's own examples:
// https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_object
// Expected output: all ranks receive plain data, not only tensors. gatherObject returns the list
// only on rank 0.
import type { ProcessGroup } from '../src/index.ts'; // from 'peergrad'

export const worldSize = 3;

const OBJECTS = ['foo', 12, { 1: 2 }];

export async function main(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  const { rank } = group;
  const mine = OBJECTS[rank];

  const everywhere = await group.allGatherObject(mine);
  print(`allGatherObject ${JSON.stringify(everywhere)}`);

  const gathered = await group.gatherObject(mine, 0);
  print(`gatherObject ${JSON.stringify(gathered)}`);

  const broadcast = await group.broadcastObject(rank === 0 ? OBJECTS : undefined, 0);
  print(`broadcastObject ${JSON.stringify(broadcast)}`);

  const scattered = await group.scatterObjects(rank === 0 ? OBJECTS : null, 0);
  print(`scatterObjects ${JSON.stringify(scattered)}`);
}
