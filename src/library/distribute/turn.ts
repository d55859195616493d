/** The exchange of ranks between two batches: one small all-reduce. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { ReduceOp } from '../../protocol/frame.ts';
import { MismatchError } from '../../util/errors.ts';
import { checkChanges } from './weightChanges.ts';

export interface Turn {
  /** Whether training ends. */
  stops: boolean;
  /** Whether weights of the model were set. */
  isChanged: boolean;
  /** Number of samples in the next batch. */
  samples: number;
}

export interface OwnTurn extends Turn {
  /** The learning rate, if ranks run the optimizer themselves; otherwise `null`. */
  learningRate: number | null;
}

const FIELDS = 5;
type Numbers = [number, number, number, number, number, ...number[]];

/**
 * Combines the turns of all ranks: any rank may end training, rank 0 may have set weights, and
 * samples are added up.
 *
 * @throws (rejects) MismatchError on every rank if learning rates differ, because ranks would drift
 *   apart, or if weights were set on other ranks only.
 */
export async function exchangeTurn(group: ProcessGroup, own: OwnTurn): Promise<Turn> {
  const { rank, worldSize } = group;
  const { stops, isChanged, samples, learningRate } = own;
  if (worldSize === 1) return { stops, isChanged, samples };
  // The maximum of the rates is the largest rate; the maximum of the negative rates gives the
  // smallest. Every rank has its own place for its samples.
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
  if (first === 0 && others === 1) checkChanges(await group.allGatherObject(isChanged), group);
  const total = bySize.reduce((sum, each) => sum + each, 0);
  return { stops: anyStops > 0, isChanged: first > 0, samples: total };
}
