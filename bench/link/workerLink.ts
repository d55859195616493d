/**
 * Measures connections between ranks 0 and 1 in the worker: a link, like the links of collectives,
 * and a bare WebSocket over a relay.
 */
import type { WorkerRank } from '../world/rank.ts';
import { measureLink, senderOver, type LinkArgs, type LinkFigures } from './measureLink.ts';

export async function workerLink({ rank, group, spareLinkTo }: WorkerRank, args: LinkArgs): Promise<LinkFigures> {
  const link = spareLinkTo(1 - rank);
  // The barrier lets both ranks begin together: without a handler, a link queues only a limited
  // number of frames.
  await group.barrier();
  return measureLink(link, rank, args);
}

export async function relayLink({ rank, relayTo }: WorkerRank, args: LinkArgs): Promise<LinkFigures> {
  return measureLink(senderOver(await relayTo(1 - rank)), rank, args);
}
