import { expect, test } from 'vitest';
import { networkOf, siteOf } from '../../signaling/http/address.ts';
import { FailureCounter, MAX_ADDRESSES, SERVER_NETWORKS, SITE_NETWORKS, TokenBucket } from '../../signaling/limits.ts';
import { ManualClock } from '../manualClock.ts';

test('an address with too many failures is blocked until one minute after its first failure', () => {
  const clock = new ManualClock();
  const counter = new FailureCounter(clock, 2);
  counter.add('a', 'one');
  clock.advance(30_000);
  expect(counter.isBlocked('a')).toBe(false);
  counter.add('a', 'two');
  expect(counter.isBlocked('a')).toBe(true);
  expect(counter.isBlocked('b')).toBe(false);
  clock.advance(30_000);
  expect(counter.isBlocked('a')).toBe(false);
  counter.add('a', 'three');
  expect(counter.isBlocked('a')).toBe(false);
});

test('a failure that an address repeats counts once', () => {
  const counter = new FailureCounter(new ManualClock(), 2);
  for (let i = 0; i < 40; i++) counter.add('class', 'the link of yesterday');
  expect(counter.isBlocked('class')).toBe(false);
  counter.add('class', 'another');
  expect(counter.isBlocked('class')).toBe(true);
});

/** Returns the `i`th network of a site in the form that limits use. */
const networkIn = (site: string, i: number): string => networkOf(`2001:db8:${site}:${(i + 1).toString(16)}::1`);

test('all networks of a site are blocked if together they fail too often', () => {
  const clock = new ManualClock();
  const counter = new FailureCounter(clock, 2);
  for (let i = 0; i < 2 * SITE_NETWORKS - 1; i++) counter.add(networkIn('a', i), `code ${i}`);
  expect(counter.isBlocked(networkIn('a', 999))).toBe(false);
  counter.add(networkIn('a', 100), 'the last');
  for (const i of [0, 999]) expect(counter.isBlocked(networkIn('a', i))).toBe(true);
  expect(counter.isBlocked(networkIn('b', 0))).toBe(false);
  clock.advance(60_000);
  expect(counter.isBlocked(networkIn('a', 999))).toBe(false);
});

test('if all sites together fail too often, each site with failures is blocked, and other sites are not', () => {
  const clock = new ManualClock();
  const counter = new FailureCounter(clock, 1);
  for (let i = 0; i < SERVER_NETWORKS - 1; i++) counter.add(networkIn('a', i), `code ${i}`);
  clock.advance(1);
  counter.add('192.0.2.1', 'code 0');
  counter.add(networkIn('b', 0), 'code 1');
  expect(counter.isBlocked(networkIn('b', 1))).toBe(false);
  counter.add(networkIn('c', 0), 'another');
  for (const site of ['a', 'b', 'c']) expect(counter.isBlocked(networkIn(site, 999)), site).toBe(true);
  expect(counter.isBlocked('192.0.2.2')).toBe(false);
  counter.add('192.0.2.2', 'its first');
  expect(counter.isBlocked('192.0.2.2')).toBe(true);
  clock.advance(60_000);
  for (const site of ['a', 'b', 'c']) expect(counter.isBlocked(networkIn(site, 999)), site).toBe(false);
});

test('only a limited number of addresses with failures is remembered; the oldest one is forgotten first', () => {
  const clock = new ManualClock();
  const counter = new FailureCounter(clock, 1);
  counter.add('returning', 'code');
  counter.add('oldest', 'code');
  clock.advance(60_000);
  // A new minute begins for this address, so it is one of the youngest.
  counter.add('returning', 'code');
  for (let i = 0; i < MAX_ADDRESSES - 1; i++) counter.add(`address ${i}`, 'code');
  expect(counter.isBlocked('returning')).toBe(true);
  counter.add('one more', 'code');
  expect(counter.isBlocked('returning')).toBe(false);
  expect(counter.isBlocked('address 0')).toBe(true);
  expect(counter.isBlocked('one more')).toBe(true);
});

test('a token bucket allows one burst, and then only its rate', () => {
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
])('the address %s belongs to the network %s', (address, network) => {
  expect(networkOf(address)).toBe(network);
});

test.each([
  ['192.168.1.5', '192.168.1.5'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1::/48'],
  ['2001:db8::', '2001:db8:0::/48'],
  ['', ''],
])('the network of %s belongs to the site %s', (address, site) => {
  expect(siteOf(networkOf(address))).toBe(site);
});
