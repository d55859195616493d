import { describe, expect, test } from 'vitest';
import {
  pagePartsHiddenInQuery,
  parsePageRoute,
  roomShareLink,
  hashWithSettings,
} from '../../../src/app/state/route.ts';

describe('parsePageRoute', () => {
  test.each(['', '#', '#/', '#?name=Ada'])('returns the home page for "%s"', (hash) => {
    expect(parsePageRoute(hash)).toMatchObject({ page: 'home', room: null, wrongCode: null });
  });

  test.each(['#K7F3QX', '#k7f-3qx', '#/K7F-3QX', '#K7F%203QX'])('returns the room K7F3QX for %s', (hash) => {
    expect(parsePageRoute(hash)).toMatchObject({ page: 'join', room: 'K7F3QX', auto: false, name: null });
  });

  test('reads a name and the flag to join automatically', () => {
    expect(parsePageRoute('#K7F3QX?name=Ada%20Lovelace&auto')).toMatchObject({ name: 'Ada Lovelace', auto: true });
    expect(parsePageRoute('#K7F3QX?name=%20')).toMatchObject({ name: null, auto: false });
    expect(parsePageRoute(`#K7F3QX?name=${'x'.repeat(99)}`).name).toHaveLength(40);
  });

  test('reads a rank, and returns NaN for an invalid rank', () => {
    expect(parsePageRoute('#K7F3QX?auto&rank=2').rank).toBe(2);
    expect(parsePageRoute('#K7F3QX?auto').rank).toBeNull();
    for (const text of ['', 'two', '-1', '1.5']) expect(parsePageRoute(`#K7F3QX?rank=${text}`).rank).toBeNaN();
  });

  test('reads which GPU kernels the tab uses, and returns `own` for an unknown name', () => {
    expect(parsePageRoute('#K7F3QX?auto&kernels=stock').kernels).toBe('stock');
    expect(['#K7F3QX', '#K7F3QX?kernels=fast'].map((hash) => parsePageRoute(hash).kernels)).toEqual(['own', 'own']);
  });

  test('returns the home page for an invalid room code, and keeps the code as it was typed', () => {
    expect(parsePageRoute('#K7F30X')).toMatchObject({ page: 'home', wrongCode: 'K7F30X' });
    expect(parsePageRoute('#%E0%A4%A')).toMatchObject({ page: 'home', wrongCode: '%E0%A4%A' });
  });

  test.each(['new', 'lesson', 'pipeline', 'recording', 'simulated'])('recognizes the page %s', (page) => {
    expect(parsePageRoute(`#${page}`)).toMatchObject({ page, room: null, wrongCode: null });
    expect(parsePageRoute(`#${page}?lang=zh`)).toMatchObject({ page });
  });
});

test('the link of a room is the address of the page, followed by # and the room code', () => {
  expect(roomShareLink({ origin: 'https://peergrad.example', pathname: '/' }, 'K7F3QX')).toBe(
    'https://peergrad.example/#K7F-3QX',
  );
});

test('the link of a room contains the settings of the page for guests', () => {
  const page = { origin: 'https://peergrad.example', pathname: '/' };
  const link = roomShareLink(page, 'K7F3QX', { lang: 'zh', hide: 'grid,ranks' });
  expect(link).toBe('https://peergrad.example/#K7F-3QX?lang=zh&hide=grid%2Cranks');
  const { room, query } = parsePageRoute(new URL(link).hash);
  expect([room, ...pagePartsHiddenInQuery(query)]).toEqual(['K7F3QX', 'grid', 'ranks']);
  expect(pagePartsHiddenInQuery(new URLSearchParams('hide=walls'))).toEqual(new Set());
});

test('withHashSettings adds settings after the name of the page, and removes settings that are null', () => {
  expect(hashWithSettings('#lesson', { n: '4' })).toBe('#lesson?n=4');
  expect(hashWithSettings('#K7F-3QX?auto&name=Ada%20L', { speed: '2' })).toBe('#K7F-3QX?auto&name=Ada+L&speed=2');
  expect(hashWithSettings('#new?seed=3&job=mnist', { seed: null })).toBe('#new?job=mnist');
  expect(hashWithSettings('', { lang: 'zh' })).toBe('#?lang=zh');
  expect(parsePageRoute('#lesson?n=4').query.get('n')).toBe('4');
});
