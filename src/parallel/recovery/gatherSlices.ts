/** Gives all ranks an array that only some ranks have. */
import { evenDisplacements } from '../../collectives/plans/plans.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';

/**
 * Copies `values` to all ranks. `sources` are the ranks that already have the array. Each source
 * sends one slice, and all slices travel round the ring at the same time. Each rank sends (n-1)/n
 * of the array's bytes, however many ranks have the array. This is the second half of van de
 * Geijn's broadcast (Barnett et al., "Interprocessor Collective Communication Library", 1994). The
 * first half, the scatter, is not needed, because every source already has the array. Every rank
 * must call it.
 *
 * @param values the array, equal on each source. On other ranks it is any array of the same length.
 * @param sources ranks, in the group, that have the array.
 * @returns a new array.
 */
export async function gatherSlices(
  group: ProcessGroup,
  values: Float32Array,
  sources: readonly number[],
): Promise<Float32Array<ArrayBuffer>> {
  if (values.length === 0) return new Float32Array();
  const displacements = evenDisplacements(values.length, sources.length);
  const sizes = group.ranks.map(() => 0);
  for (const [i, source] of sources.entries()) sizes[source] = displacements[i + 1]! - displacements[i]!;
  const mine = sources.indexOf(group.rank);
  const slice = mine < 0 ? new Float32Array() : values.subarray(displacements[mine], displacements[mine + 1]);
  const whole = new Float32Array(values.length);
  let at = 0;
  for (const part of await group.allGather(slice, { sizes })) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
