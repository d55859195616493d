/** Gives all ranks arrays that only some ranks have. */
import { bytesOfArray } from '../../util/bytes.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { createDebugLog } from '../../util/debugLog.ts';
import { distributeFiles } from '../data/distributeFiles.ts';
import { StateSlices } from './stateSlices.ts';

const log = createDebugLog('recovery');

/**
 * Number of slices in transit over a link. The number is small, because a rank's next progress
 * report queues behind these slices, and all other ranks wait for that report.
 */
const AHEAD = 4;

/** For each rank of a generation: how many of the `total` bytes of all arrays it has. */
export interface StateReceivedBytes {
  generation: number;
  total: number;
  bytesPerRank: readonly number[];
}

type Values = Float32Array<ArrayBuffer>;

/** A state as ranks send it. */
export interface StateParts<Head> {
  /** The small part of the state. One rank sends it for all ranks that have the state. */
  head: Head;
  /** The large part of the state. Each array has the same length on all ranks. */
  arrays: Values[];
}

/**
 * The slices of each array that interrupted calls have received. Clear the list after a success.
 */
export type ReceivedStateSlices = StateSlices[];

export interface GatherSlicesOptions {
  received?: ReceivedStateSlices;
  onreceived?: ((received: StateReceivedBytes) => void) | undefined;
}

/**
 * Copies `arrays` to all ranks. Ranks without the arrays receive them from their left neighbour, in
 * slices. Ranks that have the arrays receive nothing, so they need not wait for the uplink of a
 * rank that lacks them. Every rank must call it.
 *
 * @param arrays the arrays, equal on each source. On other ranks: any arrays of the same lengths.
 * @param sources ranks, in the group, that have the arrays.
 * @returns the received arrays; on sources, `arrays`.
 */
export async function gatherSlices(
  group: ProcessGroup,
  arrays: Values[],
  sources: readonly number[],
  { received = [], onreceived = () => {} }: GatherSlicesOptions = {},
): Promise<Values[]> {
  if (sources.length === group.worldSize) return arrays;
  const isSource = sources.includes(group.rank);
  const total = arrays.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const gathered: Values[] = [];
  let before = 0;
  const startedAt = group.clock.now();
  for (const [i, array] of arrays.entries()) {
    const { byteLength } = array;
    const slices = isSource ? StateSlices.of(bytesOfArray(array)) : StateSlices.empty(byteLength, received[i]);
    if (!isSource) received[i] = slices;
    const onprogress = (held: readonly number[]): void => {
      const bytesPerRank = held.map((bytes, rank) => (sources.includes(rank) ? total : before + bytes));
      onreceived({ generation: group.generation, total, bytesPerRank });
    };
    if (byteLength > 0) await distributeFiles(group, slices, { clock: group.clock, ahead: AHEAD, onprogress });
    gathered.push(isSource ? array : new Float32Array(slices.bytes.buffer));
    before += byteLength;
  }
  log(() => {
    const ms = Math.round(group.clock.now() - startedAt);
    const does = isSource ? 'has given' : 'has received';
    return `Rank ${group.rank}, generation ${group.generation}, ${does} ${total} bytes in ${ms} ms.`;
  });
  return gathered;
}
