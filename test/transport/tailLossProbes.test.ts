import { expect, test } from 'vitest';
import { TailLossProbes } from '../../src/transport/tailLossProbes.ts';
import { ManualClock } from '../manualClock.ts';

class Channel {
  bufferedAmount = 0;
  readyState: RTCDataChannelState = 'open';
  readonly probedAt: number[] = [];
  readonly #clock: ManualClock;

  constructor(clock: ManualClock) {
    this.#clock = clock;
  }

  send(data: unknown): void {
    expect((data as ArrayBuffer).byteLength).toBe(0);
    this.probedAt.push(this.#clock.now());
  }
}

function setUp() {
  const clock = new ManualClock();
  const channel = new Channel(clock);
  return { clock, channel, probes: new TailLossProbes(channel, clock) };
}

test('three probes follow the last message, ten milliseconds apart', () => {
  const { clock, channel, probes } = setUp();
  probes.sent();
  probes.sent();
  clock.advance(1000);
  expect(channel.probedAt).toEqual([10, 20, 30]);
  probes.sent();
  clock.advance(1000);
  expect(channel.probedAt).toHaveLength(6);
});

test('no probe is sent while messages wait in the channel', () => {
  const { clock, channel, probes } = setUp();
  channel.bufferedAmount = 1000;
  probes.sent();
  clock.advance(45);
  expect(channel.probedAt).toEqual([]);
  channel.bufferedAmount = 0;
  clock.advance(1000);
  expect(channel.probedAt).toEqual([50, 60, 70]);
});

test('no probe is sent over a closed channel, or after the link has closed', () => {
  const { clock, channel, probes } = setUp();
  probes.sent();
  probes.stop();
  clock.advance(1000);
  probes.sent();
  channel.readyState = 'closed';
  clock.advance(1000);
  expect(channel.probedAt).toEqual([]);
});
