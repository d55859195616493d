// DistributedSampler:
// https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
// Two ranks share the samples 0 .. 23 and read them in batches of four.
// Expected output: no sample is read by both ranks, together they read all 24, and after setEpoch
// each rank has other samples.
import { DistributedSampler, type ProcessGroup } from '../src/index.ts'; // from 'peergrad'

export const worldSize = 2;

const DATASET_SIZE = 24;
const BATCH_SIZE = 4;

export async function main(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  const sampler = new DistributedSampler(DATASET_SIZE, { numReplicas: group.worldSize, rank: group.rank });
  for (let epoch = 0; epoch < 2; epoch++) {
    sampler.setEpoch(epoch);
    const indices = sampler.indices();
    for (let start = 0; start < sampler.length; start += BATCH_SIZE) {
      print(`epoch ${epoch}: batch ${indices.subarray(start, start + BATCH_SIZE).join(' ')}`);
    }
    const all = (await group.allGather(indices)).flatMap((part) => [...part]);
    if (group.rank === 0) print(`epoch ${epoch}: together ${all.toSorted((a, b) => a - b).join(' ')}`);
  }
}
