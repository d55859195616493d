/**
 * Ranks that come to a group with different states go on with one. {@link electState} decides
 * whose; here it travels, and whatever breaks meanwhile leaves each rank with one whole state and
 * the progress that belongs to it.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { MismatchError } from '../../util/errors.ts';
import { allGatherHashes } from './hashes.ts';
import type { Progress } from './progress.ts';
import { electState, rejectDivergentRanks, type ElectedState, type PeerState } from './stateElection.ts';

/**
 * A rank's state and how it travels. `Head` is the small part of it, which one rank sends; `State`
 * is all of it.
 */
export interface StateTransfer<Head, Gradient, State> {
  /** Digest of everything that makes two ranks go on alike. */
  digest(): Promise<string>;
  head(): Head;
  /**
   * Broadcasts the averaged gradient of the last step from rank `gradientSource` of the group. Every rank
   * must call it.
   */
  broadcastGradient(gradientSource: number): Promise<Gradient>;
  /** Applies a step's averaged gradient. What is held of that step is dropped. */
  catchUp(gradient: Gradient, head: Head): void;
  /** Takes the state's vote away until it has loaded another. */
  distrust(): void;
  /** Gathers the state that `sources` have. Every rank must call it. */
  gather(head: Head, sources: readonly number[]): Promise<State>;
  /** Copies a state in. What is held of a step is dropped. */
  load(state: State): void;
}

/**
 * Gives all ranks the state that counts. A rank that has the state before its last step gets that
 * step's averaged gradient and applies it; others that lack it get everything, in slices from all
 * that have it. Every rank must call it.
 *
 * @param states of all ranks, by rank.
 * @param progress this rank's; becomes that of the state.
 * @returns all ranks as they came, and whether each had the state that all have now.
 * @throws (rejects) MismatchError on ranks whose state differs in the end, PeergradError on the
 *   others, with `context.odd`; what collectives reject with.
 */
export async function recover<Arriving extends PeerState, Head, Gradient, State>(
  group: ProcessGroup,
  states: readonly Arriving[],
  replica: StateTransfer<Head, Gradient, State>,
  progress: Progress,
): Promise<(Arriving & { isCurrent: boolean })[]> {
  const comparison = electState(states);
  const { sources } = comparison;
  if (sources.length < group.worldSize) await equalize(group, states, comparison, replica, progress);
  // No digest covers them: a test that some ranks repeated in another world came out otherwise by
  // the last bit.
  progress.verdicts = states[sources[0]!]!.verdicts;
  return states.map((state, rank) => ({ ...state, isCurrent: sources.includes(rank) }));
}

async function equalize<Head, Gradient, State>(
  group: ProcessGroup,
  states: readonly PeerState[],
  { digest, sources, late, gradientSource }: ElectedState,
  replica: StateTransfer<Head, Gradient, State>,
  progress: Progress,
): Promise<void> {
  const { rank, ranks } = group;
  const [source] = sources;
  const theirs = await group.broadcastObject(
    rank === source ? { progress, head: replica.head() } : undefined,
    ranks[source!]!,
  );
  let digests = states.map((state) => state.digest);
  if (gradientSource !== null && late.length > 0) {
    const gradient = await replica.broadcastGradient(gradientSource);
    const isLate = late.includes(rank);
    if (isLate) {
      replica.catchUp(gradient, theirs.head);
      Object.assign(progress, theirs.progress);
    }
    const own = await replica.digest();
    // If the group breaks before this rank has loaded the right state, the wrong one must not count
    // for that of this step.
    if (isLate && own !== digest) replica.distrust();
    digests = await allGatherHashes(group, own);
  }
  if (digests.every((one) => one === digest)) return;

  const state = await replica.gather(theirs.head, sources);
  if (digests[rank] !== digest) {
    replica.load(state);
    Object.assign(progress, theirs.progress);
  }
  const now = await allGatherHashes(group, await replica.digest());
  const divergent = [...now.keys()].filter((one) => now[one] !== digest);
  if (divergent.length === 0) return;
  rejectDivergentRanks(
    group,
    divergent,
    MismatchError,
    `Rank ${divergent.join(', ')} has taken over the others' state, and its own differs from it all the same: that machine ` +
      'computes wrongly or runs another version of the page.',
  );
}
