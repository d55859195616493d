/**
 * Between two batches, ranks exchange whether and how training continues. The exchange is one small
 * all-reduce.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { ReduceOp } from '../../protocol/frame.ts';
import { MismatchError } from '../../util/errors.ts';
import { checkRankZeroSetWeights } from './weightChanges.ts';

export interface BatchReport {
  /** Whether training ends. */
  stops: boolean;
  /** Whether the page has set weights of the model. */
  isChanged: boolean;
  /** Number of samples in the next batch. */
  samples: number;
}

export interface OwnBatchReport extends BatchReport {
  /** The learning rate, if ranks run the optimizer themselves; otherwise `null`. */
  learningRate: number | null;
}

const FIELDS = 5;
type Numbers = [number, number, number, number, number, ...number[]];

/**
 * Combines the turns of all ranks. In the result, `stops` is true if at least one rank ends
 * training, `isChanged` is true if rank 0 has set weights, and `samples` is the sum over all ranks.
 *
 * @throws (rejects) MismatchError on every rank if learning rates differ, because the ranks'
 *   parameters would then differ, or if weights were set on other ranks but not on rank 0.
 */
export async function exchangeBatchReports(group: ProcessGroup, own: OwnBatchReport): Promise<BatchReport> {
  const { rank, worldSize } = group;
  const { stops, isChanged, samples, learningRate } = own;
  if (worldSize === 1) return { stops, isChanged, samples };
  // The all-reduce computes maxima. The maximum of the negative rates is the negative of the
  // smallest rate. The numbers of samples are added afterwards, so each rank writes its number to a
  // place of its own.
  const rate = learningRate ?? 0;
  const values = new Float64Array(FIELDS + worldSize);
  const changes = [isChanged && rank === 0, isChanged && rank !== 0];
  values.set([stops, ...changes, rate, -rate].map((value) => (Number.isNaN(Number(value)) ? Infinity : Number(value))));
  values.fill(-Infinity, FIELDS);
  values[FIELDS + rank] = samples;
  await group.allReduce(values, { op: ReduceOp.MAX });
  const [anyStops, first, others, largest, smallest, ...bySize] = values as unknown as Numbers;
  if (largest !== -smallest) {
    const rates = await group.allGatherObject(learningRate);
    throw new MismatchError(
      `Ranks have different learning rates: ${rates.map((each, i) => `${each} on rank ${i}`).join(', ')}. Set the same rate on ` +
        'every rank, in the same callback.',
      { rank, worldSize },
    );
  }
  if (first === 0 && others === 1) checkRankZeroSetWeights(await group.allGatherObject(isChanged), group);
  const total = bySize.reduce((sum, each) => sum + each, 0);
  return { stops: anyStops > 0, isChanged: first > 0, samples: total };
}
