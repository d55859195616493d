/**
 * Measures links between ranks 0 and 1 on the page, without the worker: a bare channel and a
 * simple-peer link.
 */
import type { PageRank } from '../world/rank.ts';
import { measureLink, senderOver, type LinkArgs, type LinkFigures } from './measureLink.ts';

export async function bareLink(page: PageRank, args: LinkArgs): Promise<LinkFigures> {
  return measureLink(senderOver(await page.channelTo(1 - page.rank)), page.rank, args);
}

export async function pageLink(page: PageRank, args: LinkArgs): Promise<LinkFigures> {
  return measureLink(await page.linkTo(1 - page.rank), page.rank, args);
}
