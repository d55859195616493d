import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { localRankOf, seats } from '../../src/protocol/seating.ts';

const asking = (...ranks: (number | null)[]) => ranks.map((rank, i) => ({ name: 'abcdef'[i], rank }));
const names = (places: ({ name: string | undefined } | null)[]): string =>
  places.map((one) => one?.name ?? '-').join('');

describe('seats', () => {
  test.each([
    ['nobody', [], 0, ''],
    ['nobody, in a world of two', [], 2, '--'],
    ['the order given', [null, null, null], 0, 'abc'],
    ['ranks asked for, gaps to the others', [null, 3, null, 0], 0, 'dacb'],
    ['a rank beyond those who are there', [null, 2], 0, 'a-b'],
    ['places for those to come', [null, 1], 4, 'ab--'],
  ])('%s', (_, ranks, worldSize, expected) => {
    expect(names(seats(asking(...ranks), worldSize))).toBe(expected);
  });

  test('every member has a rank, and there is no gap if all ranks fit', () => {
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

test('a rank counts the ranks of its browser', () => {
  const members = [0, 1, 0, 2, 0, 1].map((browser) => ({ browser }));
  const all = members.map((_, rank) => localRankOf(rank, members));
  expect(all.map(({ localRank }) => localRank)).toEqual([0, 0, 1, 0, 2, 1]);
  expect(all.map(({ localWorldSize }) => localWorldSize)).toEqual([3, 2, 3, 1, 3, 2]);
});
