/** Copies an array that some ranks have to all ranks. */
import { evenDisplacements } from '../../collectives/plans/plans.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';

/**
 * Each of `sources` sends its slice of `values`, all at once round the ring: K(n-1)/n bytes per
 * rank, however many ranks have the array. It is the second half of van de Geijn's broadcast
 * (Barnett et al., "Interprocessor Collective Communication Library", 1994); the sources do not
 * need the first half, the scatter. Every rank must call it.
 *
 * @param values the array, equal on each source; elsewhere any array of the same length.
 * @param sources ranks in the group.
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
