/** What ranks bring into an epoch, compared: whose state is everyone's, and who needs what of it. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Verdict } from './progress.ts';
import { PeergradError, type ErrorContext } from '../../util/errors.ts';
import { dissenters, majority } from '../../util/majority.ts';

export interface Standing {
  /** Whether it has never shared a state with others, nor loaded one. */
  isFresh: boolean;
  /** See {@link Progress}. */
  step: number;
  appliedIn: number;
  previousAppliedIn: number;
  verdicts: Verdict[];
  /** Of all its state. */
  digest: string;
  /** Whether it still has the averaged gradient of its last step, and this alone makes that step of the state before. */
  keepsGradient: boolean;
}

/** All in ranks, ascending. */
export interface Comparison {
  /** Steps of the state that all are to have. */
  step: number;
  digest: string;
  /** Ranks that have it. */
  sources: number[];
  /** Ranks that are known to have the state before its last step; none where nobody can give them that step's gradient. */
  late: number[];
  /** Who gives it. */
  keeper: number | null;
}

/** Ranks, ascending, whose state has the most steps; of several, those whose last step was applied in the latest epoch. */
export function furthest(states: readonly (Pick<Standing, 'step' | 'appliedIn'> | null)[]): number[] {
  const known = states.flatMap((state) => state ?? []);
  const step = Math.max(...known.map((state) => state.step));
  const appliedIn = Math.max(...known.filter((state) => state.step === step).map((state) => state.appliedIn));
  return states.flatMap((state, rank) => (state?.step === step && state.appliedIn === appliedIn ? [rank] : []));
}

/**
 * The state with the most steps. Of several, that of the latest epoch: while a rank was away the others may have taken its last
 * step anew. Of several still, that which most ranks have. Fresh ranks have no say; where all are, it is rank 0's.
 */
export function compareStandings(standings: readonly Standing[]): Comparison {
  const ranks = [...standings.keys()];
  const known = ranks.filter((rank) => !standings[rank]!.isFresh);
  const latest = known.length > 0 ? furthest(standings.map((one) => (one.isFresh ? null : one))) : [0];
  const { step } = standings[latest[0]!]!;
  const digest = majority(latest.map((rank) => standings[rank]!.digest))!;
  const pool = known.length > 0 ? known : ranks;
  const sources = pool.filter((rank) => standings[rank]!.digest === digest);
  const keeper = sources.find((rank) => standings[rank]!.keepsGradient) ?? null;
  const before = keeper === null ? 0 : standings[keeper]!.previousAppliedIn;
  const late = known.filter((rank) => {
    const one = standings[rank]!;
    // After as many steps a rank may have another state: it applied the last of them in an epoch whose others took it again.
    return before !== 0 && one.step === step - 1 && one.appliedIn === before;
  });
  return { step, digest, sources, late, keeper };
}

/** Ranks whose vote differs from most; those that are fresh are judged, but have no say where others are not. */
export function oddOnes(votes: readonly string[], isFresh: readonly boolean[]): number[] {
  const known = votes.filter((_, rank) => !isFresh[rank]);
  if (known.length === 0) return dissenters(votes);
  const right = majority(known);
  return votes.flatMap((vote, rank) => (vote === right ? [] : [rank]));
}

/**
 * Ends a comparison that `odd` ranks do not pass: on those with `OddError`, as they are wrong here, on the others with a
 * PeergradError, as they may go on without them. `context.odd` names them.
 */
export function refuseOdd(
  { rank, worldSize }: ProcessGroup,
  odd: number[],
  OddError: new (message: string, context: ErrorContext) => PeergradError,
  message: string,
): never {
  const context = { rank, worldSize, odd };
  throw odd.includes(rank) ? new OddError(message, context) : new PeergradError(message, context);
}
