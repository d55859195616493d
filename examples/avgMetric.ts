// The AvgMetric of DDP scripts: each rank collects a pair (acc, num), and all ranks sum up their
// pairs. Horovod's MetricAverageCallback averages the ranks' metrics instead:
// https://horovod.readthedocs.io/en/stable/api.html#module-horovod.keras
// Three ranks share ten predictions, in batches of two. DistributedMean of the library does the
// same as AvgMetric.
// Expected output: 7 of 10 are right, so the accuracy is 0.7 on every rank. The mean of the ranks'
// accuracies is 0.722, because one rank has more samples.
import { ReduceOp, type ProcessGroup } from '../src/index.ts'; // from 'peergrad'

export const worldSize = 3;

const LABELS = [1, 0, 1, 1, 0, 1, 0, 0, 1, 1];
const PREDICTIONS = [1, 0, 1, 0, 0, 1, 1, 0, 0, 1];
const BATCH_SIZE = 2;

class AvgMetric {
  /** Number of correct predictions. */
  acc = 0;
  /** Number of samples. */
  num = 0;

  update(acc: number, num: number): void {
    this.acc += acc;
    this.num += num;
  }

  get mean(): number {
    return this.acc / this.num;
  }

  /** Sums up the pairs of all ranks. */
  async reduce(group: ProcessGroup): Promise<void> {
    const pair = await group.allReduce(Float64Array.of(this.acc, this.num));
    [this.acc, this.num] = [pair[0]!, pair[1]!];
  }
}

export async function main(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  const samples = LABELS.map((_, i) => i).filter((i) => i % group.worldSize === group.rank);
  const metric = new AvgMetric();
  for (let start = 0; start < samples.length; start += BATCH_SIZE) {
    const batch = samples.slice(start, start + BATCH_SIZE);
    metric.update(batch.filter((i) => PREDICTIONS[i] === LABELS[i]).length, batch.length);
  }
  print(`this rank (${metric.acc}, ${metric.num}): accuracy ${metric.mean.toFixed(3)}`);

  // As Horovod does. This is only correct if all ranks have equally many samples.
  const [mean] = await group.allReduce(Float64Array.of(metric.mean), { op: ReduceOp.AVG });
  print(`mean of the ranks' accuracies ${mean!.toFixed(3)}`);

  await metric.reduce(group);
  print(`all ranks (${metric.acc}, ${metric.num}): accuracy ${metric.mean.toFixed(3)}`);
}
