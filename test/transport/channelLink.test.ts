import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  createFrame,
  emptyFrameHeader,
  FrameKind,
  generationOfFrame,
  frameNumberOf,
  readFrameHeader,
} from '../../src/protocol/frame.ts';
import { openChannelLink, type WebRtcConnections } from '../../src/transport/channelLink.ts';
import { UNKNOWN_LINK_DESCRIPTION, type Link } from '../../src/transport/link.ts';
import { LinkAcrossGenerations } from '../../src/transport/linkAcrossGenerations.ts';
import { PeerGoneError } from '../../src/util/errors.ts';
import { FakeChannel } from './fakeChannel.ts';

const KIB = 1024;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function frameOf(bytes: number): ArrayBuffer {
  return createFrame(emptyFrameHeader(FrameKind.DATA, 1), bytes - 32);
}

/** Returns a channel of an extra connection, before it is open. */
function addChannel(connection: WebRtcConnections): FakeChannel {
  const channel = new FakeChannel();
  connection.onchannel?.(channel.asChannel);
  return channel;
}

/** Opens a link over this number of channels. */
async function openLink(count: number) {
  const first = new FakeChannel();
  const closeConnection = vi.fn<() => void>();
  const connection: WebRtcConnections = {
    ...{
      onclose: null,
      onchannel: null,
      describe: () => Promise.resolve(UNKNOWN_LINK_DESCRIPTION),
      close: closeConnection,
    },
  };
  const opening = openChannelLink(first.asChannel, connection);
  first.open();
  const link = await opening;
  const extra = Array.from({ length: count - 1 }, () => addChannel(connection));
  for (const channel of extra) channel.open();
  return { link, connection, closeConnection, channels: [first, ...extra] };
}

/** Sends this number of frames of 64 KiB. Sends of a full link remain pending. */
function fill(link: Link, frames: number): void {
  for (let i = 0; i < frames; i++) void link.send(frameOf(64 * KIB));
}

/** Returns the number of frames that were sent over each channel. */
function framesOver(channels: readonly FakeChannel[]): number[] {
  return channels.map(({ sent }) => sent.length);
}

/** Returns the errors with which a link closes. */
function closesOf(link: Link): (Error | null)[] {
  const closes: (Error | null)[] = [];
  link.onclose = (error) => closes.push(error);
  return closes;
}

/** Delivers what a channel has sent so far. Returns the number of messages. */
function deliver(from: FakeChannel, to: FakeChannel): number {
  const messages = from.sent.splice(0);
  from.drainTo(0);
  for (const data of messages) to.onmessage?.({ data });
  return messages.length;
}

