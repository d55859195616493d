import { describe, expect, test } from 'vitest';
import { Mesh } from '../../src/collectives/mesh.ts';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createFrame, emptyFrameHeader, encodeJsonFrame, FrameKind } from '../../src/protocol/frame.ts';
import { performHandshake, type HelloMessage } from '../../src/transport/handshake.ts';
import { createMemoryLinkPair } from '../../src/transport/memoryLink.ts';
import { LinkAcrossGenerations } from '../../src/transport/linkAcrossGenerations.ts';
import { systemClock } from '../../src/util/clock.ts';
import { PeerGoneError, ProtocolError, TimeoutError } from '../../src/util/errors.ts';

const alice: HelloMessage = { room: 'K7F3QX', generation: 2, member: 'alice-id', rank: 0 };
const bob: HelloMessage = { room: 'K7F3QX', generation: 2, member: 'bob-id-1', rank: 1 };
const options = { timeoutMs: 500, clock: systemClock };

describe('a handshake', () => {
  test('verifies the identity of both ends, and queues later frames for the next handler', async () => {
    const [a, b] = createMemoryLinkPair();
    const first = performHandshake(a, alice, bob, options).then(() => a.send(new ArrayBuffer(99)));
    await performHandshake(b, bob, alice, options);
    await first;
    const frame = await new Promise<ArrayBuffer>((resolve) => (b.onframe = resolve));
    expect(frame.byteLength).toBe(99);
  });

  test.each([
    ['room', { ...bob, room: 'AAAAAA' }],
    ['generation', { ...bob, generation: 1 }],
    ['rank', { ...bob, rank: 2 }],
    ['member', { ...bob, member: 'mallory1' }],
  ])('rejects a peer with another %s and closes the link', async (_field, actual) => {
    const [a, b] = createMemoryLinkPair();
    const theirs = performHandshake(b, actual, alice, options).catch((error: unknown) => error);
    await expect(performHandshake(a, alice, bob, options)).rejects.toThrow(/for rank 1 reached another peer/);
    expect(a.state).toBe('closed');
    expect(await theirs).toBeInstanceOf(PeerGoneError);
  });

  test('rejects data before HELLO, and invalid frames', async () => {
    for (const frame of [createFrame(emptyFrameHeader(FrameKind.DATA, 2), 4), new ArrayBuffer(3)]) {
      const [a, b] = createMemoryLinkPair();
      await b.send(frame);
      await expect(performHandshake(a, alice, bob, options)).rejects.toBeInstanceOf(ProtocolError);
    }
  });

  test('fails with the name of the message that did not arrive in time', async () => {
    const [silent] = createMemoryLinkPair();
    const quick = { ...options, timeoutMs: 10 };
    await expect(performHandshake(silent, alice, bob, quick)).rejects.toThrow('Rank 1 did not send HELLO within 10 ms');
    const [half, other] = createMemoryLinkPair();
    await other.send(encodeJsonFrame(emptyFrameHeader(FrameKind.HELLO, 2), bob));
    const error: unknown = await performHandshake(half, alice, bob, quick).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(TimeoutError);
    expect(String(error)).toContain('did not send HELLO-ACK');
  });

  test.each([
    ['large', 64 * 1024 - 32],
    ['empty', 0],
  ])('may be followed by a limited number of %s frames until the process group begins', async (_size, payload) => {
    const [a, b] = createMemoryLinkPair();
    const [mine, theirs] = [new LinkAcrossGenerations(a).view(2), new LinkAcrossGenerations(b).view(2)];
    await Promise.all([performHandshake(mine, alice, bob, options), performHandshake(theirs, bob, alice, options)]);
    // The limit is 64 MiB. A frame counts at least 512 bytes.
    const most = (64 * 1024 * 1024) / Math.max(512, payload + 32);
    const flood = async (frames: number): Promise<void> => {
      for (let i = 0; i < frames; i++) await theirs.send(createFrame(emptyFrameHeader(FrameKind.DATA, 2), payload));
      await new Promise((resolve) => setImmediate(resolve));
    };
    await flood(most);
    expect(mine.state).toBe('open');
    await flood(1);
    expect(mine.state).toBe('closed');
    const group = new ProcessGroup(new Mesh({ rank: 0, generation: 2, links: new Map([[1, mine]]), worldSize: 2 }));
    const lost = await Promise.resolve(group.barrier()).catch(String);
    expect(lost).toMatch(/rank 1: The other rank sent more than 64 MiB before/);
  });

  test('fails if the link closes before the handshake is complete', async () => {
    const [a, b] = createMemoryLinkPair();
    const opening = performHandshake(a, alice, bob, options);
    b.close();
    await expect(opening).rejects.toBeInstanceOf(PeerGoneError);
  });
});
