/** Gives all ranks an array that only some ranks have. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { distributeFiles } from '../data/distributeFiles.ts';
import { StateSlices } from './stateSlices.ts';

/**
 * Number of slices in transit over a link. A rank's next report of its progress queues behind them,
 * and all others wait for it.
 */
const AHEAD = 4;

/** How many of the `total` bytes of the state each rank of a generation has. */
export interface StateReceived {
  generation: number;
  total: number;
  bytesPerRank: readonly number[];
}

/**
 * Copies `values` to all ranks. Only ranks without the array receive it, from their left neighbour,
 * in slices. So ranks that have the array need not wait for the uplink of a rank that has not.
 * Every rank must call it.
 *
 * @param values the array, equal on each source. On other ranks it is any array of the same length.
 * @param sources ranks, in the group, that have the array.
 * @returns the array; on sources `values` itself.
 */
export async function gatherSlices(
  group: ProcessGroup,
  values: Float32Array<ArrayBuffer>,
  sources: readonly number[],
  onprogress: (bytesPerRank: readonly number[]) => void = () => {},
): Promise<Float32Array<ArrayBuffer>> {
  const { buffer, byteOffset, byteLength } = values;
  if (byteLength === 0 || sources.length === group.worldSize) return values;
  const isSource = sources.includes(group.rank);
  const slices = isSource
    ? StateSlices.of(new Uint8Array(buffer, byteOffset, byteLength))
    : StateSlices.empty(byteLength);
  await distributeFiles(group, slices, { clock: group.clock, ahead: AHEAD, onprogress });
  return isSource ? values : new Float32Array(slices.bytes.buffer);
}
