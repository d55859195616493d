/**
 * Whether every rank has built the same model and wrapped it in the same way: the check before
 * anything is shared.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { MismatchError, UsageError } from '../../util/errors.ts';
import type { SharedOptions } from './options.ts';
import type { ModelVariables, Variable } from './flatten.ts';

/** What one rank tells the others. */
export interface ModelDescription {
  parameters: Described[];
  buffers: Described[];
  options: Partial<SharedOptions>;
}

interface Described {
  shape: number[];
  dtype: string;
}

/**
 * Compares number, shapes and dtypes of all ranks' parameters and buffers, and DDP's options, with
 * rank 0's.
 *
 * @throws (rejects) on every rank MismatchError where one differs, naming the first that does;
 *   UsageError where there is nothing to train, or a variable is not float32.
 */
export async function verifyModel(
  group: ProcessGroup,
  variables: ModelVariables,
  options: Partial<SharedOptions>,
): Promise<void> {
  const all = await group.allGatherObject(describeModel(variables, options));
  const { rank, worldSize } = group;
  for (const other of all.keys()) {
    const difference = differenceBetween(all, 0, other, variables);
    if (difference !== null) throw new MismatchError(difference, { rank, worldSize });
  }
  const { parameters, buffers } = variables;
  // The same on all ranks by now, so that none waits for another that has stopped here.
  if (parameters.length === 0) throw new UsageError('The model has no trainable parameters.');
  for (const { name, dtype } of [...parameters, ...buffers]) {
    if (dtype !== 'float32')
      throw new UsageError(`Ranks train float32 together, and "${name}" is ${dtype}: leave it out.`);
  }
}

export function describeModel(
  { parameters, buffers }: ModelVariables,
  options: Partial<SharedOptions>,
): ModelDescription {
  return { parameters: parameters.map(describe), buffers: buffers.map(describe), options };
}

/**
 * In what the model of rank `other` differs from that of rank `first`, and what to do; null where
 * in nothing.
 *
 * @param all descriptions by rank.
 * @param variables this rank's, for their names.
 */
export function differenceBetween(
  all: readonly ModelDescription[],
  first: number,
  other: number,
  { parameters, buffers }: ModelVariables,
): string | null {
  const [right, theirs] = [all[first]!, all[other]!];
  const difference =
    differenceOf('parameter', parameters, right.parameters, theirs.parameters, first, other) ??
    differenceOf('buffer', buffers, right.buffers, theirs.buffers, first, other) ??
    (JSON.stringify(theirs.options) === JSON.stringify(right.options)
      ? null
      : `DDP expects same options across all ranks, but rank ${first} has ${JSON.stringify(right.options)} and rank ` +
        `${other} ${JSON.stringify(theirs.options)}.`);
  return difference && `${difference} Build and wrap the same model on every rank.`;
}

function describe({ shape, dtype }: Variable): Described {
  return { shape, dtype };
}

/**
 * What of rank `other`'s variables differs from those of rank `first`, in words; null where nothing
 * does.
 */
function differenceOf(
  kind: 'parameter' | 'buffer',
  mine: readonly Variable[],
  right: readonly Described[],
  theirs: readonly Described[],
  first: number,
  other: number,
): string | null {
  if (theirs.length !== right.length) {
    return (
      `DDP expects same model across all ranks, but rank ${first} has ${right.length} ${kind}s and rank ${other} has ` +
      `${theirs.length}.`
    );
  }
  const at = theirs.findIndex((one, i) => spoken(one) !== spoken(right[i]!));
  if (at < 0) return null;
  return (
    `The ${kind} ${at} ("${mine[at]?.name ?? ''}") of rank ${other}, ${spoken(theirs[at]!)}, appears not to match ` +
    `that of rank ${first}, ${spoken(right[at]!)}.`
  );
}

function spoken({ shape, dtype }: Described): string {
  return `${dtype} [${shape.join(', ')}]`;
}
