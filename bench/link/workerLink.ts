/** A link of ranks 0 and 1 as collectives have it: in the worker, over the page. */
import type { WorkerRank } from '../world/rank.ts';
import { measureLink, type LinkArgs, type LinkFigures } from './measureLink.ts';

export function workerLink({ rank, spareLinkTo }: WorkerRank, args: LinkArgs): Promise<LinkFigures> {
  return measureLink(spareLinkTo(1 - rank), rank, args);
}
