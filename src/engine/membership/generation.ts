/** One generation of a room, as its ranks see it. */
import type { Mesh } from '../../collectives/mesh.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import type { LocalRank } from '../../protocol/seating.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { Link } from '../../transport/link.ts';

export interface Generation extends LocalRank {
  readonly generation: number;
  /** Generations of one run share its number. */
  readonly run: number;
  readonly rank: number;
  readonly worldSize: number;
  /** In ring order: index is rank. */
  readonly members: RosterEntry[];
  /** Pairs of ranks that the ring order keeps apart, as the link between them was slow. */
  readonly separated: readonly (readonly [number, number])[];
  readonly job: JobSpec;
  /** Links of this generation: to both ring neighbours, and to other ranks on demand. */
  readonly mesh: Mesh;
  /** Links to the ring neighbours, by rank. */
  readonly links: ReadonlyMap<number, Link>;
  /** Aborted if the generation ends before its run. */
  readonly signal: AbortSignal;
}
