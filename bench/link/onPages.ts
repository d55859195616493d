/**
 * Measures links between ranks 0 and 1 on the page, without the worker: a bare channel and a
 * simple-peer link.
 */
import { deferred } from '../../src/util/deferred.ts';
import type { BareChannel } from '../world/bareChannels.ts';
import type { PageRank } from '../world/rank.ts';
import { measureLink, type LinkArgs, type LinkFigures, type Sender } from './measureLink.ts';

/** Send buffer size in bytes at which `send` waits. The bare ring has the same limit. */
const HIGH_BYTES = 1024 * 1024;

export async function bareLink(page: PageRank, args: LinkArgs): Promise<LinkFigures> {
  return measureLink(senderOver(await page.channelTo(1 - page.rank)), page.rank, args);
}

export async function pageLink(page: PageRank, args: LinkArgs): Promise<LinkFigures> {
  return measureLink(await page.linkTo(1 - page.rank), page.rank, args);
}

/** Returns a sender over a bare channel that adds only backpressure. */
function senderOver(bare: BareChannel): Sender {
  const { channel } = bare;
  return {
    async send(frame) {
      channel.send(frame);
      if (channel.bufferedAmount < HIGH_BYTES) return;
      const drained = deferred();
      channel.onbufferedamountlow = () => drained.resolve();
      await drained.promise;
    },
    set onframe(handler: Sender['onframe']) {
      bare.onmessage = handler;
    },
  };
}
