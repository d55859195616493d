/** Runs of ranks, which enter generations over memory links. */
import { Run, type RunOptions } from '../../src/engine/run/run.ts';
import { createMeshes } from '../../src/testing/index.ts';
import type { Link } from '../../src/transport/link.ts';
import { systemClock } from '../../src/util/clock.ts';
import { asError } from '../../src/util/errors.ts';
import { ThreadActivity } from '../../src/util/activity.ts';

/** Prepares a rank's run, with TensorFlow.js's current backend. */
export function prepareTraining(options: Pick<RunOptions, 'job'> & Partial<RunOptions>): Promise<Run> {
  return Run.prepare({
    ...{ shared: null, run: 1, worldSize: 2, files: [], baseUrl: 'http://localhost/', clock: systemClock, from: null },
    activity: new ThreadActivity(systemClock),
    ...{ emit: () => {}, isHidden: () => false, weights: null, carryOver: null },
    opened: { device: { backend: 'cpu', adapter: 'test' }, note: null, check: () => {} },
    ...options,
  });
}

/** Makes all ranks enter a generation of `job` and then call `meanwhile`. */
export async function inGeneration<T>(
  trainings: readonly Run[],
  generation: number,
  job: RunOptions['job'],
  meanwhile: (training: Run) => T | Promise<T>,
  createPair?: () => [Link, Link],
): Promise<(T | Error)[]> {
  const { meshes, links, close } = createMeshes(trainings.length, createPair, generation);
  const members = trainings.map((_, i) => ({ member: `m${i}`, name: `m${i}`, device: null, browser: 0, rank: null }));
  const over = new AbortController();
  const results = await Promise.all(
    trainings.map(async (training, rank) => {
      try {
        await training.enter({
          ...{
            generation,
            run: 1,
            rank,
            worldSize: trainings.length,
            localRank: 0,
            localWorldSize: 1,
            members,
            separated: [],
          },
          ...{ job, mesh: meshes[rank]!, links: links[rank]!, signal: over.signal },
        });
        return await meanwhile(training);
      } catch (error) {
        over.abort(error);
        return asError(error);
      }
    }),
  );
  over.abort(new Error('The generation is over.'));
  close();
  return results;
}
