/** Compares the data of a world's ranks, and counts samples. */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import { divergentRanks, rejectDivergentRanks } from '../../../parallel/recovery/stateElection.ts';
import { DataError } from '../../../util/errors.ts';
import type { Task } from '../../tasks/task.ts';

interface ComparedData {
  /** Training samples by rank. */
  samples: number[];
  /** Samples of all ranks. Samples that all ranks have count once. */
  train: number;
  test: number;
}

/**
 * Compares hashes of the ranks' data: windows are assigned by index, so every rank must have the
 * same samples, or, if each has its own, have agreed on the same facts. Every rank must call it.
 *
 * @param dataHash the hash of the task's data.
 * @param isFresh whether this rank has no state: its data does not decide if other ranks have one.
 * @throws (rejects) DataError on divergent ranks, PeergradError on the others, with
 *   `context.divergent`.
 */
export async function compareData(
  group: ProcessGroup,
  { trainSamples, testSamples, isShard = false, dataAdvice }: Task,
  { dataHash, isFresh }: { dataHash: string; isFresh: boolean },
): Promise<ComparedData> {
  const all = await group.allGatherObject({ dataHash, isFresh, train: trainSamples, test: testSamples });
  const divergent = divergentRanks(
    all.map((rank) => rank.dataHash),
    all.map((rank) => rank.isFresh),
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
  return counts.reduce((total, count) => total + count, 0);
}
