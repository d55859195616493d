/** Determines the transport between the ranks of a world. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { rightOf } from '../../collectives/plans/ringPlan.ts';
import type { RunResult } from '../../protocol/runResult.ts';

/**
 * Returns the kind of transport of the links between ring neighbours, over all ranks. Every rank
 * must call it.
 */
export async function transportOf(group: ProcessGroup): Promise<RunResult['transport']> {
  const { rank, worldSize } = group;
  if (worldSize === 1) return 'none';
  const right = await group.describeLink(rightOf(rank, worldSize));
  const isMemory = right?.route === 'memory';
  const counts = Int32Array.of(Number(isMemory), Number(right !== null && !isMemory));
  await group.allReduce(counts);
  const [ports, connections] = counts as unknown as [number, number];
  if (ports + connections < worldSize) return 'unknown';
  if (ports === 0) return 'webrtc';
  return connections === 0 ? 'memory' : 'mixed';
}
