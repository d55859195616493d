// Does by hand what Horovod's MetricAverageCallback does:
// https://horovod.readthedocs.io/en/stable/keras.html
// Every rank checks its share of ten predictions, and an all-reduce computes the accuracy of all
// ten.
// Expected output: 7 of 10 are right, so the mean over samples is 0.7. The mean over ranks differs,
// because one rank has more samples.
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

  // The mean over ranks, as in Horovod, is only correct if all ranks have equally many samples.
  const mean = await group.allReduce(Float64Array.of(right / labels.length), { op: ReduceOp.AVG });
  print(`mean over ranks ${mean[0]!.toFixed(3)}`);

  // The sum of correct predictions divided by the sum of samples is always correct.
  const [allRight, all] = await group.allReduce(Float64Array.of(right, labels.length));
  print(`mean over samples ${(allRight! / all!).toFixed(3)}`);
}
