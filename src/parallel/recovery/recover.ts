/**
 * Makes the states of all ranks of a group equal. {@link electState} chooses the state; this file
 * transfers it. An interruption at any time leaves each rank with one whole state and the progress
 * that belongs to it.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { debugLog } from '../../util/debugLog.ts';
import { MismatchError } from '../../util/errors.ts';
import { nameRanks } from '../../util/text.ts';
import { allGatherHashes } from './hashes.ts';
import type { Progress } from './progress.ts';
import { electState, rejectDivergentRanks, type ElectedState, type PeerState } from './stateElection.ts';

const log = debugLog('recovery');

/**
 * A rank's state, with functions to transfer it. `Head` is a small part of the state; one rank
 * sends it to all others. `State` is the whole state.
 */
export interface StateTransfer<Head, Gradient, State> {
  /** Digest of all state that determines the following steps. */
  digest(): Promise<string>;
  head(): Head;
  /** `null` if no rank keeps the averaged gradient of its last step. */
  repeat: LastStep<Head, Gradient> | null;
  /** Gives the state of the ranks `sources` to the others. Every rank must call it. */
  gather(head: Head, sources: readonly number[]): Promise<State>;
  /**
   * Replaces this rank's state by a copy of the elected state. Kept gradients are dropped.
   *
   * @param progress progress of the elected state.
   */
  load(state: State, progress: Progress): void;
}

/** Repeats the last step on a rank that is one step behind. */
interface LastStep<Head, Gradient> {
  /**
   * Gives all ranks the averaged gradient of the last step, which rank `source` of the group has.
   * Every rank must call it.
   */
  broadcastGradient(source: number): Promise<Gradient>;
  /** Applies a step's averaged gradient. Kept gradients of that step are dropped. */
  catchUp(gradient: Gradient, head: Head): void;
  /** Marks the state as wrong: it has no vote until another state is loaded. */
  distrust(): void;
}

/**
 * Transfers the elected state to all ranks. A rank whose state is one step behind receives the
 * averaged gradient of that step and applies it. Other ranks without the state receive the whole
 * state, in slices from their left neighbours. Every rank must call it.
 *
 * @param states states of all ranks, by rank.
 * @param progress this rank's progress; it is overwritten with the progress of the elected state.
 * @returns the states of all ranks before the transfer. `isCurrent` states whether a rank's state
 * was the elected state.
 * @throws (rejects) if states differ after the transfer: MismatchError on the divergent ranks,
 *   PeergradError on the others, both with `context.divergent`; errors of collectives.
 */
export async function recover<Arriving extends PeerState, Head, Gradient, State>(
  group: ProcessGroup,
  states: readonly Arriving[],
  replica: StateTransfer<Head, Gradient, State>,
  progress: Progress,
): Promise<(Arriving & { isCurrent: boolean })[]> {
  const comparison = electState(states);
  const { sources, step, digest } = comparison;
  log(() => {
    const steps = states.map((state, rank) => `${rank}: ${state.isFresh ? 'fresh' : state.step}`).join(', ');
    return `${nameOf(group)}, elects step ${step} (${digest.slice(0, 8)}) of ranks ${sources.join(', ')}; steps by rank: ${steps}.`;
  });
  if (sources.length < group.worldSize) await equalize(group, states, comparison, replica, progress);
  // Verdicts (the results of evaluations) are not part of the digest: if some ranks repeat an
  // evaluation in another generation, its result can differ in the last bit. So all ranks copy the
  // verdicts of one rank that has the elected state.
  progress.verdicts = states[sources[0]!]!.verdicts;
  return states.map((state, rank) => ({ ...state, isCurrent: sources.includes(rank) }));
}

/** This rank, for the debug log. */
function nameOf({ rank, generation }: ProcessGroup): string {
  return `Rank ${rank}, generation ${generation}`;
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
  const { repeat } = replica;
  if (repeat && gradientSource !== null && late.length > 0) {
    log(
      () => `${nameOf(group)}: rank ${gradientSource} sends the gradient of the last step to ranks ${late.join(', ')}.`,
    );
    const gradient = await repeat.broadcastGradient(gradientSource);
    const isLate = late.includes(rank);
    if (isLate) {
      repeat.catchUp(gradient, theirs.head);
      Object.assign(progress, theirs.progress);
    }
    const own = await replica.digest();
    if (isLate)
      log(() => `${nameOf(group)}, repeats the last step; its state is ${own === digest ? 'equal' : 'not equal'} now.`);
    // A wrong state must not count as the state of this step if the group fails before this rank
    // loads the right state.
    if (isLate && own !== digest) repeat.distrust();
    digests = await allGatherHashes(group, own);
  }
  if (digests.every((other) => other === digest)) return;

  log(() => `${nameOf(group)}: ranks ${sources.join(', ')} send the whole state to the others.`);
  const state = await replica.gather(theirs.head, sources);
  if (digests[rank] !== digest) {
    replica.load(state, theirs.progress);
    Object.assign(progress, theirs.progress);
  }
  const now = await allGatherHashes(group, await replica.digest());
  const divergent = [...now.keys()].filter((other) => now[other] !== digest);
  if (divergent.length === 0) return;
  rejectDivergentRanks(
    group,
    divergent,
    MismatchError,
    `The state of ${nameRanks(divergent)} still differs after the other ranks' state was loaded. Either a machine computes wrong ` +
      'results, or it runs another version of the page. Reload the page there.',
  );
}
