// Point-to-point communication, from PyTorch's "Writing Distributed Applications":
// https://docs.pytorch.org/tutorials/intermediate/dist_tuto.html#point-to-point-communication
// Rank 0 adds 1 to its tensor and sends it to rank 1, first blocking, then non-blocking.
// Expected output: data 1 on both ranks, twice.
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

/** Non-blocking: do not use the tensor until `work` is done. */
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
