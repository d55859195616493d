/** A link of ranks 0 and 1 as collectives have it: in the worker. */
import type { WorkerRank } from '../world/rank.ts';
import { measureLink, type LinkArgs, type LinkFigures } from './measureLink.ts';

export async function workerLink({ rank, group, spareLinkTo }: WorkerRank, args: LinkArgs): Promise<LinkFigures> {
  const link = spareLinkTo(1 - rank);
  // Frames that come before there is a link to take them are kept only up to a bound.
  await group.barrier();
  return measureLink(link, rank, args);
}
