/** Whether the ranks of a world have data that belong together, and how much each has. */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import { divergentRanks, rejectDivergentRanks } from '../../../parallel/recovery/stateElection.ts';
import { DataError } from '../../../util/errors.ts';
import type { Task } from '../../tasks/task.ts';

interface ComparedData {
  /** Training samples by rank. */
  samples: number[];
  /** All ranks' samples; those that all have count once. */
  train: number;
  test: number;
}

/**
 * Windows are dealt out by index: every rank must hold the same samples, or, where each has its
 * own, such as go by the same. Every rank must call it.
 *
 * @param dataHash the task's.
 * @param isFresh whether this rank has no state: others are not judged by its data.
 * @throws (rejects) DataError on ranks that do not, PeergradError on the others, with
 *   `context.odd`.
 */
export async function compareData(
  group: ProcessGroup,
  { trainSamples, testSamples, isShard = false, dataAdvice }: Task,
  { dataHash, isFresh }: { dataHash: string; isFresh: boolean },
): Promise<ComparedData> {
  const all = await group.allGatherObject({ dataHash, isFresh, train: trainSamples, test: testSamples });
  const divergent = divergentRanks(
    all.map((one) => one.dataHash),
    all.map((one) => one.isFresh),
  );
  if (divergent.length > 0) {
    rejectDivergentRanks(
      group,
      divergent,
      DataError,
      `Rank ${divergent.join(', ')} has other data than the others: ${dataAdvice}.`,
    );
  }
  const samples = all.map(({ train }) => train);
  const empty = samples.flatMap((count, rank) => (count === 0 ? [rank] : []));
  if (empty.length > 0) {
    rejectDivergentRanks(
      group,
      empty,
      DataError,
      `Rank ${empty.join(', ')} has no samples to learn from: give that tab some.`,
    );
  }
  if (!isShard) return { samples, train: trainSamples, test: testSamples };
  return { samples, train: sum(samples), test: sum(all.map(({ test }) => test)) };
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, one) => total + one, 0);
}
