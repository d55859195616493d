// Collective communication, from PyTorch's "Writing Distributed Applications":
// https://docs.pytorch.org/tutorials/intermediate/dist_tuto.html#collective-communication
// Every rank has a 1, and a group of two ranks sums them up.
// Expected output: data 2 on ranks 0 and 1. With `--tabs 3`, rank 2 is not a member of the group,
// and its data is still 1.
import { ReduceOp, type ProcessGroup } from '../src/index.ts'; // from 'peergrad'

export const worldSize = 2;

export async function main(world: ProcessGroup, print: (line: string) => void): Promise<void> {
  const group = await world.newGroup([0, 1]);
  const tensor = Float32Array.of(1);
  await group.allReduce(tensor, { op: ReduceOp.SUM });
  print(`Rank ${world.rank} has data ${tensor[0]}`);
}
