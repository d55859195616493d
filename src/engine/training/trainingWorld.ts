/** The ranks that a generation trains with: those of the room, or the replicas of one tab. */
import type { JobSpec } from '../../spec/job.ts';
import { UsageError } from '../../util/errors.ts';
import type { Generation } from '../membership/generation.ts';
import { startReplicas, type Replicas } from './replicas.ts';

type TrainingWorld = Omit<Generation, 'generation' | 'run' | 'job'>;

/**
 * Returns the room's ranks; with the strategy `data-parallel`, replicas that it starts.
 *
 * @throws UsageError for `data-parallel` in a room of several tabs.
 */
export function worldOf(
  generation: Generation,
  { job, files, baseUrl }: { job: JobSpec; files: File[]; baseUrl: string },
): { world: TrainingWorld; replicas: Replicas | null } {
  if (job.strategy !== 'data-parallel') return { world: generation, replicas: null };
  if (generation.worldSize > 1) {
    throw new UsageError(
      `The strategy data-parallel runs in one tab, and this room has ${generation.worldSize}: choose ddp for several tabs.`,
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
