import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { localRankOf, seats } from '../../src/protocol/seating.ts';

const asking = (...ranks: (number | null)[]) => ranks.map((rank, i) => ({ name: 'abcdef'[i], rank }));
const names = (places: ({ name: string | undefined } | null)[]): string =>
  places.map((one) => one?.name ?? '-').join('');

describe('seats', () => {
  test.each([
    ['no members', [], 0, ''],
    ['no members in a world of two', [], 2, '--'],
    ['members without a requested rank', [null, null, null], 0, 'abc'],
    ['requested ranks, and gaps for the other members', [null, 3, null, 0], 0, 'dacb'],
    ['a requested rank above the number of members', [null, 2], 0, 'a-b'],
    ['free ranks for members that will join', [null, 1], 4, 'ab--'],
  ])('%s', (_, ranks, worldSize, expected) => {
    expect(names(seats(asking(...ranks), worldSize))).toBe(expected);
  });

  test('give every member a rank, without a gap if all requested ranks are below the number of members', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat({ max: 7 }), { maxLength: 8 }), fc.nat({ max: 8 }), (asked, others) => {
        const members = [...asked, ...Array<null>(others).fill(null)].map((rank, id) => ({ id, rank }));
        const places = seats(members);
        const seated = places.filter((one) => one !== null);
        expect(new Set(seated)).toEqual(new Set(members));
        expect(seated.length).toBe(members.length);
        places.forEach((one, rank) => expect(one?.rank ?? rank).toBe(rank));
        expect(places.includes(null)).toBe(asked.some((rank) => rank >= members.length));
      }),
    );
  });
});

test('the local rank is the index among the ranks of a browser', () => {
  const members = [0, 1, 0, 2, 0, 1].map((browser) => ({ browser }));
  const all = members.map((_, rank) => localRankOf(rank, members));
  expect(all.map(({ localRank }) => localRank)).toEqual([0, 0, 1, 0, 2, 1]);
  expect(all.map(({ localWorldSize }) => localWorldSize)).toEqual([3, 2, 3, 1, 3, 2]);
});
