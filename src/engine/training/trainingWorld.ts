/**
 * The ranks with which a generation trains. They are the ranks of the room, or replicas in one tab.
 */
import type { JobSpec } from '../../spec/job.ts';
import { UsageError } from '../../util/errors.ts';
import type { Generation } from '../membership/generation.ts';
import { startReplicas, type Replicas } from './replicas.ts';

type TrainingWorld = Omit<Generation, 'generation' | 'run' | 'job'>;

/**
 * Returns the room's ranks. With the strategy `data-parallel`, starts replicas and returns them.
 *
 * @throws UsageError if the strategy is `data-parallel` and the room has several tabs.
 */
export function worldOf(
  generation: Generation,
  { job, files, baseUrl }: { job: JobSpec; files: File[]; baseUrl: string },
): { world: TrainingWorld; replicas: Replicas | null } {
  if (job.strategy !== 'data-parallel') return { world: generation, replicas: null };
  if (generation.worldSize > 1) {
    throw new UsageError(
      `The strategy data-parallel runs in one tab, but this room has ${generation.worldSize} tabs. Choose the strategy ddp for several tabs.`,
    );
  }
  const lost = new AbortController();
  const replicas = startReplicas(
    { worldSize: job.replicas, generation: generation.generation, job, files, baseUrl },
    (error) => lost.abort(error),
  );
  const [self] = generation.members;
  const world = {
    rank: 0,
    worldSize: job.replicas,
    localRank: 0,
    localWorldSize: job.replicas,
    members: Array.from({ length: job.replicas }, (_, i) => ({ ...self!, name: `replica ${i}` })),
    separated: [],
    mesh: replicas.mesh,
    links: replicas.links,
    signal: AbortSignal.any([generation.signal, lost.signal]),
  };
  return { world, replicas };
}
