/** Determines the transport between the ranks of a world. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { rightOf } from '../../collectives/plans/ringPlan.ts';
import { isServed, type LinkRoute } from '../../protocol/runEvents.ts';
import type { RunResult } from '../../protocol/runResult.ts';

const KINDS = ['webrtc', 'server', 'memory'] as const;

/**
 * Returns the kind of transport of the links between ring neighbours, over all ranks. Every rank
 * must call it.
 */
export async function transportOf(group: ProcessGroup): Promise<RunResult['transport']> {
  const { rank, worldSize } = group;
  if (worldSize === 1) return 'none';
  const right = await group.describeLink(rightOf(rank, worldSize));
  const own = right === null ? null : kindOf(right.route);
  const counts = Int32Array.from(KINDS, (kind) => Number(kind === own));
  await group.allReduce(counts);
  const used = KINDS.filter((_, index) => counts[index]! > 0);
  if (counts.reduce((sum, count) => sum + count, 0) < worldSize) return 'unknown';
  return used.length === 1 ? used[0]! : 'mixed';
}

function kindOf(route: LinkRoute): (typeof KINDS)[number] {
  if (route === 'memory') return 'memory';
  return isServed(route) ? 'server' : 'webrtc';
}
