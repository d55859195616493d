/** Gradient clipping of sharded gradients. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { ElementRange } from '../../util/range.ts';
import { scaleDownToNorm, sumOfSquaresIn } from '../flat/clip.ts';

/**
 * Scales this rank's shard of the gradient so that the norm of all shards is at most `maxNorm`.
 * Every rank must call it.
 *
 * @param ranges elements of `gradient` that belong to this rank's shard.
 * @returns the norm before clipping, equal on all ranks. It equals the norm of `clipGradNorm`,
 *   except for rounding in float64.
 */
export async function clipShards(
  group: ProcessGroup,
  gradient: Float32Array,
  ranges: readonly ElementRange[],
  maxNorm: number,
): Promise<number> {
  const all = await group.allGather(Float64Array.of(sumOfSquaresIn(gradient, ranges)));
  const norm = Math.sqrt(all.reduce((sum, [own]) => sum + own!, 0));
  scaleDownToNorm(gradient, ranges, norm, maxNorm);
  return norm;
}