describe('a link over several channels', () => {
  test('ends with the error of the connection, even if a channel closes afterwards', async () => {
    const { link, connection, closeConnection, channels } = await openLink(2);
    const closes = closesOf(link);
    const reason = new PeerGoneError('Connection failed.');
    connection.onclose?.(reason);
    channels[1]!.onclose?.();
    vi.advanceTimersByTime(1000);
    expect(closes).toEqual([reason]);
    expect(closeConnection).toHaveBeenCalledOnce();
  });

  test('ends when it tries to send over a channel that has closed without an event', async () => {
    const { link, channels } = await openLink(2);
    const closes = closesOf(link);
    channels[0]!.bufferedAmount = 1;
    channels[1]!.close();
    await expect(link.send(frameOf(KIB))).rejects.toBeInstanceOf(PeerGoneError);
    expect(closes).toEqual([null]);
  });

  test('sends each frame over the channel with the fewest unsent bytes', async () => {
    const { link, channels } = await openLink(3);
    for (const bytes of [3, 1, 1, 1, 2]) await link.send(frameOf(bytes * KIB));
    expect(channels.map(({ sent }) => sent.map(({ byteLength }) => byteLength / KIB))).toEqual([[3], [1, 1], [1, 2]]);
    channels[0]!.drainTo(0);
    await link.send(frameOf(KIB));
    expect(framesOver(channels)).toEqual([2, 2, 2]);
  });

  test('numbers frames in the order in which they were sent', async () => {
    const { link, channels } = await openLink(2);
    for (let i = 0; i < 4; i++) await link.send(frameOf(KIB));
    expect(channels.map(({ sent }) => sent.map((frame) => frameNumberOf(frame)))).toEqual([
      [0, 2],
      [1, 3],
    ]);
  });

  test('sends the handshake of a generation before the frames that wait', async () => {
    const { link, channels } = await openLink(1);
    fill(link, 20);
    const kinds = [FrameKind.HELLO, FrameKind.DATA] as const;
    for (const kind of kinds) void link.send(createFrame(emptyFrameHeader(kind, 2), KIB));
    channels[0]!.sent.length = 0;
    channels[0]!.drainTo(0);
    const sent = channels[0]!.sent.map((frame) => readFrameHeader(frame).kind);
    expect([sent[0], sent.length, sent.includes(FrameKind.HELLO, 1)]).toEqual([FrameKind.HELLO, 6, false]);
    expect(channels[0]!.sent.map((frame) => frameNumberOf(frame))).toEqual([16, 17, 18, 19, 20, 21]);
  });

  test('divides the limits of unsent bytes by the number of channels', async () => {
    const { link, channels } = await openLink(4);
    expect(channels.map(({ bufferedAmountLowThreshold }) => bufferedAmountLowThreshold / KIB)).toEqual([
      64, 64, 64, 64,
    ]);
    fill(link, 20);
    expect(framesOver(channels)).toEqual([4, 4, 4, 4]);
    channels[2]!.drainTo(65 * KIB);
    expect(framesOver(channels)).toEqual([4, 4, 4, 4]);
    channels[2]!.drainTo(64 * KIB);
    expect(framesOver(channels)).toEqual([4, 4, 7, 4]);
  });

  test('does not send over an extra channel that is not open yet, but receives over it', async () => {
    const { link, connection, channels } = await openLink(1);
    const extra = addChannel(connection);
    const received: number[] = [];
    link.onframe = ({ byteLength }) => received.push(byteLength);
    for (let i = 0; i < 3; i++) await link.send(frameOf(KIB));
    extra.onmessage?.({ data: frameOf(KIB) });
    expect(framesOver([...channels, extra])).toEqual([3, 0]);
    expect(received).toEqual([KIB]);
  });

  test('ends when an extra channel closes', async () => {
    const { link, closeConnection, channels } = await openLink(3);
    const closes = closesOf(link);
    channels[2]!.onclose?.();
    expect(closes).toEqual([null]);
    expect(channels.map(({ readyState }) => readyState)).toEqual(['closed', 'closed', 'closed']);
    expect(closeConnection).toHaveBeenCalledOnce();
  });

  test('continues if an extra channel that was never open closes', async () => {
    const { link, connection } = await openLink(2);
    const closes = closesOf(link);
    addChannel(connection).onclose?.();
    await link.send(frameOf(KIB));
    expect(closes).toEqual([]);
  });

  test('closes an extra channel that opens after the end of the link', async () => {
    const { link, connection } = await openLink(1);
    const late = addChannel(connection);
    link.close();
    late.open();
    expect(late.readyState).toBe('closed');
  });

  test('sends three probes after the last frame, but none with a single channel', async () => {
    for (const [count, probes] of [
      [2, 3],
      [1, 0],
    ] as const) {
      const { link, channels } = await openLink(count);
      await link.send(frameOf(KIB));
      for (const channel of channels) channel.drainTo(0);
      vi.advanceTimersByTime(1000);
      const empty = channels.flatMap(({ sent }) => sent.filter(({ byteLength }) => byteLength === 0));
      expect(empty).toHaveLength(probes);
      link.close();
    }
  });

  test('does not send waiting frames of a generation after the view of this generation was closed', async () => {
    const { link, channels } = await openLink(1);
    const shared = new LinkAcrossGenerations(link);
    const [old, next] = [shared.view(1), shared.view(2)];
    const sends = Array.from({ length: 40 }, () => old.send(frameOf(64 * KIB)));
    const hello = next.send(createFrame(emptyFrameHeader(FrameKind.HELLO, 2), 0));
    old.close();
    await Promise.all([...sends, hello]);
    channels[0]!.drainTo(0);
    const sent = channels[0]!.sent.map((frame) => [generationOfFrame(frame), frameNumberOf(frame)]);
    expect(sent).toEqual([...Array.from({ length: 16 }, (_, number) => [1, number]), [2, 16]]);
  });

  test('immediately sends waiting frames over a new channel', async () => {
    const { link, connection, channels } = await openLink(1);
    fill(link, 20);
    expect(framesOver(channels)).toEqual([16]);
    const extra = addChannel(connection);
    expect(extra.sent).toEqual([]);
    extra.open();
    expect(framesOver([...channels, extra])).toEqual([16, 4]);
  });

  describe('whose channel is late', () => {
    test.each([
      ['small', 32, 80_000, 64_527],
      ['large', 64 * KIB, 2500, 1985],
    ])('limits %s frames in transit, and delivers all of them in order', async (_size, bytes, frames, most) => {
      const [mine, theirs] = [await openLink(2), await openLink(2)];
      const pairs = mine.channels.map((channel, i) => [channel, theirs.channels[i]!] as const);
      let received = 0;
      theirs.link.onframe = () => (received += 1);
      const closes = [closesOf(mine.link), closesOf(theirs.link)];
      for (let i = 0; i < frames; i++) void mine.link.send(frameOf(bytes));
      // The first channel has frame 0, and delivers nothing.
      const [[late, itsEnd], [quick, otherEnd]] = pairs as [[FakeChannel, FakeChannel], [FakeChannel, FakeChannel]];
      // The late channel has frame 0.
      let sent = 0;
      for (let more = 1; more > 0; sent += more) more = deliver(quick, otherEnd);
      expect([received, sent + late.sent.length]).toEqual([0, most]);
      for (let more = 1; more > 0;) {
        more = deliver(late, itsEnd) + deliver(quick, otherEnd) + deliver(itsEnd, late) + deliver(otherEnd, quick);
      }
      expect([received, ...closes]).toEqual([frames, [], []]);
    });

    test('closes if the other side acknowledges frames that were not sent', async () => {
      const { link, channels } = await openLink(2);
      const closes = closesOf(link);
      channels[0]!.onmessage?.({ data: new ArrayBuffer(1) });
      expect(closes).toEqual([
        expect.objectContaining({ message: expect.stringContaining('were not sent') as string }),
      ]);
    });
  });
});

test('a shared link reports the unsent bytes of all generations', async () => {
  const { link, channels } = await openLink(2);
  const shared = new LinkAcrossGenerations(link);
  fill(shared.view(1), 30);
  fill(shared.view(2), 10);
  const before = shared.traffic;
  for (const channel of channels) channel.drainTo(400 * KIB);
  channels[0]!.drainTo(0);
  const { unsent, sent } = shared.traffic;
  expect([before, unsent < before.unsent, unsent + sent]).toEqual([
    { unsent: 40 * 64 * KIB, sent: 0, received: 0 },
    true,
    40 * 64 * KIB,
  ]);
});
