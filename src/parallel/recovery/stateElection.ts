/**
 * Compares the states that ranks bring into a generation: elects one, and finds which ranks need
 * which part of it.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Verdict } from './progress.ts';
import { PeergradError, type ErrorContext } from '../../util/errors.ts';
import { dissenters, majority } from '../../util/majority.ts';

export interface PeerState {
  /** Whether the rank never shared a state with others and never loaded one. */
  isFresh: boolean;
  /** See {@link Progress}. */
  step: number;
  appliedIn: number;
  previousAppliedIn: number;
  verdicts: Verdict[];
  /** Digest of all state. */
  digest: string;
  /**
   * Whether the rank still has the averaged gradient of its last step, and that gradient alone
   * leads from the previous state to this one.
   */
  keepsGradient: boolean;
}

/** The elected state; lists of ranks are ascending. */
export interface ElectedState {
  /** Steps of the elected state. */
  step: number;
  digest: string;
  /** Ranks that have the state. */
  sources: number[];
  /**
   * Ranks that have the state of one step before; empty if no rank can send the gradient of that
   * step.
   */
  late: number[];
  /** The rank that sends the gradient; `null` if no source has it. */
  gradientSource: number | null;
}

/**
 * Ranks, ascending, whose state has the most steps; of several, those whose last step was applied
 * in the latest generation.
 */
export function latestStates(states: readonly (Pick<PeerState, 'step' | 'appliedIn'> | null)[]): number[] {
  const known = states.flatMap((state) => state ?? []);
  const step = Math.max(...known.map((state) => state.step));
  const appliedIn = Math.max(...known.filter((state) => state.step === step).map((state) => state.appliedIn));
  return states.flatMap((state, rank) => (state?.step === step && state.appliedIn === appliedIn ? [rank] : []));
}

/**
 * Elects the state with the most steps. Among several it elects that of the latest generation:
 * while a rank was away, the others may have taken its last step again. Among several of these it
 * elects the one of most ranks. Fresh ranks have no vote; if all are fresh, it is rank 0's state.
 */
export function electState(states: readonly PeerState[]): ElectedState {
  const ranks = [...states.keys()];
  const known = ranks.filter((rank) => !states[rank]!.isFresh);
  const latest = known.length > 0 ? latestStates(states.map((state) => (state.isFresh ? null : state))) : [0];
  const { step } = states[latest[0]!]!;
  const digest = majority(latest.map((rank) => states[rank]!.digest))!;
  const pool = known.length > 0 ? known : ranks;
  const sources = pool.filter((rank) => states[rank]!.digest === digest);
  const gradientSource = sources.find((rank) => states[rank]!.keepsGradient) ?? null;
  const before = gradientSource === null ? 0 : states[gradientSource]!.previousAppliedIn;
  const late = known.filter((rank) => {
    const state = states[rank]!;
    // The number of steps is not enough: if a rank applied its last step in a generation that
    // repeated it, its state differs.
    return before !== 0 && state.step === step - 1 && state.appliedIn === before;
  });
  return { step, digest, sources, late, gradientSource };
}

/**
 * Ranks whose vote differs from that of most. Fresh ranks are judged, but have no vote unless all
 * are fresh.
 */
export function divergentRanks(votes: readonly string[], isFresh: readonly boolean[]): number[] {
  const known = votes.filter((_, rank) => !isFresh[rank]);
  if (known.length === 0) return dissenters(votes);
  const right = majority(known);
  return votes.flatMap((vote, rank) => (vote === right ? [] : [rank]));
}

/**
 * Rejects a comparison that `divergent` ranks do not pass: with `OwnError` on those ranks, with
 * PeergradError on the others, which may continue without them. `context.divergent` names them.
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
