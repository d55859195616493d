/**
 * Makes the states of all ranks of a group equal. Ranks exchange their states
 * ({@link exchangeStates}), {@link electState} chooses one, and {@link recoverElectedState}
 * transfers it. An interruption at any time leaves each rank with one whole state and the progress
 * that belongs to it. The clients are the strategies, and `elastic` of the library.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { createDebugLog } from '../../util/debugLog.ts';
import { MismatchError } from '../../util/errors.ts';
import { hexOf } from '../../util/hex.ts';
import { nameRanks } from '../../util/text.ts';
import type { ModelVariables } from '../backward/flatten.ts';
import { describeDdpModel, modelDifference, type DdpModelDescription } from '../ddp/verifyModel.ts';
import type { TrainingProgress } from './progress.ts';
import {
  divergentRanks,
  electState,
  rejectDivergentRanks,
  type ElectedState,
  type PeerState,
} from './stateElection.ts';

const log = createDebugLog('recovery');

/**
 * A rank's state, with functions to transfer it. `Head` is a small part of the state; one rank
 * sends it to all others. `State` is the whole state.
 */
export interface StateTransfer<Head, Gradient, State> {
  /** Digest of all state that determines the following steps. */
  digest(): Promise<string>;
  head(): Head;
  /** Repeats the last step; `null` if no rank keeps the averaged gradient of its last step. */
  repeat: LastStep<Head, Gradient> | null;
  /** Gives the state of the ranks `sources` to the others. Every rank must call it. */
  gather(head: Head, sources: readonly number[]): Promise<State>;
  /**
   * Replaces this rank's state by a copy of the elected state. Kept gradients are dropped.
   *
   * @param progress progress of the elected state.
   */
  load(state: State, progress: TrainingProgress): void;
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

/** A rank's state when it enters a group. */
export type EnteringRankState<Note> = PeerState & { model: DdpModelDescription; note: Note };

/**
 * Resolves with the states of all ranks, by rank. Every rank must call it.
 *
 * @param mine this rank's state, and `note`: data for the other ranks.
 * @throws (rejects) if models differ: MismatchError on the ranks whose model differs from most
 *   ranks' model, PeergradError on the others. Both errors have `context.divergent`.
 */
export async function exchangeStates<Note>(
  group: ProcessGroup,
  variables: ModelVariables,
  { step, appliedIn, previousAppliedIn, verdicts }: TrainingProgress,
  mine: Pick<PeerState, 'isFresh' | 'digest' | 'keepsGradient'> & { note: Note },
): Promise<EnteringRankState<Note>[]> {
  const model = describeDdpModel(variables, {});
  const states = await group.allGatherObject({ step, appliedIn, previousAppliedIn, verdicts, model, ...mine });
  const models = states.map((state) => state.model);
  rejectDissenters(group, states, models, (right, odd) => modelDifference(models, right, odd, variables)!);
  return states;
}

/**
 * Checks that all ranks have the same part of a state.
 *
 * @param parts this part of each rank's state.
 * @param differenceOf describes the difference between a right and a divergent rank.
 * @throws MismatchError on the ranks whose part differs from most ranks' part, PeergradError on the
 *   others. Both errors have `context.divergent`.
 */
export function rejectDissenters(
  group: ProcessGroup,
  states: readonly Pick<PeerState, 'isFresh'>[],
  parts: readonly unknown[],
  differenceOf: (right: number, odd: number) => string,
): void {
  const divergent = divergentRanks(
    parts.map((part) => JSON.stringify(part)),
    states.map(({ isFresh }) => isFresh),
  );
  if (divergent.length === 0) return;
  const right = parts.findIndex((_, rank) => !divergent.includes(rank));
  rejectDivergentRanks(group, divergent, MismatchError, differenceOf(right, divergent[0]!));
}

/**
 * Transfers the elected state to all ranks. A rank whose state is one step behind receives the
 * averaged gradient of that step and applies it. Other ranks without the state receive the whole
 * state, in slices from their left neighbours. Every rank must call it.
 *
 * @param states states of all ranks, as {@link exchangeStates} returns them.
 * @param progress this rank's progress; it is overwritten with the progress of the elected state.
 * @returns the states of all ranks before the transfer. `isCurrent` states whether a rank's state
 * was the elected state.
 * @throws (rejects) if states differ after the transfer: MismatchError on the divergent ranks,
 *   PeergradError on the others. Both errors have `context.divergent`. Also rejects with errors of
 *   collectives.
 */
export async function recoverElectedState<Arriving extends PeerState, Head, Gradient, State>(
  group: ProcessGroup,
  states: readonly Arriving[],
  replica: StateTransfer<Head, Gradient, State>,
  progress: TrainingProgress,
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
  progress: TrainingProgress,
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
    // If the group fails before this rank loads the right state, the wrong state must not count as
    // the state of this step.
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

/** Gathers the state hashes of all ranks (16 hexadecimal digits each), in rank order. */
export async function allGatherHashes(group: ProcessGroup, hash: string): Promise<string[]> {
  const mine = Uint8Array.from(hash.match(/../g)!, (byte) => parseInt(byte, 16));
  const all = await group.allGather(mine);
  return all.map((bytes) => hexOf(bytes));
}
