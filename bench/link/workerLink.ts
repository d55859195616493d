/** A link of ranks 0 and 1 in the worker, as collectives use it. */
import type { WorkerRank } from '../world/rank.ts';
import { measureLink, type LinkArgs, type LinkFigures } from './measureLink.ts';

export async function workerLink({ rank, group, spareLinkTo }: WorkerRank, args: LinkArgs): Promise<LinkFigures> {
  const link = spareLinkTo(1 - rank);
  // Frames that arrive before the link has a handler are queued up to a bound only.
  await group.barrier();
  return measureLink(link, rank, args);
}
