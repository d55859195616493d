/** Gradient clipping of sharded gradients. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Range } from '../../util/range.ts';
import { clipScale } from '../flat/clip.ts';

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
  ranges: readonly Range[],
  maxNorm: number,
): Promise<number> {
  let squares = 0;
  for (const { start, end } of ranges) for (let i = start; i < end; i++) squares += gradient[i]! * gradient[i]!;
  const all = await group.allGather(Float64Array.of(squares));
  const norm = Math.sqrt(all.reduce((sum, [own]) => sum + own!, 0));
  const scale = clipScale(norm, maxNorm);
  if (scale >= 1) return norm;
  for (const { start, end } of ranges) for (let i = start; i < end; i++) gradient[i]! *= scale;
  return norm;
}
