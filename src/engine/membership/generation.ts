/** A generation of a room, as its ranks see it. */
import type { Mesh } from '../../collectives/mesh.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import type { LocalRank } from '../../protocol/seating.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { Link } from '../../transport/link.ts';

export interface Generation extends LocalRank {
  readonly generation: number;
  /** Number of the run. All generations of a run have the same number. */
  readonly run: number;
  readonly rank: number;
  readonly worldSize: number;
  /** Members in ring order. The index of a member is its rank. */
  readonly members: RosterEntry[];
  /**
   * Pairs of ranks that are not neighbours in this ring, because the link between them was slow.
   */
  readonly separated: readonly (readonly [number, number])[];
  readonly job: JobSpec;
  /**
   * Opens and contains the links of this generation: to both ring neighbours, and to other ranks
   * when they are needed.
   */
  readonly mesh: Mesh;
  /** Links to the ring neighbours. The keys are ranks. */
  readonly links: ReadonlyMap<number, Link>;
  /** Aborted when the generation ends on this rank. The reason says why. */
  readonly signal: AbortSignal;
}
