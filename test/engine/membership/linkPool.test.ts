import { describe, expect, test } from 'vitest';
import { LinkPool, type ConnectionKind } from '../../../src/engine/membership/linkPool.ts';
import { createFrame, emptyFrameHeader, FrameKind } from '../../../src/protocol/frame.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';
import { LinkAcrossGenerations } from '../../../src/transport/linkAcrossGenerations.ts';

test('the traffic of a pool never decreases, because it includes replaced, dropped and lost connections', async () => {
  const pool = new LinkPool(() => {});
  /** Sends a frame over a new connection. Returns the bytes of the pool, and the other end. */
  const connect = async (
    member: string,
    generation: number,
  ): Promise<{ sent: number; other: LinkAcrossGenerations }> => {
    const [mine, theirs] = createMemoryLinkPair();
    const link = new LinkAcrossGenerations(mine);
    pool.put(member, link);
    await link.view(generation).send(createFrame(emptyFrameHeader(FrameKind.DATA, generation), 68));
    return { sent: pool.traffic.sent, other: new LinkAcrossGenerations(theirs) };
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

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function open(): { link: LinkAcrossGenerations; other: LinkAcrossGenerations } {
  const [mine, theirs] = createMemoryLinkPair();
  return { link: new LinkAcrossGenerations(mine), other: new LinkAcrossGenerations(theirs) };
}

/** A pool with a connection to Ada of the given kind, and a direct connection that it may keep. */
function poolWith(kind: ConnectionKind | null) {
  const lost: LinkAcrossGenerations[] = [];
  const pool = new LinkPool((_member, _error, link) => lost.push(link));
  const first = open();
  if (kind !== null) pool.put('Ada', first.link, kind);
  const kept = open();
  pool.keepForNext('Ada', { link: kept.link, kind: 'direct', decides: true });
  return { pool, lost, first, kept };
}

describe('a connection that is kept for the next generation', () => {
  test.each(['direct', 'relayed', null] as const)('is closed if the connection is %s', (kind) => {
    const { pool, kept } = poolWith(kind);
    expect([kept.link.state, pool.keptFor('Ada')]).toEqual(['closed', null]);
  });

  test('replaces the connection, which stays open until the pool closes those that are not used', () => {
    const { pool, first, kept } = poolWith('served');
    const before = [pool.get('Ada') === first.link, pool.isServed('Ada')];
    pool.take('Ada');
    const after = [pool.get('Ada') === kept.link, pool.isServed('Ada'), pool.keptFor('Ada')];
    const states = [first.link.state, kept.link.state];
    pool.retain(new Set(['Ada']));
    expect([before, after, states, [first.link.state, kept.link.state]]).toEqual([
      [true, true],
      [true, false, null],
      ['open', 'open'],
      ['closed', 'open'],
    ]);
  });

  test('is forgotten without a report if it breaks; the connection that it has replaced is reported', async () => {
    const { pool, lost, first, kept } = poolWith('served');
    kept.other.close();
    await settle();
    const forgotten = [pool.keptFor('Ada'), lost.length];
    const second = open();
    pool.keepForNext('Ada', { link: second.link, kind: 'direct', decides: true });
    pool.take('Ada');
    first.other.close();
    await settle();
    expect([forgotten, lost, pool.get('Ada') === second.link]).toEqual([[null, 0], [first.link], true]);
    second.other.close();
    await settle();
    expect([lost, pool.has('Ada')]).toEqual([[first.link, second.link], false]);
  });

  test('remains for the next generation if the present connection breaks', async () => {
    const { pool, lost, first, kept } = poolWith('served');
    first.other.close();
    await settle();
    expect([lost, pool.get('Ada'), pool.has('Ada')]).toEqual([[first.link], null, true]);
    pool.take('Ada');
    expect(pool.get('Ada')).toBe(kept.link);
  });

  test('stays open where a relay is required, unlike a direct connection, and is closed when its member leaves', () => {
    const { pool, first, kept } = poolWith('served');
    pool.dropDirect('Ada');
    const states = [first.link.state, kept.link.state];
    pool.retain(new Set());
    expect([states, [first.link.state, kept.link.state]]).toEqual([
      ['open', 'open'],
      ['closed', 'closed'],
    ]);
  });

  test('counts in the traffic', async () => {
    const { pool, first, kept } = poolWith('served');
    for (const { link } of [first, kept]) await link.view(1).send(createFrame(emptyFrameHeader(FrameKind.DATA, 1), 68));
    const sent = [pool.traffic.sent];
    pool.take('Ada');
    sent.push(pool.traffic.sent);
    pool.retain(new Set(['Ada']));
    expect([...sent, pool.traffic.sent]).toEqual([200, 200, 200]);
  });

  test('is the first of two such connections', () => {
    const { pool, kept } = poolWith('served');
    const second = open();
    pool.keepForNext('Ada', { link: second.link, kind: 'direct', decides: true });
    expect([pool.keptFor('Ada')?.link === kept.link, second.link.state]).toEqual([true, 'closed']);
  });
});

/** Opens a connection whose other end gives these answers, one after the other. */
function answering(...answers: boolean[]) {
  const [mine] = createMemoryLinkPair();
  const asked: number[] = [];
  const answer = (ms: number): Promise<boolean> => Promise.resolve(asked.push(ms) > 0 && answers.shift()!);
  return { link: new LinkAcrossGenerations(Object.assign(mine, { answers: answer })), asked };
}

describe('a check of connections', () => {
  test('closes connections whose other end does not answer, as lost', async () => {
    const lost: string[] = [];
    const pool = new LinkPool((member, error) => lost.push(`${member}: ${error?.message}`));
    const [alive, dead] = [answering(true), answering(false)];
    pool.put('Ada', alive.link, 'served');
    pool.put('Bo', dead.link, 'served');
    pool.put('Cy', open().link);
    await pool.check(5_000, () => Promise.resolve(false));
    expect(lost).toEqual(['Bo: The other end of a link through the server has not answered within 5 s.']);
    expect([alive.asked, pool.has('Ada'), pool.has('Bo'), pool.has('Cy')]).toEqual([[5_000], true, false, true]);
  });

  test('asks again as long as the other end may be late, with one question at a time', async () => {
    const lost: string[] = [];
    const pool = new LinkPool((member) => lost.push(member));
    const slow = answering(false, false, true);
    pool.put('Ada', slow.link, 'served');
    await Promise.all([0, 1].map(() => pool.check(5_000, (member) => Promise.resolve(member === 'Ada'))));
    expect([slow.asked.length, lost]).toEqual([3, []]);
  });
});
