// Horovod's MetricAverageCallback, by hand: https://horovod.readthedocs.io/en/stable/keras.html
// Every rank measures its share of ten predictions; an all-reduce gives the accuracy of all. Look
// for: 7 of 10 are right, which is the mean over samples. The mean over ranks differs, because one
// rank has more samples.
import { ReduceOp, type ProcessGroup } from '../src/index.ts'; // from 'peergrad'

export const worldSize = 3;

const LABELS = [1, 0, 1, 1, 0, 1, 0, 0, 1, 1];
const PREDICTIONS = [1, 0, 1, 0, 0, 1, 1, 0, 0, 1];

export async function main(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  const isMine = (_: number, i: number): boolean => i % group.worldSize === group.rank;
  const labels = LABELS.filter(isMine);
  const predictions = PREDICTIONS.filter(isMine);
  const right = labels.filter((label, i) => predictions[i] === label).length;
  print(`${right} of ${labels.length} right: accuracy ${(right / labels.length).toFixed(3)}`);

  // As in Horovod: correct if all ranks have equally many samples.
  const mean = await group.allReduce(Float64Array.of(right / labels.length), { op: ReduceOp.AVG });
  print(`mean over ranks ${mean[0]!.toFixed(3)}`);

  // Sums of correct predictions and of samples: always correct.
  const [allRight, all] = await group.allReduce(Float64Array.of(right, labels.length));
  print(`mean over samples ${(allRight! / all!).toFixed(3)}`);
}
