/** Compares the data of all ranks of a world, and counts samples. */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import { divergentRanks, rejectDivergentRanks } from '../../../parallel/recovery/stateElection.ts';
import { DataError } from '../../../util/errors.ts';
import { nameRanks } from '../../../util/text.ts';
import type { TrainingTask } from '../../tasks/task.ts';

interface ComparedData {
  /** The number of training samples on each rank. */
  samples: number[];
  /**
   * The number of training samples on all ranks together. Samples that all ranks have are counted
   * once.
   */
  train: number;
  test: number;
}

/**
 * Compares hashes of the ranks' data. Samples are assigned by index, so all ranks must have the
 * same samples. If each rank has samples of its own, all ranks must have agreed on the same facts
 * about them. Every rank must call it.
 *
 * @param dataHash the hash of the task's data.
 * @param isFresh whether this rank has no state. If some ranks have a state, only the data of those
 *   ranks decides which hash is right.
 * @throws (rejects) DataError on divergent ranks, PeergradError on the others, with
 *   `context.divergent`.
 */
export async function compareDataHashes(
  group: ProcessGroup,
  {
    trainSamples,
    testSamples,
    isShard = false,
    dataAdvice,
  }: Pick<TrainingTask, 'trainSamples' | 'testSamples' | 'isShard' | 'dataAdvice'>,
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
      `The data of ${nameRanks(divergent)} differs from the data of the other ranks: ${dataAdvice}.`,
    );
  }
  const samples = all.map(({ train }) => train);
  const empty = samples.flatMap((count, rank) => (count === 0 ? [rank] : []));
  if (empty.length > 0) {
    rejectDivergentRanks(
      group,
      empty,
      DataError,
      `There are no training samples on ${nameRanks(empty)}. Choose files with samples there.`,
    );
  }
  if (!isShard) return { samples, train: trainSamples, test: testSamples };
  return { samples, train: sum(samples), test: sum(all.map(({ test }) => test)) };
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}
