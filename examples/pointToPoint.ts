// Point-to-point communication of PyTorch's "Writing Distributed Applications",
// https://docs.pytorch.org/tutorials/intermediate/dist_tuto.html#point-to-point-communication:
// rank 0 adds 1 and sends to rank 1. Look for: data 1 on both, first blocking, then not.
import type { ProcessGroup } from '../src/index.ts'; // from 'peergrad'

export const worldSize = 2;

/** Blocking. */
async function runBlocking(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  const tensor = new Float32Array(1);
  if (group.rank === 0) {
    tensor[0]! += 1;
    await group.send(tensor, 1);
  } else {
    await group.recv(tensor, 0);
  }
  print(`Rank ${group.rank} has data ${tensor[0]}`);
}

/** Non-blocking: the tensor belongs to the message until `work` is done. */
async function runNonBlocking(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  const tensor = new Float32Array(1);
  let work;
  if (group.rank === 0) {
    tensor[0]! += 1;
    work = group.isend(tensor, 1);
    print('Rank 0 started sending');
  } else {
    work = group.irecv(tensor, 0);
    print('Rank 1 started receiving');
  }
  await work.wait();
  print(`Rank ${group.rank} has data ${tensor[0]}`);
}

export async function main(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  await runBlocking(group, print);
  await runNonBlocking(group, print);
}
