/** A generation of a room, as its ranks see it. */
import type { Mesh } from '../../collectives/mesh.ts';
import type { ProcessGroupOptions, AwaitedRanksActivity } from '../../collectives/options.ts';
import { ProcessGroup } from '../../collectives/processGroup.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { Pulse, RosterEntry } from '../../protocol/room.ts';
import { isWorkingOrAwaitsWork } from '../../util/activity.ts';
import type { Clock } from '../../util/clock.ts';
import { asError } from '../../util/errors.ts';
import { capitalizeFirst } from '../../util/text.ts';
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
  /**
   * Asks the server about the activity of the ranks that an op waits for. `undefined` for replicas
   * in one tab, because they have no server.
   */
  readonly activityOf?: ProcessGroupOptions['activityOf'];
  /** Aborted when the generation ends on this rank. The reason says why. */
  readonly signal: AbortSignal;
}

/**
 * Calls `use` with a process group of the generation. The group ends with the call, or earlier with
 * the generation.
 *
 * @throws (rejects) the errors of `use`, and the reason of the generation's signal.
 */
export async function runInGenerationGroup(
  { mesh, signal }: Generation,
  clock: Clock,
  use: (group: ProcessGroup) => Promise<void>,
): Promise<void> {
  signal.throwIfAborted();
  const group = new ProcessGroup(mesh, { clock });
  signal.addEventListener('abort', () => group.abort(asError(signal.reason)), { once: true });
  try {
    await use(group);
  } finally {
    group.destroy();
  }
}

/**
 * Creates the process group of a run or a lesson. The group ends with the generation. Tells the
 * page who takes part in the group.
 */
export function openRunGroup(
  entered: Generation,
  { clock, emit, timeoutMs }: { clock: Clock; emit: (event: EngineEvent) => void; timeoutMs?: number },
): ProcessGroup {
  const { generation, run, job, rank, worldSize, localRank, localWorldSize, members, separated, signal } = entered;
  emit({
    type: 'generation',
    generation,
    run,
    rank,
    worldSize,
    localRank,
    localWorldSize,
    members,
    ...(separated.length > 0 && { separated }),
    job,
  });
  const group = new ProcessGroup(entered.mesh, {
    ...{ localRank, localWorldSize, clock, activityOf: entered.activityOf },
    ...(timeoutMs !== undefined && { timeoutMs }),
  });
  signal.addEventListener('abort', () => group.abort(asError(signal.reason)), { once: true });
  return group;
}

/** Tells the page how this rank is linked to its neighbours. */
export async function emitNeighbourLinks({ links }: Generation, emit: (event: EngineEvent) => void): Promise<void> {
  for (const [peerRank, link] of links) {
    const { route, roundTripMs } = await link.describe();
    emit({ type: 'link', peerRank, up: link.state === 'open', route, roundTripMs });
  }
}

/** @param pulses the latest pulse of each member that the server knows; the keys are member ids. */
export function activityOfRanks(
  ranks: readonly number[],
  members: readonly RosterEntry[],
  pulses: ReadonlyMap<string, Pulse>,
): AwaitedRanksActivity {
  const nameOf = (rank: number): string => `rank ${rank} (${members[rank]!.name})`;
  return {
    areWorking: ranks.every((rank) => isWorkingOrAwaitsWork(members[rank]!.member, (member) => pulses.get(member))),
    text: ranks
      .map((rank) => {
        const pulse = pulses.get(members[rank]!.member);
        const awaited = members.flatMap(({ member }, one) => (pulse?.awaits?.includes(member) ? [nameOf(one)] : []));
        return `${capitalizeFirst(nameOf(rank))} ${deedOf(pulse, awaited)}.`;
      })
      .join(' '),
  };
}

function deedOf(pulse: Pulse | undefined, awaited: readonly string[]): string {
  if (pulse === undefined) return 'is not known to the server';
  const what = pulse.task === '' ? '' : ` "${pulse.task}"`;
  const since = `for ${Math.round(pulse.ms / 1000)} s`;
  if (pulse.isSilent) return `has computed${what} ${since} without an answer`;
  if (what === '' && awaited.length > 0) return `waits for ${awaited.join(', ')}`;
  return what === '' ? 'answers, but computes nothing' : `has been in${what} ${since}`;
}
