/**
 * Compares the states that ranks bring into a generation: elects one, and finds which ranks need
 * which part of it.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { EvaluationComparison } from './progress.ts';
import { PeergradError, type ErrorContext } from '../../util/errors.ts';
import { dissenters, mostFrequentVote } from '../../util/mostFrequentVote.ts';

export interface PeerState {
  /**
   * Whether the rank has no state to vote for: it never shared a state with others and never loaded
   * one, or its state is wrong (`StateTransfer.distrust`).
   */
  isFresh: boolean;
  /** See {@link TrainingProgress}. */
  step: number;
  appliedIn: number;
  previousAppliedIn: number;
  verdicts: EvaluationComparison[];
  /** Digest of all state. */
  digest: string;
  /**
   * Whether the rank still has the averaged gradient of its last step, and that gradient alone
   * leads from the previous state to the current state.
   */
  keepsGradient: boolean;
}

/** The elected state; lists of ranks are ascending. */
export interface ElectedState {
  /** Number of applied steps of the elected state. */
  step: number;
  digest: string;
  /** Ranks that have the elected state. */
  sources: number[];
  /**
   * Ranks whose state is exactly one step behind the elected state; empty if no rank can send the
   * gradient of this step.
   */
  late: number[];
  /** The rank that sends the gradient; `null` if no source has it. */
  gradientSource: number | null;
}

/**
 * Returns the ranks, ascending, whose state has the most steps. If their last steps were applied in
 * different generations, it returns only those with the latest generation.
 */
export function ranksWithLatestState(states: readonly (Pick<PeerState, 'step' | 'appliedIn'> | null)[]): number[] {
  const known = states.flatMap((state) => state ?? []);
  const step = Math.max(...known.map((state) => state.step));
  const appliedIn = Math.max(...known.filter((state) => state.step === step).map((state) => state.appliedIn));
  return states.flatMap((state, rank) => (state?.step === step && state.appliedIn === appliedIn ? [rank] : []));
}

/**
 * Elects the state with the most steps. If several states have this number of steps, it elects the
 * one whose last step was applied in the latest generation: while a rank was away, the other ranks
 * may have repeated that step. If several states are left, it elects the state that most ranks
 * have. Fresh ranks (see {@link PeerState}) have no vote. If all ranks are fresh, it elects rank
 * 0's state.
 */
export function electState(states: readonly PeerState[]): ElectedState {
  const ranks = [...states.keys()];
  const known = ranks.filter((rank) => !states[rank]!.isFresh);
  const latest = known.length > 0 ? ranksWithLatestState(states.map((state) => (state.isFresh ? null : state))) : [0];
  const { step } = states[latest[0]!]!;
  const digest = mostFrequentVote(latest.map((rank) => states[rank]!.digest))!;
  const pool = known.length > 0 ? known : ranks;
  const sources = pool.filter((rank) => states[rank]!.digest === digest);
  const gradientSource = sources.find((rank) => states[rank]!.keepsGradient) ?? null;
  const before = gradientSource === null ? 0 : states[gradientSource]!.previousAppliedIn;
  const late = known.filter((rank) => {
    const state = states[rank]!;
    // It is not enough to compare the numbers of steps: if the last step was repeated in another
    // generation, the state can differ.
    return before !== 0 && state.step === step - 1 && state.appliedIn === before;
  });
  return { step, digest, sources, late, gradientSource };
}

/**
 * Returns the ranks whose vote differs from that of most ranks. Fresh ranks can be in the result,
 * but their votes are ignored unless all ranks are fresh.
 */
export function divergentRanks(votes: readonly string[], isFresh: readonly boolean[]): number[] {
  const known = votes.filter((_, rank) => !isFresh[rank]);
  if (known.length === 0) return dissenters(votes);
  const right = mostFrequentVote(known);
  return votes.flatMap((vote, rank) => (vote === right ? [] : [rank]));
}

/**
 * Throws because a comparison has found that the ranks `divergent` differ. On these ranks it throws
 * `OwnError`, on the others PeergradError, because the others may continue without the divergent
 * ranks. `context.divergent` lists the divergent ranks.
 */
export function rejectDivergentRanks(
  { rank, worldSize }: ProcessGroup,
  divergent: number[],
  OwnError: new (message: string, context: ErrorContext) => PeergradError,
  message: string,
): never {
  const context = { rank, worldSize, divergent };
  throw divergent.includes(rank) ? new OwnError(message, context) : new PeergradError(message, context);
}
