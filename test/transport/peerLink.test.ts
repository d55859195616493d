import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openPeerConnection } from '../../src/transport/peerLink.ts';
import { FakeChannel } from './fakeChannel.ts';

/** The part of a WebRTC connection that simple-peer uses, without a network. */
class FakeConnection extends EventTarget {
  static all: FakeConnection[] = [];
  connectionState: RTCPeerConnectionState = 'new';
  iceConnectionState: RTCIceConnectionState = 'new';
  readonly signalingState = 'stable';
  readonly localDescription = { type: 'offer', sdp: 'offer' };
  onconnectionstatechange: (() => void) | null = null;
  oniceconnectionstatechange: (() => void) | null = null;
  readonly #channels: FakeChannel[] = [];

  constructor() {
    super();
    FakeConnection.all.push(this);
    this.addEventListener('connectionstatechange', () => this.onconnectionstatechange?.());
  }

  createDataChannel(): FakeChannel {
    const channel = new FakeChannel();
    this.#channels.push(channel);
    return channel;
  }

  createOffer(): Promise<RTCSessionDescriptionInit> {
    return Promise.resolve({ type: 'offer', sdp: 'offer' });
  }

  setLocalDescription(): Promise<void> {
    return Promise.resolve();
  }

  getStats(): Promise<Map<string, object>> {
    return Promise.resolve(new Map([['pair', { id: 'pair', type: 'candidate-pair', selected: true }]]));
  }

  close(): void {}

  /** A text arrives over simple-peer's channel, which is the first. */
  receive(text: string): void {
    this.#channels[0]!.onmessage?.(new MessageEvent('message', { data: text }));
  }

  setIce(state: RTCIceConnectionState): void {
    this.iceConnectionState = state;
    this.oniceconnectionstatechange?.();
  }

  set(state: RTCPeerConnectionState): void {
    this.connectionState = state;
    this.dispatchEvent(new Event('connectionstatechange'));
  }

  connect(): void {
    this.set('connected');
    this.setIce('connected');
    for (const channel of this.#channels) channel.open();
  }
}

beforeEach(() => {
  FakeConnection.all = [];
  vi.stubGlobal('RTCPeerConnection', FakeConnection);
  vi.stubGlobal('RTCSessionDescription', Object);
  vi.stubGlobal('RTCIceCandidate', Object);
});
afterEach(() => vi.unstubAllGlobals());

/** Opens two connections to one peer. Returns the second one, and the errors of the link. */
async function openTwo() {
  const connection = openPeerConnection({ initiator: true, iceServers: [], connections: 2, onsignal: () => {} });
  const closes: (string | undefined)[] = [];
  connection.onclose = (error) => closes.push(error?.message);
  FakeConnection.all[0]!.connect();
  await vi.waitUntil(() => FakeConnection.all.length === 2);
  return { connection, extra: FakeConnection.all[1]!, closes };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a link ends with the error of an extra connection that fails after it was connected', async () => {
  const { extra, closes } = await openTwo();
  extra.connect();
  extra.set('failed');
  await settled();
  expect(closes).toEqual(['Connection failed.']);
});

test('a link continues if an extra connection cannot be opened', async () => {
  const { connection, extra, closes } = await openTwo();
  extra.set('failed');
  await settled();
  expect(closes).toEqual([]);
  connection.close();
  await settled();
  expect(closes).toEqual([undefined]);
});

test('a link continues if the other page refuses an extra connection', async () => {
  const { extra, closes } = await openTwo();
  const closed = vi.spyOn(extra, 'close');
  FakeConnection.all[0]!.receive(JSON.stringify({ type: 'refused', connection: 1 }));
  await settled();
  expect([closed.mock.calls.length, closes]).toEqual([1, []]);
});

test('a link reports that a connection has been disconnected for half a second, and that all connections work again', async () => {
  const { connection, extra } = await openTwo();
  extra.connect();
  const first = FakeConnection.all[0]!;
  const stalls: boolean[] = [];
  connection.onstall = (isStalled) => stalls.push(isStalled);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    first.setIce('disconnected');
    vi.advanceTimersByTime(499);
    first.setIce('connected');
    vi.advanceTimersByTime(1_000);
    const early = stalls.length;
    for (const one of [first, extra]) one.setIce('disconnected');
    vi.advanceTimersByTime(500);
    for (const one of [first, extra]) one.setIce('completed');
    expect([early, stalls]).toEqual([0, [true, true, true, false]]);
    first.setIce('disconnected');
    connection.close();
    await settled();
    vi.advanceTimersByTime(1_000);
    expect(stalls).toHaveLength(4);
  } finally {
    vi.useRealTimers();
  }
});

test('all links of a page share 128 extra connections, which Chromium allows beside 255 links', async () => {
  const connect = async (links: number) => {
    const before = FakeConnection.all.length;
    const made = Array.from({ length: links }, () =>
      openPeerConnection({ initiator: true, iceServers: [], connections: 4, onsignal: () => {} }),
    );
    for (const first of FakeConnection.all.slice(before)) first.connect();
    await settled();
    return { made, count: FakeConnection.all.length - before };
  };
  const { made, count } = await connect(255);
  expect(count).toBe(255 + 128);
  // A link without extra connections frees none.
  made.at(-1)!.close();
  await settled();
  expect((await connect(1)).count).toBe(1);
  // The first link had four connections.
  made[0]!.close();
  await settled();
  const again = await connect(2);
  expect(again.count).toBe(2 + 3);
  for (const connection of [...made, ...again.made]) connection.close();
  await settled();
  const { made: last, count: all } = await connect(32);
  expect(all).toBe(4 * 32);
  // The number belongs to the page, and so to all tests of this file.
  for (const connection of last) connection.close();
  await settled();
});
