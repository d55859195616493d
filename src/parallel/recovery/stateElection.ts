/**
 * What ranks bring into a generation, compared: whose state is everyone's, and who needs what of
 * it.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Verdict } from './progress.ts';
import { PeergradError, type ErrorContext } from '../../util/errors.ts';
import { dissenters, majority } from '../../util/majority.ts';

export interface PeerState {
  /** Whether it has never shared a state with others, nor loaded one. */
  isFresh: boolean;
  /** See {@link Progress}. */
  step: number;
  appliedIn: number;
  previousAppliedIn: number;
  verdicts: Verdict[];
  /** Of all its state. */
  digest: string;
  /**
   * Whether it still has the averaged gradient of its last step, and this alone makes that step of
   * the state before.
   */
  keepsGradient: boolean;
}

/** All in ranks, ascending. */
export interface ElectedState {
  /** Steps of the state that all are to have. */
  step: number;
  digest: string;
  /** Ranks that have it. */
  sources: number[];
  /**
   * Ranks that are known to have the state before its last step; none where nobody can give them
   * that step's gradient.
   */
  late: number[];
  /** Who gives it. */
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
 * The state with the most steps. Of several, that of the latest generation: while a rank was away
 * the others may have taken its last step anew. Of several still, that which most ranks have. Fresh
 * ranks have no say; where all are, it is rank 0's.
 */
export function electState(states: readonly PeerState[]): ElectedState {
  const ranks = [...states.keys()];
  const known = ranks.filter((rank) => !states[rank]!.isFresh);
  const latest = known.length > 0 ? latestStates(states.map((one) => (one.isFresh ? null : one))) : [0];
  const { step } = states[latest[0]!]!;
  const digest = majority(latest.map((rank) => states[rank]!.digest))!;
  const pool = known.length > 0 ? known : ranks;
  const sources = pool.filter((rank) => states[rank]!.digest === digest);
  const gradientSource = sources.find((rank) => states[rank]!.keepsGradient) ?? null;
  const before = gradientSource === null ? 0 : states[gradientSource]!.previousAppliedIn;
  const late = known.filter((rank) => {
    const one = states[rank]!;
    // After as many steps a rank may have another state: it applied the last of them in a
    // generation whose others took it again.
    return before !== 0 && one.step === step - 1 && one.appliedIn === before;
  });
  return { step, digest, sources, late, gradientSource };
}

/**
 * Ranks whose vote differs from most; those that are fresh are judged, but have no say where others
 * are not.
 */
export function divergentRanks(votes: readonly string[], isFresh: readonly boolean[]): number[] {
  const known = votes.filter((_, rank) => !isFresh[rank]);
  if (known.length === 0) return dissenters(votes);
  const right = majority(known);
  return votes.flatMap((vote, rank) => (vote === right ? [] : [rank]));
}

/**
 * Ends a comparison that `odd` ranks do not pass: on those with `OddError`, as they are wrong here,
 * on the others with a PeergradError, as they may go on without them. `context.odd` names them.
 */
export function rejectDivergentRanks(
  { rank, worldSize }: ProcessGroup,
  divergent: number[],
  OddError: new (message: string, context: ErrorContext) => PeergradError,
  message: string,
): never {
  const context = { rank, worldSize, divergent };
  throw divergent.includes(rank) ? new OddError(message, context) : new PeergradError(message, context);
}
