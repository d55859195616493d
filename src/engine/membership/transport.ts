/** Counts the links of a world by kind, and finds out what those through the server cost. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { NO_SERVED_PAIRS } from '../../collectives/plans/costModel.ts';
import { rightNeighbourOf } from '../../collectives/plans/ringPlan.ts';
import type { ServedPairs } from '../../protocol/control.ts';
import { ReduceOp } from '../../protocol/frame.ts';
import { isServedRoute, type LinkRoute } from '../../protocol/runEvents.ts';
import type { RingLinkCounts } from '../../protocol/runResult.ts';

/** Counts the links between ring neighbours, over all ranks. Every rank must call it. */
export async function countTransports(group: ProcessGroup): Promise<RingLinkCounts> {
  const { rank, worldSize } = group;
  // Each rank counts the link to its right neighbour. In a world of two, both ranks have the same
  // link, and rank 0 counts it.
  const isCounted = worldSize > 2 || (worldSize === 2 && rank === 0);
  const right = isCounted ? await group.describeLink(rightNeighbourOf(rank, worldSize)) : null;
  const own = right === null ? null : kindOf(right.route);
  const [webrtc, server, memory] = await group.allReduce(
    Int32Array.of(Number(own === 'webrtc'), Number(own === 'server'), Number(own === 'memory')),
  );
  return { webrtc: webrtc!, server: server!, memory: memory! };
}

/**
 * Returns the ring's links through the server. Every rank must call it. Ranks may know different
 * rates if the server has restarted, so they agree on the lowest.
 */
export async function servedPairsOf(group: ProcessGroup, { server }: RingLinkCounts): Promise<ServedPairs> {
  if (server === 0) return NO_SERVED_PAIRS;
  const { areAll = false, bytesPerSecond = Infinity } = group.serverLine ?? {};
  const own = Float64Array.of(Number(areAll), bytesPerSecond);
  const [all, least] = await group.allReduce(own, { op: ReduceOp.MIN });
  return { pairs: server, areAll: all === 1, bytesPerSecond: least! };
}

function kindOf(route: LinkRoute): keyof RingLinkCounts {
  if (route === 'memory') return 'memory';
  return isServedRoute(route) ? 'server' : 'webrtc';
}
