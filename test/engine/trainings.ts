/** Tabs' parts in runs, in epochs over memory links. */
import { Training, type TrainingOptions } from '../../src/engine/training/runParticipant.ts';
import { createMeshes } from '../../src/testing/index.ts';
import { systemClock } from '../../src/util/clock.ts';
import { asError } from '../../src/util/errors.ts';

/** On TensorFlow.js's current backend. */
export function prepareTraining(options: Pick<TrainingOptions, 'job'> & Partial<TrainingOptions>): Promise<Training> {
  return Training.prepare({
    ...{ shared: null, run: 1, worldSize: 2, files: [], baseUrl: 'http://localhost/', clock: systemClock, from: null },
    ...{ emit: () => {}, isHidden: () => false, weights: null, keepsakes: null },
    opened: { device: { backend: 'cpu', adapter: 'test' }, note: null, check: () => {} },
    ...options,
  });
}

/** Has all enter an epoch of `job`, and then `meanwhile`. */
export async function inEpoch<T>(
  trainings: readonly Training[],
  epoch: number,
  job: TrainingOptions['job'],
  meanwhile: (training: Training) => T | Promise<T>,
): Promise<(T | Error)[]> {
  const { meshes, links, close } = createMeshes(trainings.length, undefined, epoch);
  const members = trainings.map((_, i) => ({ member: `m${i}`, name: `m${i}`, device: null, browser: 0, rank: null }));
  const over = new AbortController();
  const results = await Promise.all(
    trainings.map(async (training, rank) => {
      try {
        await training.enter({
          ...{ epoch, run: 1, rank, worldSize: trainings.length, localRank: 0, localWorldSize: 1, members, parted: [] },
          ...{ job, mesh: meshes[rank]!, links: links[rank]!, signal: over.signal },
        });
        return await meanwhile(training);
      } catch (error) {
        over.abort(error);
        return asError(error);
      }
    }),
  );
  over.abort(new Error('The epoch is over.'));
  close();
  return results;
}
