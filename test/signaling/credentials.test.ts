import { expect, test } from 'vitest';
import { Credentials } from '../../signaling/credentials.ts';

const SECRET = 'a secret of at least 16 characters';
const DAY_MS = 24 * 60 * 60 * 1000;

test('a token is valid for only one member of only one room', () => {
  const credentials = new Credentials(SECRET);
  const token = credentials.tokenFor('K7F3QX', 'member-ada');
  expect(credentials.isToken(token, 'K7F3QX', 'member-ada')).toBe(true);
  expect(credentials.isToken(token, 'K7F3QX', 'member-bo')).toBe(false);
  expect(credentials.isToken(token, 'AAAAAA', 'member-ada')).toBe(false);
});

test('a token is not a host key, and a host key is not a token', () => {
  const credentials = new Credentials(SECRET);
  const key = credentials.hostKeyFor('K7F3QX');
  expect(credentials.isHostKey(key, 'K7F3QX')).toBe(true);
  expect(credentials.isHostKey(key, 'AAAAAA')).toBe(false);
  expect(credentials.isHostKey(credentials.tokenFor('K7F3QX', 'member-ada'), 'K7F3QX')).toBe(false);
  expect(credentials.isToken(key, 'K7F3QX', '')).toBe(false);
});

test('a seal signs the removed members of one room; it is valid for no other list or room, and does not expire', () => {
  let now = 1_700_000_000_000;
  const credentials = new Credentials(SECRET, () => now);
  const members = ['member-ada', 'member-bo'];
  const seal = credentials.sealOf('K7F3QX', members);
  now += 1000 * DAY_MS;
  expect(credentials.isSeal(seal, 'K7F3QX', members)).toBe(true);
  expect(new Credentials(SECRET).isSeal(seal, 'K7F3QX', members)).toBe(true);
  expect(new Credentials(null).isSeal(seal, 'K7F3QX', members)).toBe(false);
  expect(credentials.isSeal(seal, 'AAAAAA', members)).toBe(false);
  for (const others of [['member-ada'], ['member-bo', 'member-ada'], [], ['member-cy']]) {
    expect(credentials.isSeal(seal, 'K7F3QX', others), others.join()).toBe(false);
  }
  expect(credentials.isSeal('', 'K7F3QX', members)).toBe(false);
});

test('credentials are valid after a restart only with the same secret', () => {
  const before = new Credentials(SECRET);
  const token = before.tokenFor('K7F3QX', 'member-ada');
  expect(new Credentials(SECRET).isToken(token, 'K7F3QX', 'member-ada')).toBe(true);
  expect(new Credentials('another secret of theirs').isToken(token, 'K7F3QX', 'member-ada')).toBe(false);
  expect(new Credentials(null).isToken(token, 'K7F3QX', 'member-ada')).toBe(false);
  expect([before.areLasting, new Credentials(null).areLasting]).toEqual([true, false]);
});

test('credentials are valid for a day', () => {
  let now = 1_700_000_000_000;
  const credentials = new Credentials(SECRET, () => now);
  const token = credentials.tokenFor('K7F3QX', 'member-ada');
  now += DAY_MS - 1000;
  expect(credentials.isToken(token, 'K7F3QX', 'member-ada')).toBe(true);
  now += 1000;
  expect(credentials.isToken(token, 'K7F3QX', 'member-ada')).toBe(false);
});

test('half of the lifetime of credentials is over after half a day', () => {
  let now = 1_700_000_000_000;
  const credentials = new Credentials(SECRET, () => now);
  const [token, key] = [credentials.tokenFor('K7F3QX', 'member-ada'), credentials.hostKeyFor('K7F3QX')];
  now += DAY_MS / 2 - 1000;
  expect([credentials.isHalfOver(token), credentials.isHalfOver(key)]).toEqual([false, false]);
  now += 1000;
  expect([credentials.isHalfOver(token), credentials.isHalfOver(key)]).toEqual([true, true]);
});

test('credentials are rejected if their expiry or signature was changed', () => {
  const credentials = new Credentials(SECRET);
  const token = credentials.tokenFor('K7F3QX', 'member-ada');
  const [expiry, update] = token.split('.') as [string, string];
  const forged = [
    `${(Number.parseInt(expiry, 36) + 60).toString(36)}.${update}`,
    '',
    '.',
    expiry,
    `${expiry}.`,
    `.${update}`,
    `zzzzzzzz.${update}`,
    `${expiry}.${update.slice(1)}`,
    `${expiry}.${update.startsWith('A') ? 'B' : 'A'}${update.slice(1)}`,
  ];
  for (const one of forged) expect(credentials.isToken(one, 'K7F3QX', 'member-ada'), one).toBe(false);
});

test('a secret that is too short is rejected', () => {
  expect(() => new Credentials('short')).toThrow(/at least 16 characters/);
});
