import { expect, test } from 'vitest';
import { LinkPool } from '../../../src/engine/membership/linkPool.ts';
import { createFrame, emptyHeader, FrameKind } from '../../../src/protocol/frame.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';
import { SharedLink } from '../../../src/transport/sharedLink.ts';

test('the traffic of a pool never decreases, because it includes replaced, dropped and lost connections', async () => {
  const pool = new LinkPool(() => {});
  /** Sends a frame over a new connection. Returns the bytes of the pool, and the other end. */
  const connect = async (member: string, generation: number): Promise<{ sent: number; other: SharedLink }> => {
    const [mine, theirs] = createMemoryLinkPair();
    const link = new SharedLink(mine);
    pool.put(member, link);
    await link.view(generation).send(createFrame(emptyHeader(FrameKind.DATA, generation), 68));
    return { sent: pool.traffic.sent, other: new SharedLink(theirs) };
  };
  const first = await connect('Ada', 1);
  const replaced = await connect('Ada', 2);
  const second = await connect('Bo', 3);
  second.other.close();
  await new Promise((resolve) => setImmediate(resolve));
  const lost = pool.traffic.sent;
  pool.retain(new Set());
  expect([first.sent, replaced.sent, second.sent, lost, pool.traffic.sent]).toEqual([100, 200, 300, 300, 300]);
});
