/** Measures a link between ranks 0 and 1 in the worker, like the links of collectives. */
import type { WorkerRank } from '../world/rank.ts';
import { measureLink, type LinkArgs, type LinkFigures } from './measureLink.ts';

export async function workerLink({ rank, group, spareLinkTo }: WorkerRank, args: LinkArgs): Promise<LinkFigures> {
  const link = spareLinkTo(1 - rank);
  // The barrier lets both ranks begin together: without a handler, a link queues only a limited
  // number of frames.
  await group.barrier();
  return measureLink(link, rank, args);
}
