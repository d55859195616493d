/** Counts the links of a world by kind. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { rightOf } from '../../collectives/plans/ringPlan.ts';
import { isServed, type LinkRoute } from '../../protocol/runEvents.ts';
import type { Transport } from '../../protocol/runResult.ts';

/** Counts the links between ring neighbours, over all ranks. Every rank must call it. */
export async function transportOf(group: ProcessGroup): Promise<Transport> {
  const { rank, worldSize } = group;
  // Each rank counts the link to its right neighbour. In a world of two, this is the same link.
  const isCounted = worldSize > 2 || (worldSize === 2 && rank === 0);
  const right = isCounted ? await group.describeLink(rightOf(rank, worldSize)) : null;
  const own = right === null ? null : kindOf(right.route);
  const [webrtc, server, memory] = await group.allReduce(
    Int32Array.of(Number(own === 'webrtc'), Number(own === 'server'), Number(own === 'memory')),
  );
  return { webrtc: webrtc!, server: server!, memory: memory! };
}

function kindOf(route: LinkRoute): keyof Transport {
  if (route === 'memory') return 'memory';
  return isServed(route) ? 'server' : 'webrtc';
}
