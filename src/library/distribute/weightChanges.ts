/** After the page has set weights of the model, all ranks continue with the weights of rank 0. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { DistributedDataParallel } from '../../parallel/ddp/distributedDataParallel.ts';
import { MismatchError } from '../../util/errors.ts';

/**
 * If at least one rank has set weights, checks that rank 0 has set weights, too, because all ranks
 * continue with rank 0's weights.
 *
 * @param changed for each rank, whether weights were set on it.
 * @throws MismatchError, which names the ranks that have set weights.
 */
export function checkRankZeroSetWeights(
  changed: readonly boolean[],
  { rank, worldSize }: Pick<ProcessGroup, 'rank' | 'worldSize'>,
): void {
  const divergent = [...changed.keys()].filter((each) => changed[each]);
  if (divergent.length === 0 || changed[0]) return;
  const ranks = `rank${divergent.length > 1 ? 's' : ''} ${divergent.join(', ')}`;
  throw new MismatchError(
    `Weights of the model were set on ${ranks}, but not on rank 0, whose weights all ranks receive. Set weights on rank 0, ` +
      'or on every rank.',
    { rank, worldSize, divergent },
  );
}

/** Sets the weights of all ranks to the weights of rank 0. */
export async function adoptWeightsOfRankZero(ddp: DistributedDataParallel): Promise<void> {
  const first = ddp.group.ranks[0]!;
  await ddp.broadcastParameters(first);
  await ddp.broadcastBuffers(first);
}
