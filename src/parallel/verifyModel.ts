/** The check before the first broadcast: every rank has to have built the same model and wrapped it in the same way. */
import type { ProcessGroup } from '../collectives/processGroup.ts';
import { MismatchError, UsageError } from '../util/errors.ts';
import type { SharedOptions } from './ddpOptions.ts';
import type { ModelVariables, Variable } from './flatten.ts';

/** What one rank tells the others. */
interface Description {
  parameters: Described[];
  buffers: Described[];
  options: Partial<SharedOptions>;
}

interface Described {
  shape: number[];
  dtype: string;
}

/**
 * Compares number, shapes and dtypes of all ranks' parameters and buffers, and DDP's options, with rank 0's.
 *
 * @throws (rejects) on every rank MismatchError where one differs, naming the first that does; UsageError where there is
 *   nothing to train, or a variable is not float32.
 */
export async function verifyModel(
  group: ProcessGroup,
  { parameters, buffers }: ModelVariables,
  options: Partial<SharedOptions>,
): Promise<void> {
  const mine: Description = { parameters: parameters.map(describe), buffers: buffers.map(describe), options };
  const all = await group.allGatherObject(mine);
  const [first] = all;
  const { rank, worldSize } = group;
  for (const [other, theirs] of all.entries()) {
    const difference =
      differenceOf('parameter', parameters, first!.parameters, theirs.parameters, other) ??
      differenceOf('buffer', buffers, first!.buffers, theirs.buffers, other) ??
      (JSON.stringify(theirs.options) === JSON.stringify(first!.options)
        ? null
        : `DDP expects same options across all ranks, but rank 0 has ${JSON.stringify(first!.options)} and rank ${other} ` +
          `${JSON.stringify(theirs.options)}.`);
    if (difference !== null) {
      throw new MismatchError(`${difference} Build and wrap the same model on every rank.`, { rank, worldSize });
    }
  }
  // The same on all ranks by now, so that none waits for another that has stopped here.
  if (parameters.length === 0) throw new UsageError('The model has no trainable parameters.');
  for (const { name, dtype } of [...parameters, ...buffers]) {
    if (dtype !== 'float32')
      throw new UsageError(`Ranks train float32 together, and "${name}" is ${dtype}: leave it out.`);
  }
}

function describe({ shape, dtype }: Variable): Described {
  return { shape, dtype };
}

/** What of rank `other`'s variables differs from rank 0's, in words; null where nothing does. */
function differenceOf(
  kind: 'parameter' | 'buffer',
  mine: readonly Variable[],
  first: readonly Described[],
  theirs: readonly Described[],
  other: number,
): string | null {
  if (theirs.length !== first.length) {
    return (
      `DDP expects same model across all ranks, but rank 0 has ${first.length} ${kind}s and rank ${other} has ` +
      `${theirs.length}.`
    );
  }
  const at = theirs.findIndex((one, i) => spoken(one) !== spoken(first[i]!));
  if (at < 0) return null;
  return (
    `The ${kind} ${at} ("${mine[at]?.name ?? ''}") of rank ${other}, ${spoken(theirs[at]!)}, appears not to match ` +
    `that of rank 0, ${spoken(first[at]!)}.`
  );
}

function spoken({ shape, dtype }: Described): string {
  return `${dtype} [${shape.join(', ')}]`;
}
