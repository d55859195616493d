import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createFrame, emptyHeader, FrameKind } from '../../src/protocol/frame.ts';
import { openChannelLink, type Connection } from '../../src/transport/channelLink.ts';
import { UNKNOWN_WAY, type Link } from '../../src/transport/link.ts';
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
  return createFrame(emptyHeader(FrameKind.DATA, 1), bytes - 32);
}

/** Returns a channel of a further connection, before it is open. */
function addChannel(connection: Connection): FakeChannel {
  const channel = new FakeChannel();
  connection.onchannel?.(channel.asChannel);
  return channel;
}

/** Opens a link over this number of channels. */
async function openLink(count: number) {
  const first = new FakeChannel();
  const closeConnection = vi.fn<() => void>();
  const connection: Connection = {
    ...{ onclose: null, onchannel: null, describe: () => Promise.resolve(UNKNOWN_WAY), close: closeConnection },
  };
  const opening = openChannelLink(first.asChannel, connection);
  first.open();
  const link = await opening;
  const further = Array.from({ length: count - 1 }, () => addChannel(connection));
  for (const channel of further) channel.open();
  return { link, connection, closeConnection, channels: [first, ...further] };
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

describe('a link over several channels', () => {
  test('ends with the reason of the connection if a channel closes afterwards', async () => {
    const { link, connection, closeConnection, channels } = await openLink(2);
    const closes = closesOf(link);
    const reason = new PeerGoneError('Connection failed.');
    connection.onclose?.(reason);
    channels[1]!.onclose?.();
    vi.advanceTimersByTime(1000);
    expect(closes).toEqual([reason]);
    expect(closeConnection).toHaveBeenCalledOnce();
  });

  test('ends when it would send over a channel that has closed without an event', async () => {
    const { link, channels } = await openLink(2);
    const closes = closesOf(link);
    channels[0]!.bufferedAmount = 1;
    channels[1]!.close();
    await expect(link.send(frameOf(KIB))).rejects.toBeInstanceOf(PeerGoneError);
    expect(closes).toEqual([null]);
  });

  test('sends waiting frames over a new channel at once', async () => {
    const { link, connection, channels } = await openLink(1);
    fill(link, 20);
    expect(framesOver(channels)).toEqual([16]);
    const further = addChannel(connection);
    expect(further.sent).toEqual([]);
    further.open();
    expect(framesOver([...channels, further])).toEqual([16, 4]);
  });
});
