/**
 * Checks that every rank has built the same model and wrapped it in the same way, before any data
 * is exchanged.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { MismatchError, UsageError } from '../../util/errors.ts';
import type { SharedDdpOptions } from './options.ts';
import type { ModelVariables, Variable } from '../backward/flatten.ts';

export interface DdpModelDescription {
  parameters: Described[];
  buffers: Described[];
  options: Partial<SharedDdpOptions>;
}

interface Described {
  shape: number[];
  dtype: string;
}

/**
 * Checks that all ranks have the same options of DDP as rank 0, and the same number, shapes and
 * dtypes of parameters and buffers.
 *
 * @throws (rejects) MismatchError on every rank if a rank differs. The error names the first
 *   difference. UsageError if the model has no parameters, or a variable is not float32.
 */
export async function verifyModel(
  group: ProcessGroup,
  variables: ModelVariables,
  options: Partial<SharedDdpOptions>,
): Promise<void> {
  const all = await group.allGatherObject(describeDdpModel(variables, options));
  const { rank, worldSize } = group;
  for (const other of all.keys()) {
    const difference = modelDifference(all, 0, other, variables);
    if (difference !== null) throw new MismatchError(difference, { rank, worldSize });
  }
  const { parameters, buffers } = variables;
  // All ranks have the same model now, so either all of them throw here or none does.
  if (parameters.length === 0) throw new UsageError('The model has no trainable parameters.');
  for (const { name, dtype } of [...parameters, ...buffers]) {
    if (dtype !== 'float32')
      throw new UsageError(
        `Distributed training supports only float32, but the variable "${name}" is ${dtype}. Leave this variable out.`,
      );
  }
}

export function describeDdpModel(
  { parameters, buffers }: ModelVariables,
  options: Partial<SharedDdpOptions>,
): DdpModelDescription {
  return { parameters: parameters.map(describe), buffers: buffers.map(describe), options };
}

/**
 * Returns the difference between the models of ranks `other` and `first`, and the remedy; null if
 * the models are equal.
 *
 * @param all descriptions of all ranks, by rank.
 * @param variables variables of this rank; the error contains their names.
 */
export function modelDifference(
  all: readonly DdpModelDescription[],
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
 * Returns the first difference between the variables of ranks `other` and `first`; null if they are
 * equal.
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
  const at = theirs.findIndex((variable, i) => textOf(variable) !== textOf(right[i]!));
  if (at < 0) return null;
  return (
    `The ${kind} ${at} ("${mine[at]?.name ?? ''}") of rank ${other}, ${textOf(theirs[at]!)}, appears not to match ` +
    `that of rank ${first}, ${textOf(right[at]!)}.`
  );
}

function textOf({ shape, dtype }: Described): string {
  return `${dtype} [${shape.join(', ')}]`;
}
