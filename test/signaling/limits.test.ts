import { expect, test } from 'vitest';
import { networkOf } from '../../signaling/address.ts';
import { FailureCounter, MAX_ADDRESSES, TokenBucket } from '../../signaling/limits.ts';
import { ManualClock } from '../manualClock.ts';

test('an address is blocked for the rest of its minute', () => {
  const clock = new ManualClock();
  const counter = new FailureCounter(clock, 2);
  counter.add('a');
  clock.advance(30_000);
  expect(counter.isBlocked('a')).toBe(false);
  counter.add('a');
  expect(counter.isBlocked('a')).toBe(true);
  expect(counter.isBlocked('b')).toBe(false);
  clock.advance(30_000);
  expect(counter.isBlocked('a')).toBe(false);
  counter.add('a');
  expect(counter.isBlocked('a')).toBe(false);
});

test('so many addresses are remembered and no more: the oldest is forgotten', () => {
  const clock = new ManualClock();
  const counter = new FailureCounter(clock, 1);
  counter.add('returning');
  counter.add('oldest');
  clock.advance(60_000);
  // Its minute begins anew, which makes it one of the youngest.
  counter.add('returning');
  for (let i = 0; i < MAX_ADDRESSES - 1; i++) counter.add(`address ${i}`);
  expect(counter.isBlocked('returning')).toBe(true);
  counter.add('one more');
  expect(counter.isBlocked('returning')).toBe(false);
  expect(counter.isBlocked('address 0')).toBe(true);
  expect(counter.isBlocked('one more')).toBe(true);
});

test('a bucket lets a burst through at once and the rest at its pace', () => {
  const clock = new ManualClock();
  const bucket = new TokenBucket(clock, 2, 3);
  const taken = () => Array.from({ length: 5 }, () => bucket.take()).filter(Boolean).length;
  expect(taken()).toBe(3);
  clock.advance(1_000);
  expect(taken()).toBe(2);
});

test.each([
  ['192.168.1.5', '192.168.1.5'],
  ['::ffff:192.168.1.5', '192.168.1.5'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::1', '2001:db8:1:2::/64'],
  ['2001:db8::3:4:5:6', '2001:db8:0:0::/64'],
  ['2001:db8::', '2001:db8:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['', ''],
])('%s counts as %s', (address, network) => {
  expect(networkOf(address)).toBe(network);
});
