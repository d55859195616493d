/** Compares the arguments of a call between ranks before any rank trains. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { sketchDifference, type TensorSketch } from './sketches.ts';
import { MismatchError, PeergradError, errorReasonOf, UsageError } from '../../util/errors.ts';

/** Arguments that must be the same on every rank. The keys are names for errors. */
export type SharedArguments = Readonly<Record<string, string | number | boolean | null>>;

/**
 * Sketches of samples that must be equal on all ranks, except for rounding. The keys are names for
 * errors.
 */
export type SampleSketches = Readonly<Record<string, readonly TensorSketch[]>>;

/**
 * A rank's arguments. `shared` and `sketches` must be equal on all ranks; `own` may differ between
 * ranks.
 */
export interface RankArguments<Own> {
  shared: SharedArguments;
  sketches?: SampleSketches | undefined;
  own: Own;
}

/**
 * Prepares a call on every rank, and compares the arguments. A rank whose preparation fails reports
 * the failure, so that all ranks reject and the group stays usable.
 *
 * @param call name of the method, for errors.
 * @param prepare checks this rank's arguments.
 * @returns the `own` arguments of all ranks, by rank.
 * @throws (rejects) errors of `prepare` on the rank where it fails, and UsageError on the others;
 *   MismatchError on every rank if shared arguments differ.
 */
export async function agreeOnArguments<Own>(
  group: ProcessGroup,
  call: string,
  prepare: () => RankArguments<Own> | Promise<RankArguments<Own>>,
): Promise<Own[]> {
  const { rank, worldSize } = group;
  let mine: RankArguments<Own> | null = null;
  let error: unknown = null;
  try {
    mine = await prepare();
  } catch (thrown) {
    error = thrown;
  }
  const all = await group.allGatherObject(
    mine
      ? { call, ...mine, reason: null }
      : { call, shared: {}, sketches: {}, own: null, reason: errorReasonOf(error) },
  );
  if (!mine) {
    if (error instanceof PeergradError) throw error;
    throw new UsageError(
      `Rank ${rank} cannot run ${call}: ${errorReasonOf(error)}.`,
      { rank, worldSize },
      { cause: error },
    );
  }
  for (const [other, { reason }] of all.entries()) {
    if (reason !== null) throw new UsageError(`Rank ${other} cannot run ${call}: ${reason}.`, { rank, worldSize });
  }
  for (const [other, theirs] of all.entries()) {
    const difference =
      theirs.call === all[0]!.call
        ? (differenceOf(call, all[0]!.shared, theirs.shared, other) ??
          describeSketchDifference(call, [all[0]!.sketches, 0], [theirs.sketches, other]))
        : `Rank 0 called ${all[0]!.call}, but rank ${other} called ${theirs.call}. Call the same method on every rank.`;
    if (difference !== null) throw new MismatchError(difference, { rank, worldSize, divergent: [other] });
  }
  return all.map(({ own }) => own as Own);
}

function differenceOf(call: string, first: SharedArguments, theirs: SharedArguments, other: number): string | null {
  const names = new Set([...Object.keys(first), ...Object.keys(theirs)]);
  for (const name of names) {
    const [right, wrong] = [first[name] ?? null, theirs[name] ?? null];
    if (right === wrong) continue;
    const advice =
      name === 'x' || name === 'y'
        ? 'Pass the same samples on every rank, or `sharded: true` if every rank has its own samples.'
        : 'It must be the same on every rank.';
    return `${call}: ${name} is ${String(wrong)} on rank ${other}, but ${String(right)} on rank 0. ${advice}`;
  }
  return null;
}

/**
 * Returns a sentence about the difference between two ranks' samples, or `null` if they are equal.
 */
export function describeSketchDifference(
  call: string,
  [mine, rank]: [SampleSketches | undefined, number],
  [theirs, other]: [SampleSketches | undefined, number],
): string | null {
  for (const [name, sketches] of Object.entries(mine ?? {})) {
    for (const [i, sketch] of sketches.entries()) {
      const sketchOfOther = theirs?.[name]?.[i];
      const found = sketchOfOther ? sketchDifference(sketch, sketchOfOther) : null;
      if (found === null) continue;
      const what = found === 'order' ? 'the same samples in another order' : 'other samples';
      return (
        `${call}: ${name} has ${what} on rank ${other} than on rank ${rank}. Pass the same samples in the same order on every ` +
        'rank: shuffle them with the same seed, or not at all, because fit shuffles them. Pass `sharded: true` if every rank ' +
        'has its own samples.'
      );
    }
  }
  return null;
}
